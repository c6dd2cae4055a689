import json
from typing import Any

import pytest

from tests.judges.tools import DATA, load, run

checker = load("contamination_check")
vectors: dict[str, Any] = json.loads((DATA / "conformance_contamination.json").read_text())


@pytest.fixture(scope="module")
def index() -> Any:
    pytest.importorskip("bpe_openai", reason="compat mode counts cl100k tokens")
    return checker.CompatIndex(vectors["references"], checker.cl100k())


@pytest.mark.parametrize("text", vectors["clean_examples"])
def test_normalisation(text: str) -> None:
    assert checker.clean(text) == vectors["clean_examples"][text]


@pytest.mark.parametrize("tokens", vectors["threshold_examples"])
def test_threshold(tokens: str) -> None:
    assert checker.threshold(int(tokens), 0.8) == pytest.approx(vectors["threshold_examples"][tokens], abs=1e-6)


def test_token_counts_and_kept_items(index: Any) -> None:
    assert [number in index.entries for number in range(5)] == vectors["kept"]
    for number, entry in index.entries.items():
        assert {name: len(ids) for name, ids in entry.tokens.items()} == vectors["token_counts"][str(number)]


@pytest.mark.parametrize("case", vectors["cases"], ids=lambda case: case["name"])
def test_conformance(index: Any, case: dict[str, Any]) -> None:
    assert index.search(case["text"]) == case["matches"]


@pytest.mark.parametrize("case", vectors["records_upstream_behaviour"], ids=range(6))
def test_only_one_text_of_a_record_is_read(index: Any, case: dict[str, Any]) -> None:
    text = checker.compat_text(case["record"], "text")
    assert text == (case["text"] or "")
    assert bool(index.search(text)) == case["flagged"]


def test_a_single_reference_item_never_matches(index: Any) -> None:
    alone = checker.CompatIndex(vectors["references"][:1], index.encode)
    assert alone.search(vectors["cases"][0]["text"]) == []


def test_command_line(index: Any, tmp_path: Any) -> None:
    reference, data = tmp_path / "reference.jsonl", tmp_path / "data.jsonl"
    reference.write_text("\n".join(json.dumps(item) for item in vectors["references"]))
    data.write_text('{"messages": []}\n\n' + json.dumps({"text": vectors["cases"][0]["text"]}) + "\n")
    done = run("contamination_check", "--mode", "compat", "-r", reference, "-i", data, "--show-ref")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["source"], found["num_matches"], found["max_score"]) == ("line:3", 1, 1.0)
    assert found["matches"][0]["ref_item"] == vectors["references"][0]
    assert "not scanned: 1" in done.stderr
    nothing = run("contamination_check", "--mode", "compat", "-r", reference, "--input-format", "text", stdin="hello\n")
    assert (nothing.returncode, nothing.stdout) == (0, "")
