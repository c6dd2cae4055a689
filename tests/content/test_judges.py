"""Who judges: a judge's panel, what protocol and sweep say about it, and whose key goes where (E §3.8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.judges import for_seat, load_judge, panel
from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import ContentError
from ptb_tui.core.panel import MAX_VOTES, Prices, Seat, in_words, key_of, spread
from ptb_tui.core.spec import JudgePlan, Judging
from ptb_tui.core.verdict import JudgeSpec
from tests.judging.specs import JUDGES, NAMES

CODEX = Seat(engine="codex", votes=3)
API = "openai_api"


def judge(tmp_path: Path, more: str = "") -> JudgeSpec:
    folder = tmp_path / "judges" / "j"
    folder.mkdir(parents=True)
    (folder / "judge.toml").write_text((JUDGES / NAMES[1] / "judge.toml").read_text() + more)
    (folder / "prompt.md").write_text("{evidence} {verdict}")
    return load_judge(Content((tmp_path,)), "j").spec


PANEL = """
[openai_api]
endpoint = "https://openrouter.ai/api/v1/"
model = "other/model"
effort = "high"
prices = { input = 1.0, output = 2.0 }
[[panel]]
engine = "codex"
[[panel]]
engine = "openai_api"
votes = 2
[[panel]]
engine = "openai_api"
endpoint = "http://127.0.0.1:8000/v1"
model = "local"
"""


def test_without_a_panel_the_protocol_decides(tmp_path: Path) -> None:
    seats = panel(judge(tmp_path), CODEX, Judging())
    assert [(seat.engine, seat.model, seat.effort, seat.votes) for seat in seats] == [
        ("codex", "gpt-5.6-terra", "xhigh", 1)
    ] * 3


def test_a_panel_of_several_engines_and_models(tmp_path: Path) -> None:
    spec = judge(tmp_path, PANEL)
    seats = panel(spec, CODEX, Judging())
    assert [(seat.engine, seat.model, seat.effort) for seat in seats] == [
        ("codex", "gpt-5.6-terra", "xhigh"),
        (API, "other/model", "high"),
        (API, "other/model", "high"),
        (API, "local", "high"),
    ]
    assert [seat.endpoint for seat in seats] == [
        "",
        *["https://openrouter.ai/api/v1"] * 2,
        "http://127.0.0.1:8000/v1",
    ]
    assert [seat.prices is not None for seat in seats] == [False, True, True, False]
    assert [key_of(seat)[0] for seat in seats[1:]] == ["OPENROUTER_API_KEY"] * 2 + ["JUDGE_API_KEY"]
    assert in_words(seats).startswith(
        "codex gpt-5.6-terra, 2 × openai_api other/model at openrouter.ai, openai_api local"
    )
    assert [seat.model for seat in panel(spec, CODEX, Judging(engine=API, votes=3))] == ["other/model"] * 2 + ["local"]
    assert len(panel(spec, CODEX, Judging(votes=2))) == 2
    assert {seat.model for seat in panel(spec, CODEX, Judging(model="m"))} == {"m"}
    assert all(seat.prices is None for seat in panel(spec, CODEX, Judging(model="m")))
    assert for_seat(spec, seats[3]).model == "local"


def test_a_key_goes_to_its_own_endpoint_alone(tmp_path: Path) -> None:
    spec = judge(tmp_path, '[openai_api]\nendpoint = "https://a.example/v1"\nkey = "A_KEY"\n')
    asked = Judging(engine=API)
    assert key_of(panel(spec, CODEX, asked)[0]) == ("A_KEY", True)
    for url in ("https://b.example/v1", "http://127.0.0.1:9/v1"):
        seat = panel(spec, CODEX, asked, url)[0]
        assert seat.endpoint == url and key_of(seat) == ("JUDGE_API_KEY", False)
    assert key_of(panel(spec, CODEX, asked, "https://api.openai.com/v1")[0]) == ("OPENAI_API_KEY", True)


def test_the_rules_are_asked_once(tmp_path: Path) -> None:
    assert panel(judge(tmp_path), CODEX, Judging(engine="rules", votes=9)) == (Seat(engine="rules"),)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[[panel]]\nengine = "oracle"\n', "panel.0.engine"),
        ("[[panel]]\nengine = 'codex'\nvote = 2\n", "did you mean `votes`"),
        ("[openai_api]\nendpont = 'x'\n", "did you mean `endpoint`"),
        ("[openai_api]\nprices = { input = -1, output = 1 }\n", "prices"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(ContentError, match=words):
        judge(tmp_path, more)


SEATS = st.lists(st.builds(Seat, engine=st.sampled_from(["codex", API, "rules"]), votes=st.integers(1, 4)), min_size=1)


@given(SEATS, st.none() | st.integers(1, MAX_VOTES))
def test_votes_are_spread(seats: list[Seat], votes: int | None) -> None:
    found = spread(seats, votes)
    assert found and all(seat.votes == 1 for seat in found)
    assert sum(seat.engine == "rules" for seat in found) <= 1
    if not any(seat.engine == "rules" for seat in seats):
        assert len(found) == (votes or sum(seat.votes for seat in seats))
    plan = JudgePlan(judge="j", engine=found[0].engine, votes=len(found), seats=found)
    assert JudgePlan.model_validate(plan.model_dump(mode="json")) == plan and plan.asked == found


def test_older_plans_stay_what_they_were() -> None:
    old = {"judge": "j", "engine": "codex", "votes": 2, "effect": "none", "required": False}
    plan = JudgePlan.model_validate(old)
    assert plan.model_dump(mode="json") == old and len(plan.asked) == 2 and plan.engines == {"codex"}


def test_prices() -> None:
    assert Prices(input=1, output=10, cached=0.5).cost(10**6, 10**6, 10**6) == pytest.approx(11.5)
    assert Prices(input=1, output=10).cost(0, 10**6, 0) == pytest.approx(1)
