"""What an agent finds when it starts."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptb_tui.run.steps.agent import timer_script
from tests.e2e.conftest import REPOSITORY, Lab
from tests.e2e.conftest import lab as lab


@pytest.mark.parametrize(("hours", "ago", "words"), [(2.0, 0, r"1:59|2:00"), (0.05, 0, r"0:0[23]"), (1.0, 3600, None)])
def test_the_timer(tmp_path: Path, hours: float, ago: float, words: str | None) -> None:
    path = tmp_path / "timer.sh"
    path.write_text(timer_script(hours).replace("start=\n", f"start={int(time.time() - ago)}\n", 1))
    out = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=True).stdout
    if words is None:
        assert out == "Timer expired!\n"
    else:
        assert re.fullmatch(rf"Remaining time \(hours:minutes\):\n(?:{words})\n", out)


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_the_agent_s_checker_is_that_of_the_protocol(lab: Lab, mode: str) -> None:
    protocol = lab.cwd / "tasks" / "protocols" / "toy.toml"
    protocol.write_text(protocol.read_text().replace('name = "toy"\n', f'name = "toy"\nchecker_mode = "{mode}"\n', 1))
    solve = lab.cwd / "agents" / "toy" / "solve.sh"
    kept = lab.base / "kept.py"
    solve.write_text(f'cp ../contamination_check.py "{kept}"; ls; [ -x timer.sh ] && bash timer.sh\n')
    lab.run("--batch", lab.sweep("none"), "--yes")
    shown = subprocess.run([sys.executable, str(kept), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--mode" in shown and f'DEFAULT_MODE = "{mode}"' in kept.read_text()
    assert {"evaluate.py", "templates", "timer.sh"} <= set(lab.trace())
    assert {"0:29", "0:30"} & set(lab.trace()), "the clock starts with the agent"
    tool = REPOSITORY / "judges" / "tools" / "contamination_check.py"
    assert tool.read_text().count('DEFAULT_MODE = "strict"') == 1
