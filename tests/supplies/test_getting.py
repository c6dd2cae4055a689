"""Updates of CLIs: with a stand-in for npm, with npm itself at a registry on this machine, and with installers."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import PtbError
from ptb_tui.sandbox.base import Bind, Request
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.supplies import getting, trees
from ptb_tui.supplies.clis import Cli
from ptb_tui.supplies.store import Installed, Store
from tests.polling import until
from tests.supplies.npmlike import NODE, Npm

REPOSITORY = Path(__file__).parents[2]
CODEX = Cli(binary="codex", package="@openai/codex", node="22")
UPDATE = """
import json, sys
from pathlib import Path
from ptb_tui.supplies.clis import Cli
from ptb_tui.supplies.getting import update
from ptb_tui.supplies.store import Store
store, name, cli, node, version = sys.argv[1:]
print(update(Store(Path(store)), name, Cli.model_validate_json(cli), node, version, lambda words: None).name)
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    made = Npm(tmp_path / "npm")
    monkeypatch.setenv("PATH", f"{made.path}:{os.environ['PATH']}")
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    yield Store(tmp_path / "clis")
    trees.remove(tmp_path / "clis")  # nothing of it can be written


def get(store: Store, version: str = "", cli: Cli = CODEX, name: str = "codex", *, keep: bool = False) -> Installed:
    return getting.update(store, name, cli, NODE, version, lambda words: None, keep=keep)


def begin(store: Store, version: str = "") -> subprocess.Popen[str]:
    words = [sys.executable, "-c", UPDATE, str(store.path), "codex", CODEX.model_dump_json(), NODE, version]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def starts(store: Store, version: Installed, *words: str) -> str:
    program = store.tree(version) / "bin" / "codex"
    env = {"PATH": "/usr/bin:/bin"}
    return subprocess.run([program, *words], env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_a_cli_and_its_node_come_as_one_tree_that_starts_by_itself(npm: Npm, store: Store) -> None:
    npm.cli("1.0.0")
    made = get(store)
    assert (made.version, made.node, made.source, made.said) == ("1.0.0", "22.9.9", "@openai/codex", "codex-cli 1.0.0")
    assert made.name == f"1.0.0-{made.digest[:12]}" and store.current("codex") == made
    tree = store.tree(made)
    assert [entry.name for entry in (tree / "bin").iterdir()] == ["codex"], "nothing else comes first in PATH"
    assert starts(store, made, "--version") == "codex-cli 1.0.0"
    assert not [path for path in (tree, *tree.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o222]
    assert store.newest("codex")[0] == "1.0.0"
    assert not list((store.path / "tmp").iterdir())


def test_what_is_there_is_not_fetched_again(npm: Npm, store: Store) -> None:
    npm.cli("1.0.0")
    one = get(store)
    npm.cli("1.1.0")
    two = get(store)
    assert len(npm.calls(f"{NODE}@22.9.9")) == 1, "Node is shared"
    node = [store.tree(version) / "node" / "bin" / "node" for version in (one, two)]
    assert node[0].stat().st_ino == node[1].stat().st_ino
    before = len(npm.calls("install"))
    assert get(store, "1.0.0") == one and store.current("codex") == one
    assert len(npm.calls("install")) == before
    assert len(npm.calls("view @openai/codex")) == 2, "a version that is named needs no question either"
    assert store.roll_back("codex") == two


def test_a_version_can_be_got_without_becoming_current(npm: Npm, store: Store) -> None:
    npm.cli("0.9.0")
    old = get(store, "0.9.0", keep=True)
    assert store.find("codex", "0.9.0") == old and store.current("codex") is None, "nothing was current before"
    npm.cli("1.0.0")
    one = get(store)
    assert get(store, "0.9.0", keep=True) == old and store.current("codex") == one
    assert store.pin("agent", "codexlow", "codex", "0.9.0") == old


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/usr/bin/env node\nexit 3\n", "does not start here: status 3"),
        ("#!/usr/bin/env node\n:\n", "does not start here: status 0"),
        ("#!/usr/bin/env node\necho ${HOME:?} $CODEX_API_KEY secret-of-test; exit 1\n", "status 1"),
    ],
)
def test_a_cli_that_does_not_start_leaves_everything_as_it_was(
    npm: Npm, store: Store, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    npm.cli("1.0.0")
    one = get(store)
    monkeypatch.setenv("CODEX_API_KEY", "a-key-of-the-operator")
    npm.package("@openai/codex", "2.0.0", {"bin/codex.js": script}, {"codex": "bin/codex.js"})
    with pytest.raises(PtbError, match=words) as error:
        get(store)
    assert "a-key-of-the-operator" not in str(error.value)
    assert store.current("codex") == one and store.versions("codex") == (one,)
    npm.cli("2.0.0")
    assert get(store).version == "2.0.0", "and is got when it has been repaired"


def test_mistakes_of_packages_are_named(npm: Npm, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    npm.package("@openai/codex", "1.0.0", {}, {"other": "bin/x"})
    with pytest.raises(PtbError, match="has no program codex"):
        get(store)
    npm.package("@openai/codex", "1.0.1", {"../out.js": "x"}, {"codex": "../out.js"})
    with pytest.raises(PtbError, match="has no program codex"):
        get(store)
    with pytest.raises(PtbError, match=r"npm install ended with status 1: .*404 @openai/codex@9\.9\.9"):
        get(store, "9.9.9")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PtbError, match="npm is not installed here"):
        get(store)


def test_two_updates_at_once_end_with_one_tree(npm: Npm, store: Store) -> None:
    npm.cli("1.0.0")
    both = [begin(store), begin(store)]
    names = set()
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        names.add(out.strip())
    current = store.current("codex")
    assert current is not None and names == {current.name}
    assert [version.name for version in store.versions("codex")] == [current.name]
    assert starts(store, current, "--version") == "codex-cli 1.0.0"
    assert not list((store.path / "tmp").iterdir())


def test_an_update_that_is_killed_leaves_the_old_version(npm: Npm, store: Store) -> None:
    npm.cli("1.0.0")
    one = get(store)
    npm.cli("2.0.0")
    (npm.base / "hang").touch()
    process = begin(store)
    try:
        child = int(until(lambda: (npm.base / "reached").exists() and (npm.base / "reached").read_text()))
    finally:
        process.kill()
        process.communicate(timeout=30)
    os.kill(child, signal.SIGKILL)
    assert store.current("codex") == one and store.versions("codex") == (one,)
    assert starts(store, one, "--version") == "codex-cli 1.0.0"
    (npm.base / "hang").unlink()
    assert get(store).version == "2.0.0"


def test_a_tree_that_was_placed_but_never_seen_to_start_is_taken_over(npm: Npm, store: Store) -> None:
    npm.cli("1.0.0")
    one = get(store)
    (store.path / "codex" / f"{one.name}.json").unlink()
    (store.path / "codex" / "current.json").unlink()
    assert get(store).name == one.name


def test_a_run_keeps_the_version_it_began_with(npm: Npm, store: Store, tmp_path: Path) -> None:
    npm.cli("1.0.0")
    one = get(store)
    go = tmp_path / "go"
    program = store.tree(one) / "bin" / "codex"
    with subprocess.Popen([program, "wait", go], stdout=subprocess.PIPE, text=True) as running:
        npm.cli("2.0.0")
        two = get(store)
        assert store.current("codex") == two
        go.touch()
        assert running.communicate(timeout=30)[0] == "codex-cli 1.0.0\n"
    assert starts(store, one, "--version") == "codex-cli 1.0.0" and starts(store, two, "--version").endswith("2.0.0")


@pytest.mark.bubblewrap
def test_a_sandbox_sees_it_read_only_at_its_own_place(npm: Npm, store: Store, tmp_path: Path) -> None:
    box = Bubblewrap()
    works, why = box.probe()
    if not works:
        pytest.skip(why)
    npm.cli("1.0.0")
    tree = store.tree(get(store))
    (tmp_path / "home" / "task").mkdir(parents=True)
    script = "codex --version; codex where; touch /opt/ptb/cli/bin/x || touch /opt/ptb/cli/bin/codex || echo no"
    request = Request(
        argv=("bash", "-c", script),
        home=tmp_path / "home",
        workdir="task",
        binds=(Bind(tree, "/opt/ptb/cli"),),
        env={"PATH": f"/opt/ptb/cli/bin:{':'.join(box.path())}", "HOME": "/home/ben"},
    )
    command = box.command(request)
    done = subprocess.run(command.argv, env=command.env, cwd=command.cwd, capture_output=True, text=True, timeout=60)
    inside = "/opt/ptb/cli/lib/node_modules/@openai/codex/bin/codex.js"
    assert done.stdout.splitlines() == ["codex-cli 1.0.0", inside, "no"], done.stderr


def test_a_program_that_is_not_for_node_is_started_as_it_is(npm: Npm, store: Store) -> None:
    script = "#!/bin/sh\necho native 3.2.1\n"
    npm.package("native", "3.2.1", {"bin/native.exe": script}, {"native": "bin/native.exe"})
    made = get(store, cli=Cli(binary="native", package="native"), name="native")
    assert made.said == "native 3.2.1" and made.node == ""
    assert not (store.tree(made) / "node").exists()


class Registry:
    """The part of npm's registry that `npm view` and `npm install` need, and files for installers."""

    def __init__(self) -> None:
        self.tarballs: dict[str, bytes] = {}
        self.packages: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urllib.parse.unquote(request.path.partition("?")[0]).lstrip("/")
        body = self.tarballs.get(path) or self.files.get(path)
        if path in self.packages:
            body = json.dumps(self.packages[path]).encode()
        request.send_response(200 if body is not None else 404)
        request.send_header("Content-Type", "application/json" if path in self.packages else "application/octet-stream")
        request.send_header("Content-Length", str(len(body or b"{}")))
        request.end_headers()
        request.wfile.write(body or b"{}")

    def add(self, folder: Path) -> None:
        """Publish a package of the stand-in."""
        record = json.loads((folder / "package.json").read_text())
        name, version = record["name"], record["version"]
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            tar.add(folder, "package")
        place = f"-/{name.replace('/', '-')}-{version}.tgz"
        self.tarballs[place] = data.getvalue()
        digest = base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
        package = self.packages.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}})
        package["dist-tags"]["latest"] = version
        dist = {"tarball": f"{self.address}/{place}", "integrity": f"sha512-{digest}"}
        package["versions"][version] = {**record, "dist": dist}


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here")
def test_npm_itself_at_a_registry(
    registry: Registry, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Npm(tmp_path / "packages")  # as a maker of packages alone
    registry.add(source.base / "packages" / NODE / "22.9.9")
    registry.add(source.cli("0.9.0"))
    registry.add(source.cli("1.0.0"))
    monkeypatch.setenv("npm_config_registry", registry.address)
    monkeypatch.setenv("npm_config_prefix", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("HOME", str(tmp_path))
    made = get(store)
    assert (made.version, made.node, made.said) == ("1.0.0", "22.9.9", "codex-cli 1.0.0")
    assert not (tmp_path / "elsewhere").exists()


INSTALLER = """#!/bin/bash
set -e
place=$HOME/.local/share/cursor-agent/versions/2026.01.05-abc
mkdir -p "$place" "$HOME/.local/bin" "$HOME/.cache/x"
cat >"$place/cursor-agent" <<'X'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
[ -e "$here/data" ] || exit 9
echo 2026.01.05-abc
X
chmod +x "$place/cursor-agent"
echo data >"$place/data"
ln -s "$place/cursor-agent" "$HOME/.local/bin/cursor-agent"
ln -s "$place/cursor-agent" "$HOME/.local/bin/agent"
echo "export PATH=$HOME/.local/bin:\\$PATH" >>"$HOME/.bashrc"
[ -z "$CURSOR_API_KEY" ]
"""


def installed_by(registry: Registry) -> Cli:
    return Cli(binary="cursor-agent", installer=f"{registry.address}/install", program=".local/bin/cursor-agent")


def test_an_installer_fills_a_home_that_may_be_moved(
    registry: Registry, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURSOR_API_KEY", "a-key-of-the-operator")
    registry.files["install"] = INSTALLER.encode()
    made = get(store, cli=installed_by(registry), name="cursor-agent")
    assert (made.version, made.said, made.node) == ("2026.01.05-abc", "2026.01.05-abc", "")
    tree = store.tree(made)
    assert sorted(entry.name for entry in (tree / "bin").iterdir()) == ["cursor-agent"]
    assert sorted(entry.name for entry in (tree / "home").iterdir()) == [".local"]
    again = get(store, cli=installed_by(registry), name="cursor-agent")
    assert again.digest == made.digest, "the place where the script ran is in none of it"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (b"echo out of order >&2; exit 4", "ended with status 4: out of order"),
        (b"true", "left no program .local/bin/cursor-agent"),
        (b'mkdir -p "$HOME/.local/bin"; ln -s /bin/true "$HOME/.local/bin/cursor-agent"', "outside of what was"),
        (b" ", "is empty"),
        (None, "cannot be fetched: HTTP Error 404"),
    ],
)
def test_an_installer_that_fails_is_told(registry: Registry, store: Store, script: bytes | None, words: str) -> None:
    if script is not None:
        registry.files["install"] = script
    with pytest.raises(PtbError, match=words):
        get(store, cli=installed_by(registry), name="cursor-agent")
    assert store.versions("cursor-agent") == () and not list((store.path / "tmp").iterdir())


def test_an_installer_has_no_versions(registry: Registry, store: Store) -> None:
    with pytest.raises(PtbError, match="brings the newest version alone"):
        get(store, "1.0", installed_by(registry), "cursor-agent")
