"""What `quick` reads it must read as `reading` does; everything else it must leave alone."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptb_tui.core import names
from ptb_tui.core.layout import Root
from ptb_tui.results import store
from ptb_tui.results.quick import read_quick
from ptb_tui.results.reading import read_run
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import RunStore
from tests.results.trees import CLEAN, MODELS, foreign_run, settle, verdict_text

METHOD = "codex_gpt-5.1_10h"
FOUR = ("data_contamination_judge", "api_usage_judge")


def both(root: Root, run: Path) -> tuple[RunRecord | None, RunRecord | None]:
    relative = f"{METHOD}/{run.name}"
    parsed = names.parse_run(run.name)
    assert parsed is not None
    quick = read_quick(root.path, relative, METHOD, run.name, parsed, "")
    return (quick[0] if quick else None), read_run(root, relative, "run", False)


def same(quick: RunRecord | None, slow: RunRecord | None) -> bool:
    """Alike in every field; verdicts as values, whatever the order of their keys."""
    assert quick is not None and slow is not None
    for name in RunRecord.__slots__:
        one, other = getattr(quick, name), getattr(slow, name)
        if name == "verdicts_text":
            one, other = json.loads(one), json.loads(other)
        assert one == other, name
    return True


@pytest.mark.parametrize("run_id", [17_000_001, 17_500_001])
@pytest.mark.parametrize("metrics", ['{"accuracy": 0.5}', '{"accuracy": 0, "stderr": 0.1, "per_seed": {"1": {"metrics":'
                                     '{"accuracy": 0.1}}, "2": {"metrics": {"accuracy": 0.3}}}}'])  # fmt: skip
def test_the_common_run(tmp_path: Path, run_id: int, metrics: str) -> None:
    verdicts = {judge: CLEAN[judge] for judge in (CLEAN if run_id > 17_400_000 else FOUR)}
    run = foreign_run(Root(tmp_path), METHOD, "gsm8k", MODELS[0], run_id, verdicts=verdicts, metrics=metrics)
    assert same(*both(Root(tmp_path), run))
    (run / "cli_version.txt").write_text("binary: codex\nversion: 0.5\n")
    (run / "output.log").write_text(f"gsm8k codex {MODELS[0]} 1 10 gpt-5.1 1\n2026-08-01T10:00:00Z begins\n")
    assert same(*both(Root(tmp_path), run))


@pytest.mark.parametrize("flags", [("contamination",), ("disallowed_model",), ("contamination", "disallowed_model")])
def test_flags(tmp_path: Path, flags: tuple[str, ...]) -> None:
    verdicts = {**CLEAN, "data_contamination_judge": flags}
    run = foreign_run(Root(tmp_path), METHOD, "gsm8k", MODELS[0], 17_500_001, verdicts=verdicts)
    quick, slow = both(Root(tmp_path), run)
    assert same(quick, slow)
    assert quick is not None and quick.assessment.worth == "flagged"


def _linked(run: Path) -> None:
    (run / "metrics.json").rename(run / "m")
    (run / "metrics.json").symlink_to("m")


def _piped(run: Path) -> None:
    (run / "time_taken.txt").unlink()
    os.mkfifo(run / "time_taken.txt")


UNUSUAL: dict[str, Callable[[Path], object]] = {
    "no metrics": lambda run: (run / "metrics.json").unlink(),
    "bad metrics": lambda run: (run / "metrics.json").write_text('{"accuracy": 73.4}'),
    "void": lambda run: (run / "metrics.json").rename(run / "metrics.json.VOID"),
    "no time": lambda run: (run / "time_taken.txt").unlink(),
    "bad time": lambda run: (run / "time_taken.txt").write_text("soon"),
    "a verdict missing": lambda run: (run / "judgement_api.json").unlink(),
    "a rerun": lambda run: (run / "judgement_api_rerun.json").write_text(verdict_text("api_usage_judge")),
    "a manual one": lambda run: (run / "judgement_gpt5_4_manual.json").write_text("{}"),
    "votes": lambda run: (run / "judgement_multi_runs").mkdir(),
    "an old text": lambda run: (run / "contamination_judgement.txt").write_text("no contamination detected"),
    "ours": lambda run: (run / ".ptb").mkdir(),
    "a link": _linked,
    "a fifo": _piped,
    "harbor": lambda run: (run / "cli_version.txt").write_text("update: harbor-managed"),
    "a key twice": lambda run: (run / "judgement_api.json").write_text(
        '{"disallowed_api_usage": true, "disallowed_api_usage": false, "justification_disallowed_api_usage": "x"}'
    ),
    "at odds": lambda run: (run / "judgement_api.json").write_text(
        verdict_text("api_usage_judge", (), "This is clearly a disallowed API call.")
    ),
    "meta": lambda run: (run / "judgement_api.json").write_text(
        json.dumps({**json.loads(verdict_text("api_usage_judge")), "_meta": {"judge_model": "m"}})
    ),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_anything_unusual_is_for_the_other_reader(tmp_path: Path, what: str) -> None:
    run = foreign_run(Root(tmp_path), METHOD, "gsm8k", MODELS[0], 17_500_001)
    UNUSUAL[what](run)
    quick, _ = both(Root(tmp_path), run)
    assert quick is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=60), st.sampled_from(["it\\u0000s", 'a "quote"', "line\nline", "Ünïcode \u202e"])))
def test_any_words_of_a_judge(tmp_path: Path, why: str) -> None:
    root = Root(tmp_path)
    run = tmp_path / METHOD / f"gsm8k_{names.safe(MODELS[0])}_17500001"
    if not run.exists():
        foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    (run / "judgement_api.json").write_text(json.dumps(json.loads(verdict_text("api_usage_judge", (), why)),
                                                       ensure_ascii=False))  # fmt: skip
    quick, slow = both(root, run)
    assert quick is None or same(quick, slow)


def test_what_lies_over_a_run_is_seen_although_the_index_has_it(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.ptb.mkdir()
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    settle(tmp_path)
    assert RunStore(root).scan().runs[0].assessment.worth == "scored"
    known = RunStore(root)
    assert known.scan() and known.scanned and known.scanned == known.state()
    above = root.own("overlay") / METHOD / run.name
    above.mkdir(parents=True)
    (above / "judgement_api_manual.json").write_text(verdict_text("api_usage_judge", ("disallowed_api_usage",)))
    assert known.state() == ""
    assert RunStore(root).scan().runs[0].assessment.worth == "flagged"


def test_the_state_of_a_root_changes_with_every_run(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.ptb.mkdir()
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001)
    settle(tmp_path)
    reader = store.RunStore(root)
    reader.scan()
    state = reader.state()
    assert state and store.RunStore(root).state() == state
    (tmp_path / METHOD / "not a run").mkdir()
    assert reader.state() != state
    (run / "metrics.json").write_text('{"accuracy": 0.6}')
    assert reader.state() == ""
    reader.scan()
    assert reader.scanned == ""  # just written: the next change could go unseen
    foreign_run(root, METHOD, "gsm8k", MODELS[1], 17_500_002)
    assert reader.state() == ""
