import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.results.metrics import parse_metrics, parse_time, read_metrics, read_time

DATA = Path(__file__).parents[1] / "data" / "results"
BAD = {
    "bool": "accuracy is true or false (True), not a number",
    "empty": "metrics.json is empty",
    "missing": "metrics.json has no accuracy, only score",
    "nan": "accuracy is nan, not a finite number",
    "negative": "accuracy is -0.1, below 0",
    "percent": "accuracy is 73.4, above 1 (a percentage?)",
    "string": "accuracy is a text ('0.734'), not a number",
    "truncated": "metrics.json is not complete JSON",
}


@pytest.mark.parametrize("name", sorted(path.stem.removeprefix("metrics_") for path in DATA.glob("metrics_*.json")))
def test_every_sample(name: str) -> None:
    found = parse_metrics((DATA / f"metrics_{name}.json").read_bytes())
    if name == "ok":
        assert (found.accuracy, found.stderr, found.problem) == (0.734, 0.012, "")
    else:
        assert found.accuracy is None
        assert found.problem.startswith(BAD[name])


def test_every_bad_sample_has_words_of_its_own() -> None:
    words = {parse_metrics((DATA / f"metrics_{name}.json").read_bytes()).problem for name in BAD}
    assert len(words) == len(BAD)


@pytest.mark.parametrize(
    ("data", "accuracy"),
    [
        (b'{"accuracy": 1}', 1.0),
        (b'{"accuracy": 0, "stderr": null}', 0.0),
        (b'{"accuracy": 0.5, "stderr": NaN}', 0.5),
        (b'{"accuracy": 1e999}', None),
        (b'{"accuracy": ' + b"9" * 5000 + b"}", None),
        (b'{"accuracy": null}', None),
        (b"[0.5]", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"accuracy": 0.5, "error": "no model"}', None),
    ],
)
def test_odd_files(data: bytes, accuracy: float | None) -> None:
    found = parse_metrics(data)
    assert found.accuracy == accuracy
    assert bool(found.problem) == (accuracy is None)


@given(st.binary(max_size=200) | st.builds(lambda x: b'{"accuracy": ' + x + b"}", st.binary(max_size=40)))
def test_reading_is_total(data: bytes) -> None:
    found = parse_metrics(data)
    assert (found.accuracy is None) == bool(found.problem)
    assert found.accuracy is None or 0 <= found.accuracy <= 1
    assert found.problem.isprintable()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    assert read_metrics(tmp_path).problem == ""
    (tmp_path / "elsewhere.json").write_text('{"accuracy": 1.0}')
    (tmp_path / "metrics.json").symlink_to("elsewhere.json")
    assert "not a readable file" in read_metrics(tmp_path).problem
    (tmp_path / "metrics.json").unlink()
    os.mkfifo(tmp_path / "metrics.json")
    assert "not a readable file" in read_metrics(tmp_path).problem
    (tmp_path / "metrics.json").unlink()
    (tmp_path / "metrics.json").mkdir()
    assert "not a readable file" in read_metrics(tmp_path).problem


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10:05:03\n", 36303), ("0:00:00", 0), ("100:00:01", 360001), ("1:2:3", 3723), ("10:60:00", None), ("10:05", None),
     ("-1:00:00", None), ("", None), ("N/A", None), ("1:00:00:00", None), ("1" * 5000 + ":00:00", None)],
)  # fmt: skip
def test_times(text: str, seconds: float | None, tmp_path: Path) -> None:
    assert parse_time(text) == seconds
    (tmp_path / "time_taken.txt").write_text(text)
    found, problem = read_time(tmp_path)
    assert found == seconds
    assert bool(problem) == (seconds is None)
