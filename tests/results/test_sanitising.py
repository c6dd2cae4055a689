from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.results import sanitising
from ptb_tui.results.sanitising import PART, Report, Sanitiser

KEY = "sk-proj-Ab3dE5gH7jK9mN1pQ2rS4tU6vW8x"
ODD = "p@ss+w/rd$(.*)[x]{9}"
SECRETS = {"OPENAI_API_KEY": KEY, "SITE_PASSWORD": ODD}
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlLW9mLWEtdG9rZW4"


def clean(data: bytes, secrets: dict[str, str] = SECRETS) -> tuple[bytes, dict[str, int]]:
    out, report = Sanitiser(secrets).text(data)
    return out, report.replaced


@pytest.mark.parametrize("secret", [KEY, ODD])
def test_known_values_in_every_form(secret: str) -> None:
    forms = [
        secret.encode(), json.dumps({"k": secret}).encode(), quote(secret, safe="").encode(),
        json.dumps(json.dumps({"k": secret})).encode(), base64.b64encode(b"x" + secret.encode()),
        secret[:12].encode() + b"\n" + secret[12:].encode(), b"\xff\xfe" + secret.encode() + b"\xc3",
    ]  # fmt: skip
    for form in forms:
        out, replaced = clean(b"before " + form + b" after\n")
        assert secret.encode() not in out.replace(b"\n", b"") and sum(replaced.values()) >= 1, form
        assert out.startswith(b"before ") and out.endswith(b" after\n") and b"[redacted:" in out


def test_what_begins_like_a_known_secret() -> None:
    out, replaced = clean(b"a sk-proj-Ab3d-other.rest b")
    assert out == b"a [redacted:like OPENAI_API_KEY] b" and replaced == {"like OPENAI_API_KEY": 1}
    assert clean(b"sk-proj-Ab and more")[1] == {"like OPENAI_API_KEY": 1}
    assert clean(b"desk-proj-Ab3d is a word")[1] == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sk-proj-" + "a1" * 6, "sk-proj-key"),
        ("sk-ant-api03-" + "x_Y-" * 4, "sk-token"),
        ("sk-ant-oat01-" + "x" * 12, "sk-ant-key"),
        ("sk-or-v1-" + "0a" * 10, "sk-token"),
        ("sk-" + "aB3" * 14, "sk-token"),
        ("AIzaSy" + "a" * 20, "google-key"),
        ("hf_" + "Q" * 20, "hf-token"),
        ("xai-" + "Q" * 40, "xai-key"),
        ("0123456789abcdef" * 2 + ".AbCdEfGhIjKl", "zai-key"),
        (JWT, "login-token"),
        ('{"refresh_token": "rt_1-abcdef"}', "login-token"),
        (json.dumps('{"access_token":"opaque.value"}'), "login-token"),
        ('{"accessToken":"opaque.value"}', "login-token"),
        ("ya29." + "a" * 20, "google-login"),
        ("ghp_" + "a1" * 15, "github-token"),
    ],
)
def test_shapes(text: str, name: str) -> None:
    out, replaced = clean(f"x {text} y\n".encode(), {})
    assert set(replaced) == {name} and b"[redacted:" in out
    assert out.startswith(b"x ") and out.endswith(b" y\n")
    for part in (text[3:], "opaque.value", "rt_1-abcdef"):
        assert part.encode() not in out


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and sk-short", "task-force-of-the-whole-department-and-some-more-words-behind", "hf_short", "AIzaSyx",
        '{"access_token": ""}', '{"token": "abcdefgh"}', "eyJ.not.one", "0123456789abcdef.short", "xai-short",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert clean(text.encode(), {}) == (text.encode(), {})


def test_json_stays_json() -> None:
    text = json.dumps({"a": KEY, "refresh_token": "abc-def-ghi", "b": JWT, "c": f"say {ODD}"})
    out, _ = clean(text.encode())
    assert set(json.loads(out)) == {"a", "refresh_token", "b", "c"} and KEY.encode() not in out


def test_what_may_be_left_is_warned_of_and_not_shown() -> None:
    _, report = Sanitiser({}).text(b"one\ntwo the key sk-ant-x?very-secret\nsk-or-\n")
    assert report.warnings == [
        {"line": 2, "found": "sk-ant", "before": "two the key "}, {"line": 3, "found": "sk-or-", "before": ""},
    ]  # fmt: skip
    assert "very-secret" not in json.dumps(report.warnings)
    _, made = Sanitiser({"sk-ant-name": "some-value-1"}).text(b"some-value-1")
    assert made.replaced == {"sk-ant-name": 1} and made.warnings == []  # our own mark is none
    _, many = Sanitiser({}).text(b"sk-proj\n" * 1000)
    assert len(many.warnings) == sanitising.WARNINGS


def test_long_texts_go_through_in_parts() -> None:
    lines = b"a line with a word in it\n" * 50_000
    data = lines + KEY.encode() + b"\n" + lines + JWT.encode() + b" " + b"y" * (3 * PART) + b" " + KEY.encode()
    report = Report()
    sizes = []
    out = b""
    for part in Sanitiser(SECRETS).stream((data[at : at + 10_000] for at in range(0, len(data), 10_000)), report):
        sizes.append(len(part))
        out += part
    assert report.replaced == {"OPENAI_API_KEY": 2, "login-token": 1} and max(sizes) < 3 * PART
    assert out.replace(b"[redacted:OPENAI_API_KEY]", KEY.encode()).replace(
        b"[redacted:login-token]", JWT.encode()) == data  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([KEY.encode(), JWT.encode(), b"\n", b"sk-"]), max_size=12),
       st.integers(1, 50))  # fmt: skip
def test_total_and_without_the_secret(parts: list[bytes], size: int) -> None:
    data = b" ".join(parts)
    report = Report()
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    out = b"".join(Sanitiser({"K": KEY}).stream(blocks, report))
    assert KEY.encode() not in out and JWT.encode() not in out
    assert (out == data) == (not report.replaced)
