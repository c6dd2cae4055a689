import json
import os
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.sandbox import ledger as module
from ptb_tui.sandbox.ledger import Ledger, record


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_torn_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"v":1}\n{"v":1,"ti')
    ledger = Ledger(path)
    ledger.add(record(ledger, "CONNECT", "a.example", 443))
    ledger.close()
    last = path.read_bytes().splitlines()
    assert last[1] == b'{"v":1,"ti' and json.loads(last[2])["host"] == "a.example"
    assert path.stat().st_mode & 0o777 == 0o644 & ~os.umask(os.umask(0)) or len(last) == 3


def test_a_flood_is_counted_and_no_request_is_lost(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    total = module.BURST + 5000
    for number in range(total):
        entry = record(ledger, "CONNECT", f"h{number % 400}.example", 443)
        ledger.add(entry | {"outcome": "refused", "up": 1})
    ledger.close()
    found = lines(tmp_path / "ledger")
    assert sum(line.get("count", 1) for line in found) == sum(line["up"] for line in found) == total
    assert len(found) < module.BURST + module.KINDS + 100
    assert any(line["host"] == "*" for line in found)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Ledger(tmp_path / "link")


def test_a_full_disk_is_counted_until_there_is_room(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    ledger = Ledger(tmp_path / "ledger")
    full = os.open("/dev/full", os.O_WRONLY)
    good, ledger._fd = ledger._fd, full
    ledger.add(record(ledger, "CONNECT", "a.example", 443))
    ledger.flush()
    ledger._fd = good
    os.close(full)
    ledger.close()
    assert [(line["host"], line["count"]) for line in lines(tmp_path / "ledger")] == [("a.example", 1)]
