"""The one line an operator needs is found in a log, whatever stands around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.causes import causes
from ptb_tui.evaluation import classify


@pytest.mark.parametrize(
    ("log", "cause", "kind", "words"),
    [
        (
            "Traceback (most recent call last):\n  File x\ntorch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"
            "\nTraceback\nRuntimeError: Engine core initialization failed.",
            "eval_failed", "GPU memory", "Tried 2 GiB",
        ),
        ("OSError: [Errno 28] No space left on device: 'x'\nRuntimeError: x", "disk_full", "no space", "No space left"),
        ("OSError: [Errno 122] Disk quota exceeded", "quota", "quota", "quota exceeded"),
        ("RuntimeError: No CUDA GPUs are available", "gpu", "no GPU", "No CUDA GPUs"),
        ("bwrap: Can't mkdir /x: Permission denied", "sandbox", "sandbox", "Can't mkdir"),
        ("ERROR 01-01 ValueError: Free memory on device (3/79 GiB) is less than", "eval_failed", "GPU memory", "3/79"),
        ("INFO ok\nERROR: Server process exited with code 1\n", "eval_failed", "server start", "exited with code 1"),
        (
            "ValueError: This model's maximum context length is 4096 tokens, but you asked for 16000",
            "eval_failed", "context length", "16000",
        ),
        ("OSError: Can't load tokenizer for 'final_model'", "eval_failed", "tokenizer", "Can't load"),
        ("OSError: Can't load image processor for 'x'", "eval_failed", "image processor", "image processor"),
        ("humaneval: [ptb] sandbox: the answer server did not start", "sandbox", "sandbox", "answer server"),
        ("safetensors_rust.SafetensorError: header too large", "eval_failed", "model load", "header too large"),
        ("demo: no chat template is known for local/x", "eval_failed", "template", "local/x"),
        ("ModuleNotFoundError: No module named 'inspect_ai'", "unknown", "package missing", "inspect_ai"),
        (
            "ConnectionError: Couldn't reach 'openai/gsm8k' on the Hub (OfflineModeIsEnabled)",
            "data_missing", "data set", "gsm8k",
        ),
        ("gsm8k: RuntimeError: vLLM does not work here, and x", "unknown", "package missing", "vLLM"),
        ("a\nValueError: strange\nKeyError: later\n", "eval_failed", "error", "ValueError: strange"),
        ("one\ntwo\n\n", "eval_failed", "", "two"),
        ("", "eval_failed", "", "printed nothing"),
    ],
)  # fmt: skip
def test_causes(tmp_path: Path, log: str, cause: str, kind: str, words: str) -> None:
    (tmp_path / "log").write_text(log)
    found = classify.last_words(tmp_path / "log", rc=1, signal=None)
    assert (found.cause, found.kind) == (cause, kind) and words in found.line
    assert found.cause in causes()


def test_a_grader_is_only_looked_for_where_there_is_one() -> None:
    lines = ["openai.RateLimitError: insufficient_quota"]
    assert classify.read(lines, grader=True).cause == "grading_incomplete"
    assert classify.read(lines).cause == "eval_failed"


def test_killed_and_missing_input(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("working\n")
    assert classify.last_words(tmp_path / "log", rc=None, signal=9).cause == "oom"
    assert classify.last_words(tmp_path / "log", rc=3, signal=None).cause == "unknown"
    (tmp_path / "log").write_text("demo: no chat template is known for org/model\n")
    assert classify.last_words(tmp_path / "log", rc=3, signal=None).cause == "unknown"
    (tmp_path / "log").write_text("demo: final_model holds no config.json\n")
    assert classify.last_words(tmp_path / "log", rc=3, signal=None).cause == "eval_failed"


@pytest.mark.parametrize(
    "line",
    [
        "gsm8k: items.jsonl not found in: task/items.jsonl, items.jsonl",
        "gsm8k: /home/ben/items.jsonl holds no items",
        "gsm8k: /home/ben/items.jsonl line 3 is not JSON: x",
        "gsm8k: /home/ben/items.jsonl: item 2 lacks target",
    ],
)
def test_missing_items_are_nobodys_bad_model(tmp_path: Path, line: str) -> None:
    (tmp_path / "log").write_text(line + "\n")
    found = classify.last_words(tmp_path / "log", rc=3, signal=None)
    assert (found.cause, found.kind) == ("data_missing", "data")


def test_a_grader_that_gave_up_is_known_by_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("warning: AuthenticationError\nhealthbench: graded 3 of 5, grading incomplete: x\n")
    found = classify.last_words(tmp_path / "log", rc=4, signal=None, grader=True)
    assert found.cause == "grading_incomplete" and "graded 3 of 5" in found.line
    (tmp_path / "log").write_text("working\n")
    assert classify.last_words(tmp_path / "log", rc=4, signal=None, grader=True).cause == "grading_incomplete"


def test_every_class_has_a_cause_of_the_table() -> None:
    found = classify.kinds()
    assert all(kind.cause in causes() for kind in found.values())
    assert {kind.then for kind in found.values()} == {"repeat", "ease", "next_stage", "stop"}
    assert classify.kind_of("from a newer version").then == "repeat"


def test_same_failure_same_key() -> None:
    first, second = (classify.read([f"ValueError: at 0x{n:x} after {n} s"]) for n in (1, 99))
    assert first.key == second.key and first.line != second.line
    assert classify.read(["ValueError: other"]).key != first.key


def test_only_the_end_of_a_large_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as file:
        file.truncate(5 << 30)
        file.seek(0, 2)
        file.write(b"\nRuntimeError: the end\n")
    assert classify.last_words(log, rc=1, signal=None).line == "RuntimeError: the end"


def test_links_fifos_and_absent_logs(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("RuntimeError: secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "absent"):
        assert "secret" not in classify.last_words(tmp_path / name, rc=1, signal=None).line


def test_terminal_sequences_do_not_pass() -> None:
    assert "\x1b" not in classify.read(["ValueError: \x1b[31mred\x07"]).line


@given(st.lists(st.text()))
def test_total(lines: list[str]) -> None:
    found = classify.read(lines)
    assert found.cause in causes() and len(found.line) <= 300 and "\n" not in found.line
