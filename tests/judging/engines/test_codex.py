"""The engine `codex` and what it makes of a session: every way to a verdict and to none (E §9.15).

The chamber here is a script; the real sandbox is in tests/run/test_judge_codex.py, the real CLI in tests/realcli.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import clock
from ptb_tui.core.credential import API_KEY
from ptb_tui.core.errors import StepError
from ptb_tui.core.verdict import EngineResult, JudgeSpec, VerdictState
from ptb_tui.judging.collect import MAX_BYTES
from ptb_tui.judging.engines.codex import CodexEngine, Left, Visit, command, config
from ptb_tui.judging.engines.trying import Case
from ptb_tui.judging.prompting import PromptFacts
from tests.judging.runs import Run
from tests.judging.specs import CONTAMINATION, JUDGES, NAMES

S = VerdictState
RULES = EngineResult(S.CLEAN, {"contamination": False}, engine="rules")
SAMPLES = Path(__file__).parents[2] / "data" / "judging" / "verdicts"
SECRET = "eyJ-secret-token-0123456789"
GOOD = {
    "contamination": False,
    "disallowed_model": True,
    "justification_contamination": "train.py:3 reads its own data",
    "justification_disallowed_model": "solve_out.txt:7 loads another checkpoint",
}
USAGE = {"type": "turn.completed", "usage": {"input_tokens": 1200, "cached_input_tokens": 1000, "output_tokens": 40}}
Act = Callable[[Path, str], Mapping[str, Any]]


def verdict(**changes: Any) -> Act:
    def act(work: Path, nonce: str) -> Mapping[str, Any]:
        fields = {"nonce": nonce, **GOOD, **changes}
        (work / "judgement.json").write_text(json.dumps({k: v for k, v in fields.items() if v is not None}))
        return {}

    return act


def nothing(work: Path, nonce: str) -> Mapping[str, Any]:
    return {}


class Script:
    """A chamber whose sessions are functions; each gets the working directory and the number from the prompt."""

    home, version, facts = "/home/ben", "0.144.5", {"network": "gateway"}

    def __init__(self, base: Path, *acts: Act) -> None:
        self.base, self.acts, self.visits = base, acts, list[Visit]()

    def path(self) -> str:
        return "/usr/bin:/bin"

    def visit(self, visit: Visit) -> Left:
        self.visits.append(visit)
        place = self.base / f"try-{visit.number}"
        (place / "judge").mkdir(parents=True)
        nonce = re.search(r'"nonce": "([0-9a-f]{32})"', visit.prompt)
        assert nonce is not None
        started = time.time()
        changes = dict(self.acts[min(visit.number, len(self.acts)) - 1](place / "judge", nonce[1]))
        lines = [{"type": "thread.started", "thread_id": "t"}, *changes.pop("lines", (USAGE,))]
        (place / "output").write_text("".join(json.dumps(line) + "\n" for line in lines) + SECRET + "\n")
        left = Left(0, None, started, 3.0, False, False, place / "judge", place / "output", {"login-access": SECRET})
        return replace(left, **changes)


def ask(
    tmp_path: Path, *acts: Act, spec: JudgeSpec = CONTAMINATION, left_s: float = 600.0
) -> tuple[EngineResult, Script]:
    chamber = Script(tmp_path / "chamber", *acts)
    (tmp_path / "keep").mkdir()
    case = Case(
        (JUDGES / NAMES[0] / "prompt.md").read_text(),
        PromptFacts("org/Tiny-4B-Base", "Garden", "claude"),
        RULES,
        place=tmp_path / "evidence",
        keep=tmp_path / "keep",
        ends=clock.monotonic() + left_s,
    )
    return CodexEngine(chamber, case).judge(NAMES[0], spec, Run(tmp_path / "run").evidence()), chamber


def test_a_verdict_is_kept_without_its_number(tmp_path: Path) -> None:
    result, chamber = ask(tmp_path, verdict())
    assert (result.state, result.verdict) == (S.FLAGGED, GOOD) and len(chamber.visits) == 1
    assert (result.engine, result.engine_version, result.model) == ("codex", "0.144.5", CONTAMINATION.model)
    assert result.extra["tokens"] == {"input": 200, "cache_read": 1000, "output": 40}
    assert len(result.prompt_hash) == 64 and result.cost_usd is None
    kept = (tmp_path / "keep" / "judge_output.json").read_text()
    assert SECRET not in kept and "[redacted:login-access]" in kept
    assert "turn completed" in (tmp_path / "keep" / "judge_output.txt").read_text()


@pytest.mark.parametrize(
    ("act", "state", "words"),
    [
        (nothing, S.MISSING, "no judgement.json"),
        (verdict(nonce="0" * 32), S.UNREADABLE, "number given"),
        (verdict(contamination="false"), S.UNREADABLE, "boolean"),
        (verdict(contamination=None), S.UNREADABLE, "missing"),
        (verdict(justification_contamination="  "), S.UNREADABLE, "empty"),
        (verdict(justification_contamination="<text>"), S.UNREADABLE, "example"),
    ],
)
def test_what_is_no_verdict_is_asked_for_again(tmp_path: Path, act: Act, state: VerdictState, words: str) -> None:
    result, chamber = ask(tmp_path, act)
    assert result.state is state and words in result.reason and result.verdict is None
    assert len(chamber.visits) == CONTAMINATION.tries == 2
    assert len({visit.prompt for visit in chamber.visits}) == 2, "each session has a number of its own"


def test_the_second_session_may_answer(tmp_path: Path) -> None:
    result, _ = ask(tmp_path, nothing, verdict())
    assert result.state is S.FLAGGED and [s["state"] for s in result.extra["sessions"]] == ["missing", "flagged"]
    assert result.extra["tokens"]["output"] == 80 and (tmp_path / "keep" / "judge_output_2.json").exists()


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_answers_of_all_kinds_without_the_number_decide_nothing(tmp_path: Path, path: Path) -> None:
    def leave(work: Path, nonce: str) -> Mapping[str, Any]:
        (work / "judgement.json").write_bytes(path.read_bytes())
        return {}

    result, _ = ask(tmp_path, leave)
    assert result.verdict is None and result.state in (S.UNREADABLE, S.CONTRADICTORY)


def test_planted_and_misleading_files(tmp_path: Path) -> None:
    def linked(work: Path, nonce: str) -> Mapping[str, Any]:
        (work.parent / "elsewhere").write_text(json.dumps({"nonce": nonce, **GOOD}))
        (work / "judgement.json").symlink_to(work.parent / "elsewhere")
        return {}

    def moved(work: Path, nonce: str) -> Mapping[str, Any]:
        other = work.parent / "other"
        work.rename(other)
        (other / "judgement.json").write_text(json.dumps({"nonce": nonce, **GOOD}))
        work.symlink_to(other)
        return {}

    result, _ = ask(tmp_path, linked, moved)
    assert result.verdict is None
    assert [session["state"] for session in result.extra["sessions"]] == ["unreadable", "missing"]


def test_a_huge_answer(tmp_path: Path) -> None:
    result, _ = ask(tmp_path, verdict(justification_contamination="x" * MAX_BYTES))
    assert result.state is S.UNREADABLE and "larger" in result.reason


def test_a_verdict_before_a_crash_or_the_end_of_the_time_stands(tmp_path: Path) -> None:
    def crashed(work: Path, nonce: str) -> Mapping[str, Any]:
        verdict()(work, nonce)
        return {"rc": None, "signal": 9}

    result, _ = ask(tmp_path, crashed)
    assert result.verdict == GOOD and "signal 9" in result.reason


@pytest.mark.parametrize("act", [nothing, verdict(nonce="x"), verdict()])
def test_time_that_ran_out(tmp_path: Path, act: Act) -> None:
    def slow(work: Path, nonce: str) -> Mapping[str, Any]:
        act(work, nonce)
        return {"timed_out": True, "rc": None, "signal": 9}

    result, chamber = ask(tmp_path, slow)
    assert len(chamber.visits) == 1 and (result.state is S.TIMED_OUT) == (result.verdict is None)


def test_no_time_at_all(tmp_path: Path) -> None:
    result, chamber = ask(tmp_path, verdict(), left_s=1.0)
    assert result.state is S.TIMED_OUT and chamber.visits == []


def test_a_second_session_is_not_begun_without_time_for_it(tmp_path: Path) -> None:
    result, chamber = ask(tmp_path, lambda work, nonce: {"seconds": 500.0}, left_s=400.0)
    assert result.state is S.MISSING and len(chamber.visits) == 1


def test_a_contradictory_answer_is_not_asked_until_it_fits(tmp_path: Path) -> None:
    def twice(work: Path, nonce: str) -> Mapping[str, Any]:
        said = json.dumps({"nonce": nonce, **GOOD})
        (work / "judgement.json").write_text(said[:-1] + ', "contamination": true}')
        return {}

    result, chamber = ask(tmp_path, twice)
    assert result.state is S.CONTRADICTORY and len(chamber.visits) == 1


@pytest.mark.parametrize(
    ("message", "cause", "sessions"),
    [
        ("You've hit your usage limit. Try again later.", "provider_limit", 1),
        ("unexpected status 401 Unauthorized: bad key", "credential", 1),
        ("unexpected status 503 Service Unavailable", "provider_error", 2),
    ],
)
def test_refusals_of_the_provider_have_their_cause(tmp_path: Path, message: str, cause: str, sessions: int) -> None:
    def refused(work: Path, nonce: str) -> Mapping[str, Any]:
        lines = ({"type": "error", "message": message}, {"type": "turn.failed", "error": {"message": message}})
        return {"rc": 1, "lines": lines}

    result, chamber = ask(tmp_path, refused)
    assert result.state is S.MISSING and result.extra["cause"] == cause and len(chamber.visits) == sessions
    assert message[:20] in result.reason


def test_a_token_in_a_verdict_is_not_published(tmp_path: Path) -> None:
    result, _ = ask(tmp_path, verdict(justification_contamination=f"the login is {SECRET}"))
    assert result.verdict is not None and SECRET not in json.dumps(result.verdict)


def test_a_step_that_was_stopped_says_so(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="stopped"):
        ask(tmp_path, lambda work, nonce: {"stopped": True, "rc": 143})


def test_the_command_and_the_configuration(tmp_path: Path) -> None:
    words = command(CONTAMINATION)
    assert "--search" not in words and words[:5] == ("codex", "-a", "never", "exec", "--json") and words[-1] == "-"
    assert "model_reasoning_effort=xhigh" in words and CONTAMINATION.model in words
    plain = tomllib.loads(config(CONTAMINATION, "/home/ben", "/usr/bin"))
    assert plain["forced_login_method"] == "chatgpt" and plain["web_search"] == "disabled"
    assert plain["project_doc_max_bytes"] == 0 and plain["shell_environment_policy"]["inherit"] == "none"
    own = CONTAMINATION.model_copy(update={"endpoint": "http://h:1/v1", "credential": API_KEY})
    other = tomllib.loads(config(own, "/home/ben", "/usr/bin"))
    assert other["forced_login_method"] == "api" and other["model_provider"] == "endpoint"
    assert other["model_providers"]["endpoint"]["env_key"] == "CODEX_API_KEY"
