import pytest

from ptb_tui.core.causes import causes
from ptb_tui.core.scores import Worth
from ptb_tui.core.states import State
from ptb_tui.core.verdict import VerdictState
from ptb_tui.present import words
from ptb_tui.present.output import COLOURS
from ptb_tui.present.table import text_width


@pytest.mark.parametrize(
    "looks",
    [
        [words.state(state) for state in State],
        [words.worth(worth) for worth in Worth],
        [words.verdict(verdict) for verdict in VerdictState],
        [words.check(name) for name in ("ok", "bad", "unknown")],
        [words.plan_action(name) for name in ("submit", "exists", "running", "blocked")],
    ],
)
def test_every_value_has_a_look_of_its_own_that_needs_no_colour(looks: list[words.Look]) -> None:
    assert len({look.word for look in looks}) == len(looks)
    for look in looks:
        assert look.glyph != "·" or look.word in ("missing", "no verdict")
        assert text_width(look.glyph) == 1 and look.ascii.isascii() and len(look.ascii) == 1
        assert look.colour in COLOURS
        assert look.text(ascii_only=True).isascii()


def test_what_a_newer_version_says_is_shown_as_it_is() -> None:
    assert words.state("dreaming").word == "dreaming"
    assert words.worth("half_good").word == "half good"
    assert words.verdict("abstained").word == "abstained"
    assert words.cause("solar_flare") == "solar flare"


def test_running_says_which_work() -> None:
    assert words.state("running", "agent").word == "running"
    assert words.state("running", "judge:general_judge#1").word == "judging"
    assert words.state("running", "evaluate#2").word == "evaluating"
    assert words.state("queued", "evaluate#2").word == "queued"


def test_steps_letters_and_causes_in_words() -> None:
    assert words.step("agent") == "agent" and words.step("evaluate#1") == "evaluation"
    assert words.step("judge:data_contamination_judge#2") == "data contamination judge #2"
    assert words.letters("MCA") == "disallowed model, contamination, disallowed API use"
    assert words.letters("MX") == "disallowed model, X"
    assert words.cause("") == ""
    for name, row in causes().items():
        assert words.cause(name) in (row.words, "unknown")
