"""What an agent finds when it starts."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import settings
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.run.sources import Look
from ptb_tui.run.steps.agent import populate, timer_script
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


def test_the_timer_of_a_protocol_that_counts_the_preparation_has_its_second_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "timer.sh"
    for hours, words in ((0.5, "Timer expired!\n"), (1.51, "Remaining time (hours:minutes):\n0:00\n")):
        path.write_text(timer_script(hours, int(time.time()) - 5400))
        subprocess.run(["sed", "-i", "s/^start=$/start=1/", path], check=True)  # as agent_start.sh does
        assert subprocess.run(["bash", str(path)], capture_output=True, text=True, check=True).stdout == words


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


def test_the_agent_finds_the_items_above_its_task(tmp_path: Path) -> None:
    content = Content((REPOSITORY,))
    store = tmp_path / "store" / "arenahardwriting"
    store.mkdir(parents=True)
    (store / "items.jsonl").write_text('{"id": "1"}\n')
    (store / "test_data.json").write_text('[{"question": "?", "answer": ""}]')

    def fill(kit: tuple[str, ...], home: Path) -> set[str]:
        task = load_task(content, "arenahardwriting", tmp_path / "store")
        protocol = load_protocol(content, "1.2").model_copy(update={"kit": kit})
        spec: Any = None
        look = Look(Root(tmp_path), spec, load_agent(content, "codex"), task, protocol, content, settings.load())
        populate(look, home)
        return {path.name for path in home.iterdir()}

    with pytest.raises(StepError, match=r"baseline_answers\.jsonl is missing; .*ptb-tui baseline arenahardwriting"):
        fill((), tmp_path / "a")
    (store / "baseline_answers.jsonl").write_text('{"id": "1", "answer": "x"}\n')
    assert {"items.jsonl", "baseline_answers.jsonl"} <= (bare := fill((), tmp_path / "b"))
    assert "test_data.json" not in bare and "contamination_check.py" not in bare
    assert "test_data.json" in fill(("test_data.json",), tmp_path / "c")
    (store / "items.jsonl").write_text("")
    with pytest.raises(StepError, match="is empty; ptb-tui data fetch arenahardwriting"):
        fill((), tmp_path / "d")
