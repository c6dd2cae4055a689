import io

from ptb_tui.core.scores import Board, CellScore, MethodScore, Worth
from ptb_tui.present.output import Output
from ptb_tui.present.scores import board


def shown(**cell: object) -> str:
    values = {"method": "m", "benchmark": "demo", "model": "local/demo-base", "run_id": 7, **cell}
    one = MethodScore(method="m", protocol="demo", reason="why", cells=(CellScore.model_validate(values),))
    stdout = io.StringIO()
    table = Board(protocol="demo", baselines={"local/demo-base": {"demo": 0.005}}, methods=(one,))
    board(Output(stdout=stdout, stderr=io.StringIO()), table)
    return stdout.getvalue()


def test_every_worth_has_a_reason_of_its_own() -> None:
    for worth in Worth:
        lines = shown(worth=worth, reason=worth.value).splitlines()
        assert lines[-1].strip(), worth
        assert "0.5 %" in lines[-2]


def test_a_flagged_cell_shows_measured_and_used_value_letters_and_the_first_evidence() -> None:
    evidence = tuple(f"piece {n}" for n in range(5))
    text = shown(worth="flagged", raw=1.0, stderr=0.0, used=0.005, letters="MC", evidence=evidence)
    assert "0.5 %  100.0 ± 0.0 %" in text and "flagged MC" in text
    assert "flagged: disallowed model, contamination" in text
    assert "- piece 2" in text and "piece 3" not in text and "and 2 more: ptb-tui show 7" in text


def test_a_long_and_hostile_reason_is_one_short_line() -> None:
    text = shown(worth="scored", reason="\x1b[2J" + "x\n" * 4000)
    (line,) = [line for line in text.splitlines() if "x x" in line]
    assert len(line) < 260 and line.endswith("…") and "\x1b" not in text


def test_no_value_is_not_zero() -> None:
    assert "–" in shown(worth="unjudged") and " 0.0 %" not in shown(worth="unjudged")
