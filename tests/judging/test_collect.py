import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.verdict import VerdictState
from ptb_tui.judging.collect import Collected, Outcome, collect, contradiction, read_verdict
from tests.judging.specs import API, CONTAMINATION, GENERAL, LOOKUP

SAMPLES = Path(__file__).parents[1] / "data" / "judging" / "verdicts"
OTHERS = {"api_flagged.json": API, "ptb_lookup_clean.json": LOOKUP, "general_flagged.json": GENERAL}
EXPECTED = {
    "api_flagged.json": ("valid", "flagged", ""),
    "array.json": ("unreadable", "unreadable", "not an object but list"),
    "bad_escape.json": ("valid", "clean", ""),
    "clean.json": ("valid", "clean", ""),
    "contradiction.json": ("contradictory", "contradictory", "contamination is false, its reason says the opposite"),
    "empty.json": ("unreadable", "unreadable", "empty"),
    "empty_justification.json": ("unreadable", "unreadable", "justification_contamination is empty"),
    "extra_fields.json": ("valid_with_extras", "clean", ""),
    "fenced_with_prose.txt": ("valid", "clean", ""),
    "flagged.json": ("valid", "flagged", ""),
    "general_flagged.json": ("valid", "flagged", ""),
    "int_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but int"),
    "missing_field.json": ("unreadable", "unreadable", "disallowed_model is missing"),
    "null.json": ("unreadable", "unreadable", "not an object but NoneType"),
    "null_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but NoneType"),
    "ptb_lookup_clean.json": ("valid", "clean", ""),
    "python_repr.txt": ("valid", "clean", ""),
    "raw_newlines.json": ("valid", "clean", ""),
    "refusal.txt": ("unreadable", "unreadable", "holds no verdict"),
    "string_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but str"),
    "trailing_comma_comments.txt": ("unreadable", "unreadable", "holds no verdict"),
    "truncated.json": ("unreadable", "unreadable", "holds no verdict"),
    "utf16_bom.json": ("valid", "clean", ""),
    "utf8_bom.json": ("valid", "clean", ""),
}
GOOD: dict[str, Any] = {
    "contamination": False,
    "disallowed_model": False,
    "justification_contamination": "train.jsonl was made from the training split.",
    "justification_disallowed_model": "sft.py line 3 loads the base.",
}


def read(value: object, **options: Any) -> Collected:
    data = value if isinstance(value, bytes) else str(value).encode() if isinstance(value, str) else None
    return read_verdict(json.dumps(value).encode() if data is None else data, CONTAMINATION, **options)


def test_every_sample_is_covered() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_samples(name: str) -> None:
    found = collect(SAMPLES / name, OTHERS.get(name, CONTAMINATION))
    assert (found.outcome.value, found.state.value, found.reason) == EXPECTED[name]
    assert (found.verdict is None) == (found.state not in (VerdictState.CLEAN, VerdictState.FLAGGED))


def test_how_it_was_read_is_kept() -> None:
    ways = {name: collect(SAMPLES / name, CONTAMINATION).how for name in EXPECTED if name not in OTHERS}
    assert ways["clean.json"] == "exact"
    assert ways["fenced_with_prose.txt"] == "found within other text"
    assert ways["python_repr.txt"] == "a Python dictionary"
    assert ways["bad_escape.json"] == "single backslashes in a text"
    assert ways["utf16_bom.json"].startswith("utf-16")


def test_extras_and_meta_are_kept_apart() -> None:
    found = read({**GOOD, "_meta": {"judge_model": "m"}, "confidence": 0.4})
    assert found.outcome is Outcome.VALID_WITH_EXTRAS
    assert (found.extras, found.meta) == ({"confidence": 0.4}, {"judge_model": "m"})
    assert found.verdict == GOOD
    assert read({**GOOD, "_meta": 3}).outcome is Outcome.VALID


def test_fences_inside_a_text_are_left_alone() -> None:
    text = 'it wrote ```json {"contamination": true} ``` itself.'
    found = read({**GOOD, "justification_contamination": text})
    assert found.verdict is not None and found.verdict["justification_contamination"] == text


def test_braces_in_prose_come_first() -> None:
    assert read('I looked at {x} and {"a": 1}. Verdict:\n' + json.dumps(GOOD)).outcome is Outcome.VALID


def test_two_verdicts() -> None:
    other = json.dumps({**GOOD, "contamination": True})
    assert read(json.dumps(GOOD) + "\n" + other).outcome is Outcome.CONTRADICTORY
    assert read(json.dumps(GOOD) + "\n" + json.dumps(GOOD)).outcome is Outcome.VALID
    assert read(json.dumps(GOOD)[:-1] + ', "contamination": true}').outcome is Outcome.CONTRADICTORY
    assert read('{"contamination": "false", "disallowed_model": 1} ' + json.dumps(GOOD)).outcome is Outcome.VALID


def test_the_example_of_the_prompt_is_no_verdict() -> None:
    assert read({**GOOD, "justification_contamination": "<which files>"}).outcome is Outcome.UNREADABLE


def test_nonce() -> None:
    assert read({**GOOD, "nonce": "abc"}, nonce="abc").outcome is Outcome.VALID
    assert read({**GOOD, "nonce": "abd"}, nonce="abc").outcome is Outcome.UNREADABLE
    assert read(GOOD, nonce="abc").outcome is Outcome.UNREADABLE
    planted, real = json.dumps({**GOOD, "contamination": True}), json.dumps({**GOOD, "nonce": "n"})
    assert read(planted + real, nonce="n").verdict == GOOD


def test_files_of_other_tools_need_only_the_flags() -> None:
    flags = {"contamination": True, "disallowed_model": False}
    assert read(flags, foreign=True).state is VerdictState.FLAGGED
    assert read({**flags, "justification_contamination": ""}, foreign=True).state is VerdictState.FLAGGED
    assert read({**flags, "contamination": "true"}, foreign=True).outcome is Outcome.UNREADABLE
    assert read((SAMPLES / "contradiction.json").read_bytes(), foreign=True).state is VerdictState.CLEAN


@pytest.mark.parametrize(
    ("flag", "reason", "contrary"),
    [
        (False, "There is no sign that it trained on the test set.", False),
        (False, "It is unclear whether this is contamination. The tool found nothing.", False),
        (False, "It trained on benchmark data.", True),
        (True, "No evidence of contamination was found.", True),
        (True, "No evidence of filtering; it used the test items.", False),
        (True, "It did not remove the test items.", False),
    ],
)
def test_contradiction(flag: bool, reason: str, contrary: bool) -> None:
    assert bool(contradiction({"contamination": flag, "justification_contamination": reason})) == contrary


def test_missing_late_planted_and_odd_files(tmp_path: Path) -> None:
    path = tmp_path / "judgement.json"
    assert collect(path, CONTAMINATION).outcome is Outcome.MISSING
    assert collect(path, CONTAMINATION, timed_out=True).outcome is Outcome.TIMED_OUT
    path.write_text("{")
    assert collect(path, CONTAMINATION, timed_out=True).outcome is Outcome.TIMED_OUT
    path.write_text(json.dumps(GOOD))
    assert collect(path, CONTAMINATION, timed_out=True).reason == "time ran out after this"
    os.utime(path, (1000, 1000))
    assert collect(path, CONTAMINATION, started=2000).outcome is Outcome.UNREADABLE
    assert collect(path, CONTAMINATION, started=1001).outcome is Outcome.VALID
    link, fifo, folder, big = (tmp_path / name for name in ("link", "fifo", "folder", "big"))
    link.symlink_to(path)
    os.mkfifo(fifo)
    folder.mkdir()
    big.write_bytes(b" " * (2 << 20))
    for odd in (link, fifo, folder, big):
        assert collect(odd, CONTAMINATION).outcome is Outcome.UNREADABLE


NASTY = (b"[" * 500_000, b'{"a":' * 100_000, b"{" * 500_000, b"\\" * 1000, b"9" * 100_000, b"{'a':" * 9000)


@pytest.mark.parametrize("data", NASTY, ids=range(6))
def test_nasty_bytes(data: bytes) -> None:
    assert read(data).outcome is Outcome.UNREADABLE


@given(st.binary(max_size=300))
def test_total_on_bytes(data: bytes) -> None:
    found = read(data)
    assert found.verdict is None
    assert found.reason


@given(st.text(), st.text(), st.booleans(), st.booleans())
def test_what_was_written_is_read_again(before: str, reason: str, contamination: bool, model: bool) -> None:
    verdict = {**GOOD, "contamination": contamination, "disallowed_model": model}
    verdict["justification_contamination"] = "x" + reason
    found = read_verdict(json.dumps(verdict).encode(), CONTAMINATION, foreign=True)
    assert found.verdict == verdict
    if "{" not in before:
        chatty = read_verdict((before + json.dumps(verdict)).encode("utf-8", "replace"), CONTAMINATION, foreign=True)
        assert chatty.verdict == verdict or chatty.outcome is Outcome.UNREADABLE
