import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import ConfigError
from ptb_tui.run.companion import main, settings
from tests.polling import until

REPOSITORY = Path(__file__).parents[2]
START = [sys.executable, "-I", "-c"]
CODE = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from ptb_tui.run.companion import main
sys.exit(main(sys.argv[1:]))
"""


def write(scratch: Path, **more: Any) -> None:
    said = {"socket": str(scratch / "gw" / "s"), "ledger": str(scratch / "ledger"), "allow": [], **more}
    (scratch / "companion.json").write_text(json.dumps(said))


def ask(path: Path, place: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(str(path))
        link.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        return link.recv(12)


@pytest.mark.parametrize(
    "more",
    [
        {"socket": "relative"},
        {"ledger": None},
        {"allow": "x:1"},
        {"allow": [1]},
        {"allow": ["a b"]},
        {"also": {}},
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, more: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, **more)
    with pytest.raises(ConfigError):
        settings(tmp_path / "companion.json")
    assert main([str(tmp_path)]) == 2 and "companion" in capsys.readouterr().err


def test_no_file_and_no_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2 and main([]) == 2
    assert capsys.readouterr().err.count("companion:") == 2


def test_it_comes_back_after_a_kill_and_ends_on_request(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "gw" / "s"
    for number in (signal.SIGKILL, signal.SIGTERM):
        inode = path.stat().st_ino if path.exists() else 0
        process = subprocess.Popen([*START, CODE, str(tmp_path)])
        try:
            until(lambda: path.exists() and path.stat().st_ino != inode)  # noqa: B023
            assert ask(path, "192.0.2.1:80") == b"HTTP/1.1 403"
            until(lambda: (tmp_path / "ledger").read_bytes().count(b"\n") == 1 + bool(inode))  # noqa: B023
        finally:
            process.send_signal(number)
        assert process.wait(20) == (-9 if number == signal.SIGKILL else 0)
    found = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert [line["outcome"] for line in found] == ["refused"] * 2
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "gw").stat().st_mode & 0o777 == 0o700


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    write(tmp_path)
    start = f"p = subprocess.Popen({[*START, CODE, str(tmp_path)]!r})"
    outer = f"import subprocess, time; {start}; print(p.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-I", "-c", outer], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until((tmp_path / "gw" / "s").exists)
    parent.kill()
    parent.communicate(timeout=20)

    def gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(gone)


def test_it_ends_when_its_scratch_goes(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write(scratch, socket=str(tmp_path / "gw" / "s"), ledger=str(tmp_path / "ledger"))
    process = subprocess.Popen([*START, CODE, str(scratch)])
    until((tmp_path / "gw" / "s").exists)
    os.rename(scratch, tmp_path / "away")
    assert process.wait(20) == 0


def test_it_is_standard_library_alone() -> None:
    code = f"{CODE.replace('sys.exit(main(sys.argv[1:]))', '')}\nprint(*sorted(sys.modules))"
    done = subprocess.run([*START, code], capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {
        top for top in tops - set(sys.stdlib_module_names) - {"ptb_tui"} if not top.startswith(("_", "sitecustomize"))
    }
