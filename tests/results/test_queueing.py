import json
from pathlib import Path
from typing import Any

from ptb_tui.core.scores import ReviewSummary, VerdictSummary
from ptb_tui.core.verdict import VerdictState
from ptb_tui.results.queueing import MOST, queue
from ptb_tui.results.records import Assessment, RunRecord


def verdict(state: str = "clean", judge: str = "api_usage_judge", **more: Any) -> VerdictSummary:
    base: dict[str, Any] = {
        "judge": judge, "output_id": "api", "state": VerdictState(state), "source": "inline", "required": True,
        "flags": ("disallowed_api_usage",), "flagged": ("disallowed_api_usage",) if state == "flagged" else (),
    }  # fmt: skip
    return VerdictSummary(**{**base, **more})


def run(number: int, *verdicts: VerdictSummary, **more: Any) -> RunRecord:
    base: dict[str, Any] = {
        "id": number, "method": "m", "run_name": f"r_{number}", "benchmark": "b", "model": "o/m", "origin": "ptb",
        "place": "run", "root": Path("/r"), "relative": f"m/r_{number}", "assessment": Assessment("scored", "measured"),
    }  # fmt: skip
    text = json.dumps([found.model_dump(mode="json") for found in verdicts])
    return RunRecord(**{**base, "verdicts_text": text, **more})


HUMAN = ReviewSummary(decision="clear", operator="ada")
RUNS = [
    run(9, verdict("flagged")),
    run(8, verdict("contradictory", reason="the votes on disallowed_api_usage tie")),
    run(7, verdict("clean", split="2:1")),
    run(6, verdict("unreadable", reason="[]"), origin="upstream"),
    run(5, verdict("clean", hint="no justification")),
    run(4, verdict("flagged", source="review", review=HUMAN)),
    run(3, verdict("timed_out"), verdict("missing", judge="other_judge", output_id="other")),
    run(2, verdict("flagged"), values={"void": "wrong GPU"}),
    run(1, verdict()),
    run(0, verdict("flagged"), place="queue"),
]


def test_what_is_listed_and_in_which_order() -> None:
    view = queue(RUNS)
    assert [item.run for item in view.verdicts] == [8, 6, 7, 9, 5]
    assert (view.looked, view.decided, view.left_off) == (8, 1, 0)
    whys = {item.run: item.why for item in view.verdicts}
    assert whys[8] == "contradictory: the votes on disallowed_api_usage tie"
    assert (whys[7], whys[9], whys[5]) == ("split 2:1, clean", "flagged", "read this one: no justification")
    assert all(item.next for item in view.verdicts)


def test_everything() -> None:
    view = queue(RUNS, everything=True)
    assert [item.run for item in view.verdicts] == [8, 6, 7, 9, 2, 5, 3, 3, 4]
    assert view.verdicts[-1].why == "decided by ada"


def test_one_judge() -> None:
    for word in ("other_judge", "other"):
        assert [item.run for item in queue(RUNS, [word], everything=True).verdicts] == [3]
    assert queue(RUNS, ["api_usage"]).verdicts == queue(RUNS, ["api"]).verdicts


def test_the_commands_fit() -> None:
    by_run = {item.run: item.next for item in queue(RUNS).verdicts}
    assert by_run[9][0].startswith("ptb-tui review 9 api_usage_judge confirm")
    assert by_run[8][1].startswith("ptb-tui review 8 api_usage_judge flag --reason")
    assert by_run[6][0] == "ptb-tui judge 6 --judges api_usage_judge", "runs of others too"
    two = verdict("contradictory", flags=("contamination", "disallowed_model"), reason="disallowed_model is false")
    assert "flag --field disallowed_model --reason" in queue([run(1, two)]).verdicts[0].next[1]


def test_an_answer_is_bounded() -> None:
    long = verdict("flagged", justification="x" * 2000, evidence=("y" * 300,) * 20)
    view = queue([run(number, long) for number in range(MOST + 10)])
    assert (len(view.verdicts), view.left_off) == (MOST, 10)
    assert len(view.model_dump_json()) < 2 << 20
