"""What a judge's chamber takes for a renewal of its login, and spares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

from ptb_tui.core import clock, files
from ptb_tui.run.steps.attendant import Companion, renewals
from ptb_tui.run.steps.chamber import tree


class _NoCompanion:
    pids = ()


def test_a_renewal_says_who_it_is_where_no_judge_can_write(tmp_path: Path) -> None:
    nobody = cast(Companion, _NoCompanion())
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()", "renew-login", str(tmp_path)]
    pretender, one = (subprocess.Popen(argv, stdin=subprocess.PIPE) for _ in range(2))
    try:
        identity = clock.identify(one.pid)
        assert identity is not None
        assert renewals(tmp_path) == [], "a name is not enough"
        assert {pretender.pid, one.pid} <= set(tree(nobody, tmp_path))
        files.replace(tmp_path / "renewing.json", files.dump(identity.to_json()))
        assert renewals(tmp_path) == [one.pid]
        assert pretender.pid in tree(nobody, tmp_path) and one.pid not in tree(nobody, tmp_path)
    finally:
        for process in (pretender, one):
            process.communicate()
    assert renewals(tmp_path) == []
