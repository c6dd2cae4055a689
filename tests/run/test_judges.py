"""What speaks against a judge's endpoint before it is asked: a word of warning, never an obstacle (case A08)."""

from __future__ import annotations

import pytest

from ptb_tui.core.errors import ConfigError, StepError
from ptb_tui.core.panel import Seat
from ptb_tui.core.settings import Settings
from ptb_tui.run import judges
from tests.judging.chat import chat


def seat(endpoint: str, key: str = "") -> Seat:
    return Seat(engine="openai_api", model="m", endpoint=endpoint, key=key)


def test_an_endpoint_is_looked_at_once() -> None:
    with chat() as server:
        assert judges.reaches(server.url("judge"), "k" * 9) == judges.reaches(server.url("judge"), "k" * 9) == ""
        assert server.looks == 1
        said = judges.reaches(server.url("nomodels+judge"), "k" * 9)
        assert said == "answers 401 to a question about its models"
        gone = server.url("gone")
    assert judges.reaches(gone, "").startswith("was not reached: ")


@pytest.mark.parametrize("url", ["ftp://a/v1", "http://", "http://u:p@a/v1", "http://a:x/v1", "no"])
def test_what_is_no_endpoint(url: str) -> None:
    with pytest.raises(ConfigError, match="of the judges"):
        judges.check_api(seat(url))


def test_the_key_of_an_endpoint() -> None:
    settings = Settings({"JUDGE_API_KEY": "own", "OPENAI_API_KEY": "theirs"}, {}, None, None, None, "ann")
    assert judges.api_key(seat("http://127.0.0.1:1/v1"), settings) == ("JUDGE_API_KEY", "own")
    assert judges.api_key(seat("https://api.openai.com/v1"), settings) == ("OPENAI_API_KEY", "theirs")
    with pytest.raises(StepError, match=r"OPENROUTER_API_KEY has no value.*openrouter.ai"):
        judges.api_key(seat("https://openrouter.ai/api/v1"), settings)
    with pytest.raises(StepError, match="MINE"):
        judges.api_key(seat("http://127.0.0.1:1/v1", "MINE"), settings)
