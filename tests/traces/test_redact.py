from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.traces.redact import Redactor, Span, replace

KEY = 'sk.Aa1+/="b\\c.$(2)[x]*'
OTHER = "plain-Value-1234567890-abcdef"
MARK = b"[redacted:A_KEY]"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(
        {"A_KEY": KEY, "B_TOKEN": OTHER, "SHORT_KEY": "abc", "PLACE_KEY": "your-key-here", "U_KEY": "UNDEFINED"}
    )


def test_every_form(redactor: Redactor) -> None:
    once = json.dumps(KEY)[1:-1]
    for form in (
        KEY,
        once,
        json.dumps(once)[1:-1],
        quote(KEY, safe=""),
        quote(KEY, safe="").lower().replace("aa1", "Aa1"),
    ):
        text, counts = redactor.redact(b"<<" + form.encode() + b">>")
        assert (text, counts) == (b"<<" + MARK + b">>", {"A_KEY": 1}), form


@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_at_every_alignment(redactor: Redactor, shift: int, encode: object) -> None:
    assert callable(encode)
    for secret, name in ((KEY, "A_KEY"), (OTHER, "B_TOKEN")):
        text, counts = redactor.redact(b"auth " + encode(b"u:x"[:shift] + secret.encode() + b"tail") + b" end")
        assert counts == {name: 1}
        left = text.replace(f"[redacted:{name}]".encode(), b"")
        assert len(left) <= len(b"auth  end") + 12  # what is left are characters that hold other bytes too


@pytest.mark.parametrize("line_break", [b"\n", b"\r\n", b"\\n", b"\\r\\n"])
def test_a_value_over_two_lines(redactor: Redactor, line_break: bytes) -> None:
    value = OTHER.encode()
    text, counts = redactor.redact(b"x " + value[:11] + line_break + value[11:] + b" y")
    assert counts == {"B_TOKEN": 1}
    assert value[:11] not in text and value[11:] not in text
    assert text.count(b"\n") == line_break.count(b"\n")


def test_wrapped_base64(redactor: Redactor) -> None:
    long = "k" + "0123456789abcdefXYZ" * 12
    wrapped = base64.encodebytes(b"prefix " + long.encode())
    text, counts = Redactor({"L_KEY": long}).redact(wrapped)
    assert counts == {"L_KEY": 1} and text.count(b"\n") == wrapped.count(b"\n")
    assert text.count(b"[redacted:L_KEY]") == wrapped.count(b"\n")


def test_known_shapes(redactor: Redactor) -> None:
    tokens = {
        "sk-ant-api03-" + "aB3dE5" * 15: "sk-token",
        "sk-proj-" + "aB3_E5-" * 20: "sk-token",
        "hf_" + "aBcDeFgHiJ" * 3 + "kLmN": "hf-token",
        "ghp_" + "a1B2" * 9: "github-token",
        "AIza" + "a1B2c" * 7: "google-key",
    }
    for token, name in tokens.items():
        text, counts = redactor.redact(f'{{"t":"{token}"}}'.encode())
        assert (text, counts) == (f'{{"t":"[redacted:{name}]"}}'.encode(), {name: 1})
    for word in (
        b"sk-learn-estimator-doc-link-wrapper",
        b"task-aB3dE5aB3dE5aB3dE5aB3dE5",
        b"hf_model_name_of_some_length",
    ):
        assert redactor.redact(word) == (word, {})


def test_placeholders_and_short_values_are_left(redactor: Redactor) -> None:
    text = b"abc your-key-here UNDEFINED"
    assert redactor.redact(text) == (text, {})


def test_overlapping_values() -> None:
    redactor = Redactor({"A": "abcdefgh", "B": "abcdefghij", "C": "ghijkl"})
    assert redactor.redact(b"-abcdefghijkl-")[0] == b"-[redacted:B]-"


@settings(deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_total_on_bytes_and_lines_stay(before: bytes, after: bytes) -> None:
    redactor = Redactor({"A_KEY": KEY, "B_TOKEN": OTHER})
    text, counts = redactor.redact(before + OTHER.encode() + after)
    assert OTHER.encode() not in text and counts["B_TOKEN"] >= 1
    assert text.count(b"\n") == (before + after).count(b"\n")


PIECES = st.lists(
    st.sampled_from([b"abcdef", b"ghij", b"\n", b"\r\n", b"\\n", b"abcdefgh", b"abcdefghij", b"x", b"ijkl", b"a"]),
    max_size=14,
)


@settings(deadline=None)
@given(PIECES, st.integers(0, 80))
def test_no_secret_is_lost_where_nothing_is_unfinished(parts: list[bytes], cut: int) -> None:
    redactor = Redactor({"A": "abcdefghij", "B": "ghijkl"})
    data = b"".join(parts)
    cut = data.rfind(b"\n", 0, cut % (len(data) + 1)) + 1
    whole = redactor.redact(data)[0]
    if redactor.unfinished(data[:cut]) == cut:
        assert redactor.redact(data[:cut])[0] + redactor.redact(data[cut:])[0] == whole


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [OTHER.encode(), b"z" * 300, b"plain-", KEY.encode(), (OTHER[:9] + "\n" + OTHER[9:]).encode(), b"\n"]
        ),
        max_size=30,
    ),
    st.integers(1, 900),
)
def test_a_stream_in_blocks_is_the_same_text(parts: list[bytes], size: int) -> None:
    redactor = Redactor({"A_KEY": KEY, "B_TOKEN": OTHER})
    data = b"".join(parts)
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    assert b"".join(replace(raw, spans) for raw, spans in redactor.stream(blocks)) == redactor.redact(data)[0]
    assert b"".join(raw for raw, _ in redactor.stream(blocks)) == data


def test_spans_count_a_broken_value_once(redactor: Redactor) -> None:
    value = OTHER.encode()
    assert redactor.find(value[:9] + b"\n" + value[9:]) == [
        Span(0, 9, "B_TOKEN", True),
        Span(10, len(value) + 1, "B_TOKEN", False),
    ]
