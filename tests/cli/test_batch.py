import asyncio
import io
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.batch import Options, exit_code, row_ended, run_batch, submit_token
from ptb_tui.core.action import Collect, Submit
from ptb_tui.core.errors import NotAllowed, SiteUnreachable, Timeout
from ptb_tui.core.query import RunRow
from ptb_tui.core.scores import Board, CellScore, MethodScore, Worth
from ptb_tui.core.spec import Plan, Sweep, read_sweep
from ptb_tui.present.output import Output
from tests.cli.drive import PATIENCE, REPO, SWEEP, environment, fake, finish, in_terminal
from tests.cli.fakesite import FIRST, FakeSite

QUICK = Options(command="ptb-tui --batch X", interval=0.01, first_pause=0.01, longest_pause=0.02, operator="ann")


@pytest.fixture
def sweep() -> Sweep:
    return read_sweep(SWEEP)


class Screen:
    """An output that is kept as text."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        self.out = Output(as_json=as_json, stdout=self.stdout, stderr=self.stderr)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.getvalue().splitlines()]


async def test_plans_submits_waits_collects_and_says_what_every_cell_is_worth(sweep: Sweep) -> None:
    site, screen = FakeSite(), Screen()
    assert await run_batch(site, sweep, QUICK, screen.out) == 0
    text = screen.stdout.getvalue()
    assert "3 cells · 3 to submit · at most 0 GPU hours · money unknown" in text
    changes = [line for line in text.splitlines() if f" run {FIRST} reference demo local/demo-base: " in line]
    states = [line.split("base: ")[1].split(",")[0] for line in changes]
    assert states == ["queued", "running", "evaluating", "done"]
    assert "running, step 1 of 6: agent, solve, 42s, 5m 1" in changes[1] and "left" in changes[1]
    for words in ("82.5 %", "flagged C", "reason of cheat", "- demo-003", "no model", "every cell counts"):
        assert words in text
    submit, collect = (action for _, action in site.done)
    assert submit == Submit(sweep=sweep, operator="ann") and collect == Collect(protocol="demo", operator="ann")


async def test_json_is_one_event_a_line(sweep: Sweep) -> None:
    screen = Screen(as_json=True)
    assert await run_batch(FakeSite("unjudged"), sweep, QUICK, screen.out) == 5
    events = [record["event"] for record in screen.records]
    assert events[:2] == ["plan", "submitted"] and events[-3:] == ["collected", "scores", "end"]
    assert set(events[2:-3]) == {"run"} and len(events) == 2 + 3 * 4 + 3
    assert screen.records[-1]["exit_code"] == 5 and screen.stderr.getvalue() == ""


async def test_again_fills_only_what_is_missing(sweep: Sweep) -> None:
    site = FakeSite()
    assert await run_batch(site, sweep, QUICK, Screen().out) == 0
    screen = Screen()
    assert await run_batch(site, sweep, QUICK, screen.out) == 0
    assert sum(isinstance(action, Submit) for _, action in site.done) == 1
    assert "3 exist" in screen.stdout.getvalue()
    del site.specs[FIRST + 2], site.stage[FIRST + 2]
    assert await run_batch(site, sweep, QUICK, Screen().out) == 0
    submits = [token for token, action in site.done if isinstance(action, Submit)]
    assert len(set(submits)) == 2 and set(site.specs) == {FIRST, FIRST + 1, FIRST + 2}


async def test_two_at_once_submit_once(sweep: Sweep) -> None:
    site = FakeSite()
    codes = await asyncio.gather(*(run_batch(site, sweep, QUICK, Screen().out) for _ in range(2)))
    assert codes == [0, 0] and len(site.specs) == 3


async def test_dry_run_does_nothing(sweep: Sweep) -> None:
    site = FakeSite()
    assert await run_batch(site, sweep, Options(dry_run=True), Screen().out) == 0
    assert not site.done and not site.specs


@pytest.mark.parametrize("dry_run", [True, False])
async def test_one_blocked_cell_blocks_all_and_every_reason_is_said(sweep: Sweep, dry_run: bool) -> None:
    site, screen = FakeSite("blocked"), Screen()
    with pytest.raises(NotAllowed) as caught:
        await run_batch(site, sweep, Options(dry_run=dry_run), screen.out)
    assert caught.value.exit_code == 2 and "nothing was submitted" in caught.value.message
    (line,) = screen.stderr.getvalue().splitlines()
    assert line.startswith("blocked: cheat steps200 · demo") and line.endswith("look into agents/")
    assert "\x1b" not in line and not site.done


async def test_a_lost_site_is_said_once_and_tried_again(sweep: Sweep) -> None:
    screen = Screen()
    assert await run_batch(FakeSite("lost"), sweep, QUICK, screen.out) == 0
    told = screen.stderr.getvalue().splitlines()
    assert [line for line in told if "no answer" in line] == [
        "site local gives no answer (ssh: connection reset); runs go on, trying again"
    ]
    assert "site local answers again" in told


@pytest.mark.parametrize(("timeout", "patience"), [(0.5, 1e9), (None, 0.1)])
async def test_a_site_that_stays_lost_is_exit_3(sweep: Sweep, timeout: float | None, patience: float) -> None:
    options = Options(command="X", interval=0.01, first_pause=0.01, timeout=timeout, patience=patience)
    with pytest.raises(SiteUnreachable) as caught:
        await run_batch(FakeSite("mute"), sweep, options, Screen().out)
    assert caught.value.exit_code == 3 and "3 runs go on" in caught.value.message
    assert caught.value.hint == "come back with: X"


async def test_timeout_is_exit_4_and_runs_go_on(sweep: Sweep) -> None:
    with pytest.raises(Timeout) as caught:
        await run_batch(FakeSite("stuck"), sweep, Options(interval=0.01, timeout=0.3), Screen().out)
    assert caught.value.exit_code == 4 and "3 runs go on" in caught.value.message


def board_of(plan: Plan, worths: list[Worth]) -> Board:
    cells = [
        MethodScore(
            method=cell.spec.method,
            protocol="demo",
            cells=(CellScore(method=cell.spec.method, benchmark="demo", model="local/demo-base", worth=worth),),
        )
        for cell, worth in zip(plan.cells, worths, strict=False)
    ]
    return Board(protocol="demo", methods=tuple(cells))


@given(st.lists(st.sampled_from(Worth), max_size=3))
def test_the_exit_code_is_of_the_worst_cell(worths: list[Worth]) -> None:
    plan = FakeSite().plan(read_sweep(SWEEP))
    code = exit_code(plan.cells, [board_of(plan, worths)])
    if Worth.UNJUDGED in worths or Worth.QUARANTINED in worths:
        assert code == 5
    else:
        assert code == (0 if len(worths) == 3 and all(worth.counts for worth in worths) else 1)


def test_cells_of_others_do_not_change_the_exit_code(sweep: Sweep) -> None:
    plan = FakeSite().plan(sweep)
    board = board_of(plan, [Worth.SCORED] * 3)
    other = CellScore(method="other", benchmark="demo", model="local/demo-base", worth=Worth.UNJUDGED)
    more = (*board.methods, MethodScore(method="other", protocol="demo", cells=(other,)))
    assert exit_code(plan.cells, [board.model_copy(update={"methods": more})]) == 0


def test_the_token_follows_the_state_of_affairs(sweep: Sweep) -> None:
    plan = FakeSite().plan(sweep)
    assert submit_token(plan) == submit_token(FakeSite().plan(sweep))
    first, *others = plan.cells
    changes = (
        {"cells": (first.model_copy(update={"action": "exists", "run_id": FIRST}), *others)},
        {"cells": (first.model_copy(update={"spec": first.spec.sealed(token="second attempt")}), *others)},
        {"sweep": sweep.model_copy(update={"hours": 0.2})},
    )
    tokens = {submit_token(plan.model_copy(update=change)) for change in changes}
    assert len(tokens | {submit_token(plan)}) == 4


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ({"steps_total": 6, "steps_ended": 6, "state": "failed"}, True),
        ({"steps_total": 6, "steps_ended": 5, "state": "done"}, False),
        ({"state": "cancelled"}, True),
        ({"state": "queued"}, False),
        ({"state": "", "origin": "upstream"}, True),
    ],
)
def test_when_a_run_has_ended(more: dict[str, Any], ended: bool) -> None:
    assert row_ended(RunRow(id=1, method="m", benchmark="b", model="o/m", **more)) is ended


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, TERM="xterm-256color")


def test_ctrl_c_detaches_with_the_way_back(env: dict[str, str]) -> None:
    terminal = in_terminal(fake("stuck", "--batch", str(SWEEP), "--site", "local"), env)
    terminal.until(lambda text: "0 of 3 runs ended" in text)
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Detached: 3 runs go on" in terminal.text and "Traceback" not in terminal.text
    assert f"come back with: ptb-tui --batch {SWEEP} --site local" in terminal.text
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")  # the cursor is back


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_ended_detaches_too(env: dict[str, str], number: signal.Signals) -> None:
    terminal = in_terminal(fake("stuck", "--batch", str(SWEEP)), env)
    terminal.until(lambda text: "0 of 3 runs ended" in text)
    os.kill(terminal.pid, number)
    assert terminal.end() == 130 and "3 runs go on" in terminal.text


def test_a_closed_terminal_detaches(env: dict[str, str]) -> None:
    terminal = in_terminal(fake("stuck", "--batch", str(SWEEP)), env)
    terminal.until(lambda text: "0 of 3 runs ended" in text)
    os.close(terminal.fd)
    terminal.fd = os.open(os.devnull, os.O_RDONLY)
    assert terminal.end() == 130


def test_a_second_ctrl_c_ends_at_once(env: dict[str, str]) -> None:
    terminal = in_terminal(fake("deaf", "--batch", str(SWEEP)), env)
    terminal.until(lambda text: "0 of 3 runs ended" in text)
    terminal.type("\x03")
    terminal.until(lambda text: "closing" in text)
    terminal.type("\x03")
    assert terminal.end() == 130


def test_a_terminal_shows_a_table_and_no_colour_when_unwanted(env: dict[str, str]) -> None:
    terminal = in_terminal(fake("", "--batch", str(SWEEP)), env | {"NO_COLOR": "1"}, size=(80, 24))
    assert terminal.end() == 0
    last = terminal.text[terminal.text.rindex("RUN  AGENT") :]
    assert "✓ scored" in last and "⚑ flagged C" in last and "6/6" in last
    for colour in ("\x1b[3", "\x1b[9"):
        assert not any(colour + digit in terminal.text for digit in "0123456789")
    assert "[bold]not markup[/bold] [/x]" in terminal.text


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_lines(env: dict[str, str], term: str) -> None:
    env.pop("TERM")
    terminal = in_terminal(fake("", "--batch", str(SWEEP)), env | ({"TERM": term} if term else {}))
    assert terminal.end() == 0 and "\x1b" not in terminal.text
    assert f"run {FIRST} reference demo local/demo-base: running" in terminal.text


def test_a_costly_sweep_is_confirmed_on_a_terminal_only(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "gpus.toml"
    path.write_text(SWEEP.read_text().replace("gpus = 0", "gpus = 1"))
    answers: list[tuple[str, int, Callable[[str], bool]]] = [
        ("n\n", 2, lambda text: "nothing was submitted" in text),
        ("\x03", 130, lambda text: "Detached: nothing was submitted" in text),
        ("y\n", 0, lambda text: "every cell counts" in text),
    ]
    for key, code, told in answers:
        terminal = in_terminal(fake("", "--batch", str(path)), env)
        terminal.until(lambda text: "Submit 3 runs? 0.3 GPU hours [y/N]" in text)
        terminal.type(key)
        assert terminal.end() == code and told(terminal.text), terminal.text
    done = finish(fake("", "--batch", str(path), "--json"), env)
    assert done.returncode == 0 and done.stderr == ""


def test_a_reader_that_leaves_detaches(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        fake("", "--batch", str(SWEEP)), env=env, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith("Sweep demo")
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE) == 130 and "Detached: " in told and "Traceback" not in told


def test_nohup_is_respected(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        ["nohup", *fake("", "--batch", str(SWEEP))],
        env=env,
        cwd=REPO,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    rest = line + process.stdout.read()
    process.stdout.close()
    assert process.wait(PATIENCE) == 0 and "every cell counts" in rest
