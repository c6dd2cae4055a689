import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.layout import RunFiles
from ptb_tui.core.verdict import VerdictRecord, VerdictState
from ptb_tui.judging.collect import MAX_WORDS, Collected, Outcome, collect, read_verdict
from ptb_tui.judging.engines.trying import without
from ptb_tui.judging.history import append, read_history
from ptb_tui.judging.wording import at_odds
from tests.judging.specs import API, CONTAMINATION, GENERAL, LOOKUP

SAMPLES = Path(__file__).parents[1] / "data" / "judging" / "verdicts"
OTHERS = {"api_flagged.json": API, "ptb_lookup_clean.json": LOOKUP, "general_flagged.json": GENERAL}
# name → (outcome, state, reason) as one of our judges wrote it, and the state as a file that others collected
EXPECTED = {
    "api_flagged.json": ("valid", "flagged", "", "flagged"),
    "array.json": ("unreadable", "unreadable", "not an object but list", "unreadable"),
    "bad_escape.json": ("valid", "clean", "", "clean"),
    "clean.json": ("valid", "clean", "", "clean"),
    "contradiction.json": ("valid", "clean", "", "clean"),
    "empty.json": ("unreadable", "unreadable", "empty", "unreadable"),
    "empty_justification.json": ("unreadable", "unreadable", "justification_contamination is empty", "clean"),
    "extra_fields.json": ("unreadable", "unreadable", "has keys that nobody asked for: confidence, notes", "clean"),
    "fenced_with_prose.txt": ("valid", "clean", "", "clean"),
    "flagged.json": ("valid", "flagged", "", "flagged"),
    "general_flagged.json": ("valid", "flagged", "", "flagged"),
    "int_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but int", "unreadable"),
    "missing_field.json": ("unreadable", "unreadable", "disallowed_model is missing", "unreadable"),
    "null.json": ("unreadable", "unreadable", "not an object but NoneType", "unreadable"),
    "null_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but NoneType", "unreadable"),
    "ptb_lookup_clean.json": ("valid", "clean", "", "clean"),
    "python_repr.txt": ("valid", "clean", "", "clean"),
    "raw_newlines.json": ("valid", "clean", "", "clean"),
    "refusal.txt": ("unreadable", "unreadable", "holds no verdict", "unreadable"),
    "string_bool.json": ("unreadable", "unreadable", "contamination is not a boolean but str", "unreadable"),
    "trailing_comma_comments.txt": ("unreadable", "unreadable", "justification_contamination is missing", "clean"),
    "truncated.json": ("unreadable", "unreadable", "holds no verdict", "unreadable"),
    "utf16_bom.json": ("valid", "clean", "", "clean"),
    "utf8_bom.json": ("valid", "clean", "", "clean"),
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
    spec = OTHERS.get(name, CONTAMINATION)
    found = collect(SAMPLES / name, spec)
    *expected, imported = EXPECTED[name]
    assert [found.outcome.value, found.state.value, found.reason] == expected
    assert (found.verdict is None) == (found.state not in (VerdictState.CLEAN, VerdictState.FLAGGED))
    assert read_verdict((SAMPLES / name).read_bytes(), spec, foreign=True).state.value == imported


def test_how_it_was_read_is_kept() -> None:
    ways = {name: collect(SAMPLES / name, CONTAMINATION).how for name in EXPECTED if name not in OTHERS}
    assert ways["clean.json"] == "exact"
    assert ways["fenced_with_prose.txt"] == "found within other text"
    assert ways["python_repr.txt"] == "a Python dictionary"
    assert ways["bad_escape.json"] == "single backslashes in a text"
    assert ways["utf16_bom.json"].startswith("utf-16")


def test_extras_and_meta_are_kept_apart() -> None:
    found = read({**GOOD, "_meta": {"judge_model": "m"}, "confidence": 0.4}, foreign=True)
    assert found.outcome is Outcome.VALID_WITH_EXTRAS
    assert (found.extras, found.meta) == ({"confidence": 0.4}, {"judge_model": "m"})
    assert found.verdict == GOOD
    assert read({**GOOD, "_meta": 3}, foreign=True).outcome is Outcome.VALID
    assert read({**GOOD, "_meta": {}}).reason == "has keys that nobody asked for: _meta"


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
    assert read(repr(GOOD)[:-1] + ", 'contamination': True}").outcome is Outcome.CONTRADICTORY
    broken = other[:-1] + ",}"
    python = f"```\n{ {**GOOD, 'contamination': True} }\n```\n"
    for text in (broken + "\n" + json.dumps(GOOD), python + json.dumps(GOOD)):
        assert read(text).outcome is Outcome.CONTRADICTORY, "a broken one beside a whole one is not passed over"
    assert read(json.dumps(GOOD)[:-1] + ",} // " + other).outcome is Outcome.CONTRADICTORY


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD)[:-1] + ", /* done */ }",
        "Here:\n```json\n" + json.dumps(GOOD)[:-1] + ",\n}\n```\nBye",
        f"```python\n{GOOD}\n```",
    ],
)
def test_one_reading_is_repaired(text: str) -> None:
    found = read(text)
    assert (found.outcome, found.verdict, found.how) == (Outcome.VALID, GOOD, "found within other text")


def test_what_stands_in_quotes_is_no_comment() -> None:
    reason = 'see https://example.org/a, /* and */ \\" , }'
    text = json.dumps({**GOOD, "justification_contamination": reason})[:-1] + ",}"
    found = read(text)
    assert found.verdict is not None and found.verdict["justification_contamination"] == reason


def test_utf16_without_a_mark() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        assert read(json.dumps(GOOD).encode(encoding)).verdict == GOOD


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
def test_words_that_seem_to_say_the_opposite(flag: bool, reason: str, contrary: bool) -> None:
    assert bool(at_odds({"contamination": flag, "justification_contamination": reason})) == contrary


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


def test_texts_that_no_file_can_hold_or_nobody_can_read(tmp_path: Path) -> None:
    words = "file caf\\udce9 " + "x" * (MAX_WORDS + 7)
    text = f'{{"nonce": "n", "disallowed_api_usage": false, "justification_disallowed_api_usage": "{words}"}}'
    found = read_verdict(text.encode(), API, nonce="n")
    assert found.verdict is not None
    kept = str(found.verdict["justification_disallowed_api_usage"])
    assert kept.startswith("file caf? x") and kept.endswith("more characters)") and len(kept) < MAX_WORDS + 50
    record = VerdictRecord(judge="j", output_id="api", state=found.state, verdict=found.verdict, engine="codex")
    files = RunFiles(tmp_path / ".ptb")
    append(files, record)
    assert read_history(files, "j")[0].record.verdict == found.verdict


def test_a_key_in_the_name_of_a_field_is_not_shown() -> None:
    key = "opens-nothing-at-all-0123"
    text = {"nonce": "n", "disallowed_api_usage": False, "justification_disallowed_api_usage": "x", key: True}
    for data in (json.dumps(text), f'{{"\\u001b[1m{key}": 1, "\\u001b[1m{key}": 2}}'):
        found = without(read_verdict(data.encode(), API, nonce="n"), {"CODEX_API_KEY": key})
        assert found.verdict is None and found.reason and key not in found.reason and "\x1b" not in found.reason


@pytest.mark.parametrize("piece", ['\\"', '"\\', '\\\\"', '{"a": "', "/*", "```\n", ", ", '{"a" "'])
@pytest.mark.parametrize("end", ["", "\\", '"'])
def test_a_large_answer_that_is_none_is_read_in_one_go(piece: str, end: str) -> None:
    """A quadratic reader would take hours for one of these."""
    text = 'x {"a" "' + piece * (200_000 // len(piece)) + end
    assert read_verdict(text.encode(), API, nonce="n").verdict is None
