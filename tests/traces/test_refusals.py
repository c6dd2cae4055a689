import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.causes import causes
from ptb_tui.traces.refusals import (
    TROUBLES,
    after,
    by_body,
    by_status,
    by_type,
    by_words,
    join,
    known,
    seconds_of,
)
from tests.traces.samples import STAMP

AT = 1785574800  # STAMP


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("or try again in 2 days 17 hours 14 minutes.", 234_840),
        ("Please try again in 1s.", 1),
        ("Please retry in 1s.\nSuggested retry after 1s.", 1),
        ("try again in 1h 30m", 5400),
        ("Try again in 20.4s.", 20),
    ],
)
def test_a_span_counts_from_the_line(words: str, seconds: int) -> None:
    assert by_words(words, STAMP) == {"resetsAt": AT + seconds}
    assert by_words(words, "")["retry_in_seconds"] == pytest.approx(seconds, abs=0.5)


def test_a_clock_has_no_date_and_no_zone() -> None:
    assert by_words("credits or try again at 4:50 PM.", STAMP) == {"resets": "4:50 PM", "resets_clock": "16:50"}
    assert by_words("try again at 12:05 am", STAMP)["resets_clock"] == "00:05"
    assert by_words("try again at Nov 30th, 2026 4:50 PM.", STAMP) == {"resets": "Nov 30th, 2026 4:50 PM"}


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("5-hour limit reached · resets 5:24pm (UTC) · ", "2026-08-01T17:24:00Z"),
        ("You've hit your session limit · resets 12:50am (Europe/Berlin)", "2026-08-01T22:50:00Z"),
        ("resets 9am (UTC)", "2026-08-02T09:00:00Z"),  # now, so tomorrow
        ("resets at 12am (America/Los_Angeles)", "2026-08-02T07:00:00Z"),
        ("resets in 3h", "2026-08-01T12:00:00Z"),
    ],
)
def test_a_clock_in_a_zone_is_the_next_such_time(words: str, moment: str) -> None:
    assert by_words(words, STAMP)["resetsAt"] == seconds_of(moment)


def test_a_night_with_one_hour_less() -> None:
    # 10 pm before clocks go forward in Berlin: 7 am is eight hours away on a clock there.
    assert by_words("resets 7am (Europe/Berlin)", "2026-03-28T21:00:00Z")["resetsAt"] == seconds_of(
        "2026-03-29T05:00:00Z"
    )


def test_zones_that_are_none_and_dates() -> None:
    assert by_words("resets 5pm (Nowhere/City)", STAMP) == {"resets": "5pm (Nowhere/City)"}
    assert by_words("resets 5pm (Europe)", STAMP) == {"resets": "5pm (Europe)"}
    assert by_words("resets 5:05 PM", STAMP) == {"resets": "5:05 PM", "resets_clock": "17:05"}
    assert by_words("resets Nov 30, 5pm (UTC)", STAMP) == {"resets": "Nov 30, 5pm (UTC)"}
    assert by_words("resets 5pm (UTC)", "") == {"resets": "5pm (UTC)"}


def test_a_rate_limit_does_not_hide_what_is_better_known() -> None:
    assert join(by_type("usage_limit_reached"), by_status(429))["trouble"] == "usage_limit"
    assert join(by_status(429), by_type("insufficient_quota"))["trouble"] == "quota"
    assert join(by_type("overloaded"), by_status(401)) == {
        "error_type": "overloaded", "error_status": 401, "trouble": "login", "cause": "credential",
    }  # fmt: skip
    assert {known(name).get("cause", "") for name in TROUBLES} <= {"", *causes()}


@pytest.mark.parametrize(
    "words",
    ["", "try again", "try again in ages", "try again in 500ms", "try again in 999999 days", "try again at 🙂"],
)
def test_other_words_give_no_time(words: str) -> None:
    assert by_words(words, STAMP) == {}


def test_status_and_type() -> None:
    assert by_status(429) == {"error_status": 429, "trouble": "rate_limit", "cause": "provider_limit"}
    assert by_status(401)["cause"] == "credential"
    assert by_status(500) == {"error_status": 500, "trouble": "server"} and by_status(404) == {"error_status": 404}
    assert by_status(True) == by_status("429") == by_status(-1) == {}
    assert by_type("insufficient_quota")["cause"] == "provider_limit"
    assert by_type("odd_error") == {"error_type": "odd_error"}
    assert by_type(["x"]) == by_type("x" * 1000) == {}


def test_bodies_of_vendors() -> None:
    plan = '{"error":{"type":"usage_limit_reached","resets_at":1785570600,"resets_in_seconds":9000}}'
    assert by_body(plan, STAMP)["resetsAt"] == 1785570600
    assert by_body('{"error":{"type":"usage_limit_reached","resets_in_seconds":9000}}', STAMP)["resetsAt"] == AT + 9000
    google = '{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"},7]}}'
    assert by_body(google, STAMP) == {
        "error_status": 400, "error_type": "API_KEY_INVALID", "trouble": "login", "cause": "credential",
    }  # fmt: skip
    for odd in ("", "[]", "{}", '{"error":3}', None, 7, "{" * 1000, '{"error":{"resets_at":1e999}}'):
        assert "cause" not in by_body(odd, STAMP)


def test_delays_that_are_none() -> None:
    for odd in (None, True, -1, float("nan"), float("inf"), 10**400, "Sun, 29 Nov 2026", "1" * 40):
        assert after(odd, STAMP) == {}
    assert after("1", STAMP) == {"resetsAt": AT + 1}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.text(max_size=30))
def test_total(text: str, stamp: str) -> None:
    by_words(f"try again in {text}", stamp)
    by_words(f"try again at {text}", stamp)
    by_words(f"resets {text}", stamp)
    by_words(f"resets 5pm ({text})", STAMP)
    by_body('{"error":{"type":"' + text, stamp)
