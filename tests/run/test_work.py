"""Work on a site: a process of its own, seen by its files, whatever becomes of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import files
from ptb_tui.core.errors import NotFound
from ptb_tui.core.layout import Root
from ptb_tui.run import work
from ptb_tui.supplies import images
from tests.supplies.stub import stub

PROGRAM = (sys.executable, "-I", str(Path(work.__file__).resolve().parents[1] / "__main__.py"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "results").mkdir()
    return Root(tmp_path / "results")


def begin(root: Root, tmp_path: Path, text: str = "x\n", kind: str = "image", **env: str) -> tuple[int, bool]:
    stub(tmp_path / "bin")
    request = {"name": "tiny", "folder": str(tmp_path / "sifs"), "text": text, "root": ""}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return work.start(root, kind, "tiny", request, PROGRAM, {"PATH": path, **env})


def until(root: Root, number: int, *states: str) -> work.Look:
    end = time.monotonic() + 200
    while (found := work.look(root, number)).state not in states:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def worker(root: Root, number: int) -> int:
    raw: Any = files.read_object(root.own("steps") / str(number) / "process.json")
    return int(raw["process"]["pid"])


def test_work_is_done_by_a_process_of_its_own(root: Root, tmp_path: Path) -> None:
    number, new = begin(root, tmp_path)
    assert new and worker(root, number) != os.getpid()
    found = until(root, number, "done", "failed", "lost")
    image = images.resolve(tmp_path / "sifs", "tiny")
    assert (found.state, found.words) == ("done", f"built {image}")
    assert "INFO: Build complete" in found.log and work.look(root, number, found.next).log == ""
    assert found.kind == "image" and found.started and work.ids(root) == [number]


def test_a_failure_comes_back_as_it_was(root: Root, tmp_path: Path) -> None:
    number, _ = begin(root, tmp_path, "explode\n")
    found = until(root, number, "done", "failed", "lost")
    assert found.state == "failed" and "FATAL: while building" in found.words
    assert found.error is not None and found.error["type"] == "PtbError" and "FATAL" in found.log


def test_the_same_work_is_not_begun_twice(root: Root, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    number, _ = begin(root, tmp_path, STUB_HOLD=str(hold))
    assert begin(root, tmp_path, STUB_HOLD=str(hold)) == (number, False)
    os.killpg(worker(root, number), signal.SIGKILL)
    found = until(root, number, "lost")
    assert found.error is None
    hold.unlink()
    again, new = begin(root, tmp_path)
    assert new and again > number and until(root, again, "done", "failed").state == "done"


def test_a_worker_that_is_asked_to_stop_takes_back_what_it_began(root: Root, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    number, _ = begin(root, tmp_path, STUB_HOLD=str(hold))
    end = time.monotonic() + 200
    while "begins" not in work.look(root, number).log and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(worker(root, number), signal.SIGTERM)
    found = until(root, number, "failed", "lost", "done")
    assert (found.state, found.words) == ("failed", "stopped by a signal")
    assert os.listdir(tmp_path / "sifs") == []


def test_unknown_work_and_odd_files_are_no_crash(root: Root, tmp_path: Path) -> None:
    number, _ = begin(root, tmp_path, kind="dance")
    assert "no work of kind 'dance'" in until(root, number, "failed", "lost").words
    with pytest.raises(NotFound, match="no work 7"):
        work.look(root, 7)
    folder = root.own("steps") / "8"
    folder.mkdir()
    for name in ("work.json", "process.json", "now.json", "exit.json"):
        (folder / name).write_text(json.dumps({"kind": 3, "words": None, "done": "x", "error": 5}))
    (folder / "log").write_bytes(b"\xff whole\nhalf")
    found = work.look(root, 8)
    assert found.log == "� whole\n" and found.done is None
    assert work.ids(Root(tmp_path / "nowhere")) == []
