"""The cache of the hub inside a sandbox: found, added to, never changed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.run.hubview import TARGET, View, lay_out
from ptb_tui.sandbox.base import Request, apply_limits
from ptb_tui.sandbox.bubblewrap import Bubblewrap

COMMIT = "d" * 40
DEMO = Path(__file__).resolve().parents[2] / "containers" / "models" / "demo-base"
FOLDER = "models--org--tiny"

LOOK = r"""
import json, os, pathlib, sys
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
top = pathlib.Path(snapshot_download("org/tiny"))
found = {"files": sorted(path.name for path in top.iterdir()), "config": json.loads((top / "config.json").read_text())}
if "--load" in sys.argv:
    from transformers import AutoTokenizer
    found["tokens"] = AutoTokenizer.from_pretrained("org/tiny").vocab_size
def attempt(action):
    try:
        action()
        return "done"
    except OSError as error:
        return error.strerror
hub = pathlib.Path(os.environ["HF_HOME"]) / "hub"
repo = hub / "models--org--tiny"
bound = pathlib.Path("/opt/ptb/hf/hub/models--org--tiny")
found["attempts"] = {
    "change a cached file": attempt(lambda: (top / "config.json").write_text("evil")),
    "change it at the bind": attempt(lambda: (bound / "refs" / "main").write_text("evil")),
    "add at the bind": attempt(lambda: (bound / "blobs" / "new").write_text("evil")),
    "delete at the bind": attempt(lambda: (bound / "refs" / "main").unlink()),
    "a newer commit": attempt(lambda: (repo / "refs" / "main").write_text("e" * 40)),
    "its snapshot": attempt(lambda: (repo / "snapshots" / ("e" * 40)).mkdir()),
    "its file": attempt(lambda: (repo / "blobs" / "fresh").write_text("fresh")),
    "another model": attempt(lambda: (hub / "models--a--b" / "blobs").mkdir(parents=True)),
    "replace a cached file": attempt(lambda: (top / "config.json").unlink()),
    "a data set's lock": attempt(lambda: (hub.parent / "datasets" / "o___d" / "x.lock").write_text("")),
}
found["token"] = sorted(os.listdir("/opt/ptb/hf")) if bound.exists() else []
print(json.dumps(found))
"""


def host_cache(home: Path) -> Path:
    """What a site has: a model as the hub's library leaves it, a data set as `datasets` leaves it, a login."""
    top = home / "hub" / FOLDER
    snapshot = top / "snapshots" / COMMIT
    for folder in (
        top / "blobs",
        top / "refs",
        snapshot,
        home / "hub" / ".locks" / FOLDER,
        home / "datasets" / "o___d",
    ):
        folder.mkdir(parents=True)
    for number, file in enumerate(sorted(DEMO.iterdir())):
        (top / "blobs" / f"blob{number}").write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(f"../../blobs/blob{number}")
    (top / "refs" / "main").write_text(COMMIT)
    (top / "blobs" / "half.incomplete").write_text("half")
    (home / "hub" / ".locks" / FOLDER / "x.lock").write_text("")
    (home / "datasets" / "o___d" / "data.arrow").write_text("arrow")
    (home / "token").write_text("hf_login_of_the_operator")
    return home


def state(folder: Path) -> dict[str, str]:
    """Every file and link of a tree with what it holds."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = Path(base) / name
            text = os.readlink(path) if path.is_symlink() else path.read_bytes().hex()
            found[str(path.relative_to(folder))] = text
    return found


def look(home: Path, view: View, *, load: bool = False) -> dict[str, object]:
    """Run LOOK in a real sandbox over this home, without a network."""
    sandbox = Bubblewrap()
    works, words = sandbox.probe()
    if not works:
        pytest.skip(words)
    (home / "task").mkdir()
    env = {
        "PATH": ":".join(sandbox.path()),
        "HOME": "/home/ben",
        "HF_HOME": "/home/ben/hf_cache",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    argv = (sys.executable, "-c", LOOK, *(["--load"] if load else []))
    command = sandbox.command(Request(argv=argv, home=home, workdir="task", binds=tuple(view.binds), env=env))
    done = subprocess.run(
        command.argv,
        env=command.env,
        cwd=command.cwd,
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=lambda: apply_limits(command.limits),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.bubblewrap
def test_the_hubs_libraries_find_what_is_cached_and_no_write_reaches_the_host(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    cache = host_cache(tmp_path / "hf")
    before = state(cache)
    home = tmp_path / "home"
    view = lay_out(cache, home / "hf_cache")
    found = look(home, view, load=True)
    assert found["files"] == sorted(file.name for file in DEMO.iterdir())
    assert found["config"] == json.loads((DEMO / "config.json").read_text()) and found["tokens"]
    readonly = "Read-only file system"
    assert found["attempts"] == {
        "change a cached file": readonly,
        "change it at the bind": readonly,
        "add at the bind": readonly,
        "delete at the bind": readonly,
        "a newer commit": "done",
        "its snapshot": "done",
        "its file": "done",
        "another model": "done",
        "replace a cached file": "done",
        "a data set's lock": "done",
    }
    assert found["token"] == ["datasets", "hub"], "the operator's login is not shown"
    assert state(cache) == before
    assert view.notes == ()


def test_the_view_holds_links_and_folders_of_its_own(tmp_path: Path) -> None:
    cache, into = host_cache(tmp_path / "hf"), tmp_path / "view"
    view = lay_out(cache, into)
    assert [(bind.source, bind.target, bind.writable) for bind in view.binds] == [
        (cache / "hub", f"{TARGET}/hub", False),
        (cache / "datasets", f"{TARGET}/datasets", False),
    ]
    shown = state(into)
    assert shown[f"hub/{FOLDER}/refs/main"] == COMMIT.encode().hex(), "a file of its own"
    assert shown[f"hub/{FOLDER}/blobs/blob0"] == f"{TARGET}/hub/{FOLDER}/blobs/blob0"
    assert shown[f"hub/{FOLDER}/snapshots/{COMMIT}/config.json"].startswith("../../blobs/")
    assert shown["datasets/o___d/data.arrow"] == f"{TARGET}/datasets/o___d/data.arrow"
    assert not [name for name in shown if "lock" in name or "incomplete" in name or name.endswith("token")]
    assert view.files == len(shown)


def test_links_out_of_the_cache_are_left_out_and_told(tmp_path: Path) -> None:
    cache = host_cache(tmp_path / "hf")
    (tmp_path / "secret").write_text("secret")
    (cache / "hub" / "models--org--linked").symlink_to(tmp_path)
    (cache / "hub" / FOLDER / "up").symlink_to("../../../secret")
    (cache / "hub" / FOLDER / "across").symlink_to("../../datasets/o___d/data.arrow")
    view = lay_out(cache, tmp_path / "view")
    assert len(view.left_out) == 3 and "3 entries of the hub's cache lead out of it" in view.notes[0]
    assert not os.path.lexists(tmp_path / "view" / "hub" / "models--org--linked")


def test_a_file_in_motion_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is listed, then `data cache` takes its files and folders away."""
    cache = host_cache(tmp_path / "hf")
    top = cache / "hub" / FOLDER
    (top / "refs" / "moving").write_text(COMMIT)
    (top / "moving").symlink_to("refs/main")
    (top / "zz-moving").mkdir()
    scan = os.scandir

    def taken(path: str) -> object:
        with scan(path) as found:
            entries = list(found)
        for entry in entries:
            if "moving" in entry.name:
                os.rmdir(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        return contextlib.nullcontext(entries)

    monkeypatch.setattr("ptb_tui.run.hubview.os.scandir", taken)
    view = lay_out(cache, tmp_path / "view")
    monkeypatch.undo()
    shown = state(tmp_path / "view")
    assert f"hub/{FOLDER}/refs/main" in shown and not [name for name in shown if "moving" in name]
    assert view.left_out == [] and view.files == len(shown)


def test_a_cache_that_is_a_link_itself_or_is_not_there(tmp_path: Path) -> None:
    cache = host_cache(tmp_path / "disk")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "hub").symlink_to(cache / "hub")
    view = lay_out(tmp_path / "hf", tmp_path / "view")
    assert [bind.source for bind in view.binds] == [cache / "hub"]
    empty = lay_out(tmp_path / "nowhere", tmp_path / "other")
    assert empty.binds == [] and empty.files == 0 and (tmp_path / "other").is_dir()


def test_without_isolation_the_links_lead_to_the_cache_itself(tmp_path: Path) -> None:
    cache = host_cache(tmp_path / "hf")
    view = lay_out(cache, tmp_path / "view", isolated=False)
    assert view.binds == []
    config = tmp_path / "view" / "hub" / FOLDER / "snapshots" / COMMIT / "config.json"
    assert config.read_bytes() == (DEMO / "config.json").read_bytes()
