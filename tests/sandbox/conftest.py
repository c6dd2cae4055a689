import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.sandbox.bubblewrap import Bubblewrap

REPOSITORY = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("driver.py")
NOBODY = 65534
COMPANION = """
import sys
sys.path.insert(0, sys.argv[1])
from ptb_tui.run.companion import main
sys.exit(main(sys.argv[2:]))
"""


class Boxes:
    """Starts sandboxes of one user over one temporary place."""

    def __init__(self, place: Path, nobody: bool) -> None:
        self.place = place
        self.nobody = nobody
        self.home = place / "a home, “quoted”: 'x' \"y\" ü"
        self.started: list[subprocess.Popen[bytes]] = []
        (self.home / "task").mkdir(parents=True)
        self.give(self.home)

    def give(self, folder: Path) -> None:
        if self.nobody:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def start(self, *argv: str, stdout: int = subprocess.PIPE, **more: Any) -> subprocess.Popen[bytes]:
        env = more.pop("env", {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        request = {"argv": argv, "home": str(self.home), "workdir": "task", "env": env, **more}
        words = self._as_user(str(DRIVER), str(REPOSITORY))
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE)
        self.started.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps(request, default=str).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def _as_user(self, *words: str) -> list[str]:
        if not self.nobody:
            return [sys.executable, "-I", *words]
        change = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        return [*change, "/usr/bin/python3", "-I", *words]

    def companion(self, **settings: Any) -> subprocess.Popen[bytes]:
        """A companion over `scratch`; its socket is `self.socket`, its ledger `self.ledger`."""
        scratch = self.place / "a scratch: ü 'x'"
        if not scratch.exists():
            scratch.mkdir()
            self.give(scratch)
        said = {"socket": str(self.socket), "ledger": str(self.ledger), "allow": None, **settings}
        (scratch / "companion.json").write_text(json.dumps(said))
        process = subprocess.Popen(
            self._as_user("-c", COMPANION, str(REPOSITORY), str(scratch)), stderr=subprocess.PIPE
        )
        self.started.append(process)
        return process

    @property
    def socket(self) -> Path:
        return self.place / "a scratch: ü 'x'" / "gw" / "gateway.sock"

    @property
    def ledger(self) -> Path:
        return self.place / "a scratch: ü 'x'" / "egress.jsonl"

    def run(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        process = self.start(*argv, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def python(self, code: str, *argv: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return self.run("/usr/bin/python3", "-I", "-c", code, *argv, **more)


@pytest.fixture(params=["self", "nobody"])
def boxes(request: pytest.FixtureRequest) -> Iterator[Boxes]:
    works, reason = Bubblewrap().probe()
    if not works:
        pytest.skip(reason)
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("no /usr/bin/python3 to run inside")
    nobody = request.param == "nobody"
    if nobody:
        _skip_unless_nobody_can()
    place = Path(tempfile.mkdtemp(prefix="ptb-sandbox-"))
    place.chmod(0o755)
    boxes = Boxes(place, nobody)
    yield boxes
    for process in boxes.started:
        process.kill()
        process.communicate(timeout=30)
    shutil.rmtree(place)


def _skip_unless_nobody_can() -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv to become a user without rights")
    check = f"import os, sys; sys.exit(sys.version_info < (3, 11) or not os.access({str(DRIVER)!r}, os.R_OK))"
    words = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "/usr/bin/python3", "-I"]
    if subprocess.run([*words, "-c", check], check=False).returncode:
        pytest.skip("a user without rights can neither read this repository nor use a Python ≥ 3.11")


@pytest.fixture
def until() -> Callable[..., Any]:
    """Polls a condition until it is true, or fails."""

    def wait(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        limit = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < limit, "it did not happen in time"
            time.sleep(0.02)

    return wait
