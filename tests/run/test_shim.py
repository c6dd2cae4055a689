"""The shim with real processes: output, deadline, daemons, exit record."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import clock
from ptb_tui.run import processes
from ptb_tui.run.outcomes import agent_outcome
from ptb_tui.sandbox.base import Request
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from tests.polling import until

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "step").mkdir()
    (tmp_path / "scratch").mkdir()

    def go(script: str, **launch: Any) -> subprocess.Popen[bytes]:
        value = {"argv": ["bash", "-c", script], "cwd": str(tmp_path), "deadline_s": 60, "grace_s": 1, **launch}
        (tmp_path / "scratch" / "launch.json").write_text(json.dumps(value))
        shim = subprocess.Popen(
            [sys.executable, "-m", "ptb_tui", "shim", str(tmp_path / "scratch"), str(tmp_path / "step")],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert shim.stdin is not None
        shim.stdin.write(json.dumps({"PATH": os.environ["PATH"], "SECRET_KEY": "only-in-the-environment"}).encode())
        shim.stdin.close()
        return shim

    return go


def exit_record(tmp_path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((tmp_path / "step" / "exit.json").read_text())
    assert record == json.loads((tmp_path / "scratch" / "exit.json").read_text())
    return record


def raw(tmp_path: Path) -> bytes:
    return (tmp_path / "scratch" / "raw").read_bytes()


def test_exit_code_is_the_command_s_not_the_pipe_s(start: Start, tmp_path: Path) -> None:
    assert start("echo out; echo err >&2; exit 7").wait(30) == 0
    record = exit_record(tmp_path)
    assert (record["rc"], record["signal"], record["stopped"]) == (7, None, "")
    assert sorted(raw(tmp_path).split()) == [b"err", b"out"]
    assert (tmp_path / "scratch" / "raw").stat().st_mode & 0o777 == 0o600


def test_a_command_that_cannot_start_is_recorded(start: Start, tmp_path: Path) -> None:
    start("", argv=["/nonexistent/agent"]).wait(30)
    record = exit_record(tmp_path)
    assert record["rc"] is None and "/nonexistent/agent" in record["problem"]


def test_a_port_that_somebody_has_ends_the_step_at_its_start(start: Start, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        start(f"touch {tmp_path}/ran", listen=port, companion=["false"]).wait(30)
    record = exit_record(tmp_path)
    assert f"port {port} of 127.0.0.1" in record["problem"] and record["rc"] is None
    assert not (tmp_path / "ran").exists() and f"port {port}".encode() in raw(tmp_path)
    assert agent_outcome(record, "")[:2] == ("failed", "sandbox")


def test_the_agent_cannot_touch_its_recorded_output(start: Start, tmp_path: Path) -> None:
    script = (
        "echo first; "
        + f"{sys.executable} -c '"
        + "import os\ntry:\n os.ftruncate(1, 0)\nexcept OSError: pass\ntry:\n os.lseek(1, 0, 0)\nexcept OSError: pass\n"
        + 'f = open("/proc/self/fd/1", "w"); f.write("again\\n"); f.close()\'; echo last'
    )
    start(script).wait(30)
    assert raw(tmp_path) == b"first\nagain\nlast\n"


def test_daemons_die_with_the_command(start: Start, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = f"setsid bash -c '(trap \"\" TERM HUP; echo $BASHPID > {marker}; exec sleep 1000) &' ; sleep 0.2; exit 0"
    start(script).wait(60)
    record = exit_record(tmp_path)
    assert record["rc"] == 0 and record["left_alive"] == []
    assert clock.identify(int(marker.read_text())) is None


@pytest.mark.parametrize("whose", [".", "try-2"])
def test_a_renewal_of_a_login_outlives_the_command(start: Start, tmp_path: Path, whose: str) -> None:
    """That of an agent's companion, and that of a companion of a judge's session."""
    scratch, done = tmp_path / "scratch" / whose, tmp_path / "go"
    scratch.mkdir(exist_ok=True)
    renewal = (
        "import json,os,time;from pathlib import Path;from ptb_tui.core import clock;"
        f"Path({str(scratch / 'renewing.json')!r}).write_text(json.dumps(clock.this_process().to_json()));"
        f"\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)"
    )
    # A renewal whose companion died hangs below the shim like any orphan.
    script = f"(setsid {sys.executable} -c {shlex.quote(renewal)} &); until [ -s {scratch}/renewing.json ]; do :; done"
    start(script).wait(60)
    process = clock.process_from(json.loads((scratch / "renewing.json").read_text()))
    assert clock.alive(process) and exit_record(tmp_path)["left_alive"] == []
    done.touch()
    until(lambda: not clock.alive(process))


def test_deadline_term_then_kill(start: Start, tmp_path: Path) -> None:
    start("trap 'echo told; ' TERM; echo up; while :; do sleep 0.1; done", deadline_s=1).wait(60)
    record = exit_record(tmp_path)
    assert record["stopped"] == "deadline" and record["killed"] is True and record["signal"] == signal.SIGKILL
    assert b"told" in raw(tmp_path)


def test_term_suffices_for_a_polite_command(start: Start, tmp_path: Path) -> None:
    start("trap 'echo bye; exit 3' TERM; while :; do sleep 0.1; done", deadline_s=1).wait(60)
    record = exit_record(tmp_path)
    assert (record["stopped"], record["killed"], record["rc"]) == ("deadline", False, 3)


def test_stop_with_a_reason(start: Start, tmp_path: Path) -> None:
    shim = start("sleep 1000")
    until(lambda: (tmp_path / "scratch" / "shim.json").exists())
    (tmp_path / "scratch" / "stop.json").write_text('{"why": "cancel"}')
    shim.send_signal(signal.SIGTERM)
    shim.wait(60)
    assert exit_record(tmp_path)["stopped"] == "cancel"


def test_the_relay_may_die(start: Start, tmp_path: Path) -> None:
    shim = start("for i in $(seq 300); do echo $i; sleep 0.01; done")
    for _ in range(5):
        until(lambda: [pid for pid in processes.descendants(shim.pid) if _name(pid) == "cat"])
        for pid in processes.descendants(shim.pid):
            if _name(pid) == "cat":
                processes.send(pid, signal.SIGKILL)
        time.sleep(0.1)  # spread the kills over the command's life
    shim.wait(60)
    assert exit_record(tmp_path)["rc"] == 0, "the command never sees a broken pipe"
    assert raw(tmp_path).split()[-1] == b"300", "a new relay carries on (what the old one held in hand is gone)"


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_the_environment_is_exact_and_nothing_is_inherited(start: Start, tmp_path: Path) -> None:
    start("env; ls -l /proc/self/fd; cat /proc/$PPID/cmdline | tr '\\0' ' '").wait(30)
    text = raw(tmp_path).decode()
    assert "SECRET_KEY=only-in-the-environment" in text and "HOME=" not in text
    assert str(tmp_path / "scratch" / "raw") not in text
    assert text.count("only-in-the-environment") == 1


def test_a_neighbour_and_the_shim_survive_pkill(start: Start, tmp_path: Path) -> None:
    shim = start("kill -TERM 0; sleep 5")
    shim.wait(60)
    record = exit_record(tmp_path)
    assert record["signal"] == signal.SIGTERM and record["stopped"] == ""


def test_a_sandbox_that_never_stood_is_told_from_a_command_that_failed(start: Start, tmp_path: Path) -> None:
    began = tmp_path / "began"
    began.touch()
    start("echo 'FATAL: no mount' >&2; exit 255", began=str(began)).wait(30)
    record = exit_record(tmp_path)
    assert record["problem"] == "the sandbox did not start: FATAL: no mount" and record["rc"] == 255
    start(f"true >{began}; exit 255", began=str(began)).wait(30)
    assert exit_record(tmp_path)["problem"] == ""


@pytest.mark.parametrize("said", ['{"type": "system"}', "WARNING: odd\n" + "x" * 20000])
def test_whoever_said_more_than_a_runtime_says_did_begin(start: Start, tmp_path: Path, said: str) -> None:
    began = tmp_path / "began"
    began.touch()
    start(f"echo {shlex.quote(said)}; exit 1", began=str(began)).wait(30)
    assert exit_record(tmp_path)["problem"] == ""


def test_a_bubblewrap_that_cannot_make_its_view_is_told_from_an_agent(start: Start, tmp_path: Path) -> None:
    sandbox = Bubblewrap()
    if not sandbox.probe()[0]:
        pytest.skip("no bubblewrap")
    (tmp_path / "home" / "task").mkdir(parents=True)
    for source in ("/nonexistent", "/usr"):
        asked = Request(("sh", "-c", "exit 3"), tmp_path / "home", "task", scratch=tmp_path / "box")
        command = sandbox.command(asked)
        argv = [*command.argv[:1], "--ro-bind", source, "/seen", *command.argv[1:]]
        start("", argv=argv, cwd="/", limits=command.limits, began=str(command.began)).wait(30)
        record = exit_record(tmp_path)
        if source == "/usr":
            assert (record["rc"], record["problem"]) == (3, ""), record
        else:
            assert record["problem"].startswith("the sandbox did not start: bwrap: "), record


def test_a_command_that_closes_its_output_keeps_nobody_busy(start: Start, tmp_path: Path) -> None:
    shim = start("echo before; exec >&- 2>&-; sleep 2")
    seen: set[int] = set()
    while shim.poll() is None:
        seen.update(processes.descendants(shim.pid))
        time.sleep(0.005)
    assert exit_record(tmp_path)["rc"] == 0 and raw(tmp_path) == b"before\n"
    assert len(seen) < 12, "a relay is not started again and again"


def test_the_last_words_have_room_on_a_full_disk(start: Start, tmp_path: Path) -> None:
    """Room is held while the command runs and given back for the record."""
    held = tmp_path / "scratch" / "reserve"
    shim = start("sleep 60")
    until(lambda: (tmp_path / "scratch" / "shim.json").exists())
    assert held.stat().st_blocks * 512 >= 16 << 20
    shim.send_signal(signal.SIGTERM)
    shim.wait(30)
    assert not held.exists() and exit_record(tmp_path)["full"] is False
