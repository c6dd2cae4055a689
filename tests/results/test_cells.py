from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.layout import Root
from ptb_tui.core.scores import Worth
from ptb_tui.results.cells import cell, choose, same_model
from ptb_tui.results.records import Assessment, Origin, Place, Policy, RunRecord, StepRecord
from ptb_tui.results.store import scan
from tests.results.trees import CLEAN, foreign_run, own_run

BASE = 0.1
METHOD, BENCHMARK, MODEL = "reference_steps300_0.1h", "demo", "local/demo-base"


def record(
    run_id: int, *, started: str = "", done: bool = True, void: str = "", accuracy: float | None = 0.5,
    worth: str = "scored", policy: Policy = "measured", place: Place = "run", origin: Origin = "ptb",
    state: str = "done",
) -> RunRecord:  # fmt: skip
    values = {"run_id": run_id, "accuracy": accuracy, "agent_done": done, "void": void}
    return RunRecord(
        id=run_id, method=METHOD, run_name=f"demo_local_demo-base_{run_id}", benchmark=BENCHMARK, model=MODEL,
        origin=origin, place=place, root=Path("/results"), relative=f"{METHOD}/{run_id}", started=started,
        steps=(StepRecord(1, "agent", "agent", state),), values=values, assessment=Assessment(worth, policy),
    )  # fmt: skip


ENDED = st.builds(
    record,
    st.integers(1, 10**10),
    started=st.sampled_from(["", "2026-08-01T00:00:00.000Z", "2026-08-02T00:00:00.000Z"]),
    accuracy=st.floats(0, 1),
    origin=st.sampled_from(["ptb", "upstream"]),
)
NOTHING = st.one_of(  # what must never displace a result
    st.builds(record, st.integers(1, 10**11), done=st.just(False), worth=st.just("running"), policy=st.just("none"),
              place=st.sampled_from(["queue", "never_started"]), state=st.sampled_from(["queued", "cancelled", "held"]),
              started=st.just("2999-01-01T00:00:00.000Z"), accuracy=st.none()),
    st.builds(record, st.integers(1, 10**11), done=st.just(False), worth=st.just("failed"), policy=st.just("none"),
              state=st.sampled_from(["lost", "failed", "cancelled", "running"]), accuracy=st.none(),
              started=st.just("2999-01-01T00:00:00.000Z")),
    st.builds(record, st.integers(1, 10**11), void=st.just("leak"), worth=st.just("void"), policy=st.just("none"),
              started=st.just("2999-01-01T00:00:00.000Z")),
    st.builds(record, st.integers(1, 10**11), done=st.just(False), worth=st.just("missing"), policy=st.just("none"),
              origin=st.just("upstream"), accuracy=st.none(), started=st.just("2999-01-01T00:00:00.000Z")),
)  # fmt: skip


UNIQUE = st.lists(ENDED, max_size=4, unique_by=lambda run: run.id)


@given(UNIQUE, st.lists(NOTHING, max_size=5), st.randoms())
def test_nothing_without_result_displaces_one(ended: list[RunRecord], others: list[RunRecord], random: Random) -> None:
    mixed = [*ended, *others]
    random.shuffle(mixed)
    before, after = choose(ended)[0], choose(mixed)[0]
    key = (before.started, before.id, before.values) if before else None
    assert (after and (after.started, after.id, after.values)) == key
    if before is not None:
        alone = cell(METHOD, BENCHMARK, MODEL, [before], baseline=BASE)
        both = cell(METHOD, BENCHMARK, MODEL, [before, *others], baseline=BASE)
        assert both.model_copy(update={"other_runs": ()}) == alone.model_copy(update={"other_runs": ()})
        assert sorted(both.other_runs) == sorted(record.id for record in others)


@given(st.lists(ENDED, min_size=1, max_size=5, unique_by=lambda run: run.id))
def test_the_order_of_reading_does_not_matter(runs: list[RunRecord]) -> None:
    assert choose(runs) == choose(runs[::-1])
    newest = max(run.started for run in runs)
    chosen, by = choose(runs)
    assert chosen is not None and chosen.started == newest and by == "finished"


def test_upstream_takes_the_highest_id_whatever_it_holds() -> None:
    good = record(100)
    broken = record(101, done=False, worth="missing", policy="none", accuracy=None)
    queued = record(102, done=False, place="queue", state="queued")
    assert choose([good, broken, queued], "upstream") == (broken, "upstream")
    assert choose([good, broken, queued], "finished") == (good, "finished")


def test_a_newer_id_with_an_older_start_does_not_win() -> None:
    old, new = record(200, started="2026-08-01"), record(100, started="2026-08-02")
    assert choose([old, new])[0] == new


def test_a_cell_without_result_says_what_goes_on() -> None:
    queued = record(5, done=False, place="queue", state="queued", worth="running", policy="none", accuracy=None)
    failed = record(4, done=False, state="failed", worth="failed", policy="none", accuracy=None)
    shown = cell(METHOD, BENCHMARK, MODEL, [failed, queued], baseline=BASE)
    assert (shown.worth, shown.run_id, shown.used, shown.other_runs) == (Worth.RUNNING, None, None, (4, 5))
    assert cell(METHOD, BENCHMARK, MODEL, [failed], baseline=BASE).worth is Worth.FAILED
    empty = cell(METHOD, BENCHMARK, MODEL, [], baseline=BASE)
    assert (empty.worth, empty.reason) == (Worth.MISSING, "no run")


def test_a_base_score_that_does_not_exist_is_said() -> None:
    run = record(1, worth="no_model", policy="baseline", accuracy=None)
    shown = cell(METHOD, BENCHMARK, MODEL, [run], baseline=None)
    assert shown.used is None and "no base score" in shown.reason


def test_models_are_compared_as_directories_name_them() -> None:
    assert same_model("Qwen/Qwen3-4B-Base", "Qwen/Qwen3-4B-Base")
    assert same_model("my/org_model", "my_org/model")
    assert not same_model("Qwen/Qwen3-4B-Base", "Qwen/Qwen3-4B")


def test_the_cell_stays_while_a_tree_changes(tmp_path: Path) -> None:
    """A scored original run, our queued retry, our cancelled retry and a broken later original run."""
    root = Root(tmp_path)
    method = "codex_gpt-5.1_10h"
    base: dict[str, Any] = {"agent": "codex", "config": "gpt-5.1", "hours": 10.0, "gpus": 1, "benchmark": "gsm8k"}
    base["base_model"] = "Qwen/Qwen3-4B-Base"
    foreign_run(root, method, "gsm8k", "Qwen/Qwen3-4B-Base", 17000001, started="2026-08-01T00:00:00Z")

    def shown() -> tuple[object, ...]:
        runs = [replace(run, method=method) for run in scan(root)]
        found = cell(method, "gsm8k", "Qwen/Qwen3-4B-Base", runs, baseline=BASE)
        return found.run_id, found.worth, found.raw, found.used, found.reason

    before = shown()
    assert before == (17000001, Worth.SCORED, 0.5, 0.5, "")
    own_run(root, 1_800_000_001, place="queue", outcome="queued", **base)
    assert shown() == before
    own_run(root, 1_800_000_002, place="never_started", outcome="cancelled", **base)
    assert shown() == before
    own_run(root, 1_800_000_003, outcome="running", metrics=None, verdicts=None, **base)
    assert shown() == before
    own_run(root, 1_800_000_004, outcome="failed", cause="gpu", metrics=None, verdicts=None, **base)
    assert shown() == before
    foreign_run(root, method, "gsm8k", "Qwen/Qwen3-4B-Base", 17000002, metrics=None, time_taken=None, verdicts={})
    assert shown() == before
    flagged = {**CLEAN, "api_usage_judge": ("disallowed_api_usage",)}
    own_run(root, 1_800_000_005, verdicts=flagged, start="2026-08-05T00:00:00.000Z", **base)
    assert shown()[:4] == (1_800_000_005, Worth.FLAGGED, 0.7, BASE)
