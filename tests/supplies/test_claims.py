"""One worker at a time, whatever became of the one before."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotAllowed, StorageError
from ptb_tui.supplies import claims


def test_a_claim_is_exclusive_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "claim.json"
    with claims.claimed(path, "the thing"):
        assert claims.holder(path).startswith(f"process {os.getpid()} on {socket.gethostname()}")
        with pytest.raises(NotAllowed, match=r"the thing is being worked on by process .* since") as caught:
            claims.claimed(path, "the thing").__enter__()
        assert str(path) in caught.value.hint
    assert not path.exists() and claims.holder(path) == ""
    with pytest.raises(ZeroDivisionError), claims.claimed(path, "the thing"):
        _ = 1 / 0
    assert not path.exists()


def dead() -> dict[str, object]:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = clock.identify(child.pid)
    child.kill()
    child.communicate()
    assert found is not None
    return {"v": 1, "host": socket.gethostname(), "process": found.to_json(), "t": "then"}


def test_the_claim_of_a_process_that_is_gone_is_taken_over_by_exactly_one(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    path.write_text(json.dumps(dead()))
    assert claims.holder(path) == ""
    inside, most, refused = [0], [0], [0]
    lock, gate = threading.Lock(), threading.Barrier(8)
    done = threading.Event()

    def work() -> None:
        gate.wait()
        try:
            with claims.claimed(path, "it"):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                done.wait(10)
                with lock:
                    inside[0] -= 1
        except NotAllowed:
            with lock:
                refused[0] += 1
                if refused[0] == 7:
                    done.set()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], refused[0]) == (1, 7)
    assert os.listdir(tmp_path) == []


def test_the_claim_of_another_machine_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    path.write_text(json.dumps({**dead(), "host": "elsewhere"}))
    with pytest.raises(NotAllowed, match="on elsewhere, since then"):
        claims.claimed(path, "it").__enter__()
    path.write_text("no claim at all")
    assert claims.holder(path) == "somebody"


def test_a_claim_that_was_taken_away_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    with claims.claimed(path, "it"):
        files.replace(path, '{"another": 1}')
    assert path.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        claims.claimed(tmp_path / "file" / "claim.json", "it").__enter__()
