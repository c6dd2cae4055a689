import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judges.tools import DATA, load, run

checker = load("contamination_check")
vectors: dict[str, Any] = json.loads((DATA / "conformance_contamination.json").read_text())
ITEMS: list[dict[str, str]] = vectors["references"]
QUESTION, ANSWER = ITEMS[0]["question"], ITEMS[0]["answer"]
index = checker.StrictIndex(ITEMS)

LEAVES = st.none() | st.booleans() | st.floats() | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
CLEAN_CASES = ["paraphrase", "unrelated", "four_tokens"]


def found(value: object) -> list[int]:
    return [match["ref_index"] for match in index.search(checker.record(value, 1))]


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "reference.json"
    path.write_text(json.dumps(ITEMS))
    return path


@pytest.mark.parametrize("case", vectors["cases"], ids=lambda case: case["name"])
def test_every_copied_case_is_found(case: dict[str, Any]) -> None:
    matches = index.search(checker.record(case["text"], 1))
    kinds = {match["kind"] for match in matches}
    assert kinds == (
        set() if case["name"] in CLEAN_CASES else {"numbers" if case["name"] == "numbers_changed" else "copy"}
    )
    hits = [match["ref_index"] for match in matches]
    assert {match["ref_index"] for match in case["matches"]} <= set(hits)


@pytest.mark.parametrize("case", vectors["records_upstream_behaviour"], ids=range(6))
def test_every_shape_of_record_is_found(case: dict[str, Any]) -> None:
    assert found(case["record"])


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": [[{"c": QUESTION}]]}},
        {QUESTION: 1665},
        {"q": json.dumps({"messages": [{"role": "user", "content": QUESTION}]})},
        {"q": QUESTION.upper().replace(" ", "\u00a0\u200b "), "a": "other answer"},
        {"q": QUESTION.replace("three", "3")},
        {"parts": QUESTION.split(", ")},
        {"q": QUESTION.replace("sells", "ｓｅｌｌｓ")},
    ],
)
def test_disguises(value: object) -> None:
    assert found(value) == [0]


def test_a_reference_in_chat_form() -> None:
    chat = json.dumps([[{"role": "user", "content": QUESTION}]])
    other = checker.StrictIndex([{"question": chat, "answer": "f(1)"}])
    assert other.self_test() == []
    assert other.search(checker.record({"messages": [{"role": "user", "content": QUESTION}]}, 1))


def test_short_items_need_the_same_numbers_and_signs() -> None:
    items = [{"question": "What is 12 + 7?", "answer": "19"}, {"question": "Name the capital.", "answer": "Paris"}]
    short = checker.StrictIndex(items)
    assert short.self_test() == []

    def hits(value: object) -> list[int]:
        return [match["ref_index"] for match in short.search(checker.record(value, 1))]

    assert hits({"q": "what is 12 + 7"}) == [0]
    assert hits("Q: What is 12 + 7?  A: 19") == [0]
    assert hits("Q: What is 12 + 7 + 3?  A: 22") == []
    assert hits({"q": "What is 12 - 7?", "a": "5"}) == []
    assert hits({"q": "Name the capital.", "a": "Paris"}) == [1]
    assert hits({"q": "Name the capital.", "a": "Rome"}) == []


def test_a_question_that_many_items_share_needs_its_answer() -> None:
    question = "Which one of the following four statements about the passage is certainly correct?"
    items = [{"question": question, "answer": f"statement about the colour number {n}"} for n in range(5)]
    shared = checker.StrictIndex(items)
    assert shared.self_test() == []
    assert shared.search(checker.record({"q": question, "a": "none of them"}, 1)) == []
    hits = shared.search(checker.record({"q": question, "a": "it is statement about the colour number 3"}, 1))
    assert [match["ref_index"] for match in hits] == [3]


def test_a_long_answer_alone_is_found() -> None:
    answer = " ".join(f"step {n} uses the value {n * 17} and goes on" for n in range(8))
    other = checker.StrictIndex([{"question": QUESTION, "answer": answer}])
    hits = other.search(checker.record({"solution": answer}, 1))
    assert [match["best_field"] for match in hits] == ["answer"]


def problem(rng: random.Random) -> dict[str, str]:
    name, thing = rng.choice(["Anton", "Berta", "Clara"]), rng.choice(["apples", "cards", "keys"])
    a, b = rng.randrange(100, 1000), rng.randrange(100, 1000)
    text = f"{name} had {a} {thing} and gave {b} of them to a friend who lives in the house next door. How many "
    return {"question": f"{text}{thing} does {name} have left after that?", "answer": str(a - b)}


def test_same_wording_with_other_numbers_is_no_copy() -> None:
    items = [problem(random.Random(seed)) for seed in range(200)]
    numbers = {item["question"] for item in items}
    templates = checker.StrictIndex(items)
    others = [problem(random.Random(seed)) for seed in range(1000, 2000)]
    for item in others:
        assert bool(templates.search(checker.record(item, 1))) == (item["question"] in numbers)
    everything = "\n".join(item["question"] for item in others if item["question"] not in numbers)
    assert templates.search(checker.record(everything, 1)) == []
    assert all(templates.search(checker.record({"x": item["question"]}, 1)) for item in items)


def test_two_hundred_items_against_five_thousand_records(tmp_path: Path) -> None:
    reference, data = tmp_path / "reference.json", tmp_path / "data.jsonl"
    reference.write_text(json.dumps([problem(random.Random(seed)) for seed in range(200)]))
    data.write_text("".join(json.dumps({"x": [problem(random.Random(n))]}) + "\n" for n in range(5000, 10000)))
    done = run("contamination_check", "-r", reference, "-i", data)
    assert "documents scanned: 5000, contaminated: 0" in done.stderr


def test_the_reference_itself_is_flagged(reference: Path) -> None:
    done = run("contamination_check", "-r", reference, "-i", reference)
    assert done.returncode == 1
    assert "documents scanned: 5, contaminated: 5" in done.stderr


@pytest.mark.parametrize("text", ["[]", '[{"question": "?!"}]'])
def test_the_self_test_refuses_a_reference_that_can_find_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.json").write_text(text)
    done = run("contamination_check", "-r", tmp_path / "empty.json", stdin="x")
    assert done.returncode == 2
    assert "self-test" in done.stderr


def test_missing_reference_and_input(tmp_path: Path, reference: Path) -> None:
    assert run("contamination_check", "-r", tmp_path / "none.json", stdin="").returncode == 1
    done = run("contamination_check", "-r", reference, "-i", tmp_path / "none.jsonl")
    assert done.returncode == 0
    assert "not a readable regular file" in done.stderr and "not scanned: 1" in done.stderr


def test_a_folder_of_everything(tmp_path: Path, reference: Path) -> None:
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    record = {"question": QUESTION, "answer": ANSWER}
    (folder / "a.jsonl").write_text('{"x": "fine"}\nnot json\n' + json.dumps(record) + "\n")
    (folder / "b.json").write_text(json.dumps({"rows": [{"x": "fine"}, record]}))
    (folder / "c.csv").write_text(f'id,text\n1,fine\n2,"{QUESTION}"\n')
    (folder / "d.py").write_text(f'x = 1\n\nDATA = [("{QUESTION}", {ANSWER})]\n')
    (folder / "deep" / "e.md").write_bytes(b"bad \xff\xfe bytes\n" + QUESTION.encode() + b"\n")
    (folder / "f.jsonl.gz").write_bytes(gzip.compress(json.dumps(record).encode()))
    (folder / "g.txt").write_text(f"\n\n{QUESTION}", encoding="utf-16")
    (folder / "h").write_text(QUESTION)
    (folder / "i.gz").write_bytes(b"\x1f\x8b broken")
    (folder / "j.safetensors").write_bytes(b"\0" * 50)
    (folder / "k.dat").write_bytes(b"\0" * 50)
    (folder / "l.json").write_text("[" * 100_000)
    (folder / "m.json").write_text('{"cut": "' + QUESTION)
    (folder / "n.zip").write_bytes(b"PK")
    os.mkfifo(folder / "o.jsonl")
    (folder / "p.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "q").symlink_to("/")
    os.link(reference, folder / "r.json")
    done = run("contamination_check", "-r", reference, "-i", folder)
    assert done.returncode == 1
    places = {tuple(json.loads(line)[key] for key in ("file", "source")) for line in done.stdout.splitlines()}
    assert {(Path(file).name, source) for file, source in places} == {
        ("a.jsonl", "line:3"), ("b.json", "line:2"), ("c.csv", "line:3"), ("d.py", "line:3"), ("e.md", "line:2"),
        ("f.jsonl.gz", "line:1"), ("g.txt", "line:3"), ("h", "line:1"), ("m.json", "line:1"),
    }  # fmt: skip
    for name, reason in (
        ("i.gz", "damaged"), ("j.safetensors", "binary"), ("k.dat", "binary"), ("n.zip", "archive"),
        ("o.jsonl", "not a readable"), ("p.jsonl", "symbolic link"), ("/q", "symbolic link"), ("r.json", "reference"),
    ):  # fmt: skip
        assert any(name in line and reason in line for line in done.stderr.splitlines()), name


def test_parquet_is_read_or_reported(tmp_path: Path, reference: Path) -> None:
    path = tmp_path / "train.parquet"
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        path.write_bytes(b"PAR1")
        done = run("contamination_check", "-r", reference, "-i", path)
        assert "needs pyarrow" in done.stderr and done.returncode == 0
        return
    pyarrow.parquet.write_table(pyarrow.table({"q": ["fine", QUESTION]}), path)
    assert '"line:2"' in run("contamination_check", "-r", reference, "-i", path).stdout
    path.write_bytes(b"PAR1")
    assert "damaged" in run("contamination_check", "-r", reference, "-i", path).stderr


def test_size_limit_is_said(tmp_path: Path, reference: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_text("word " * 300_000 + QUESTION)
    limited = run("contamination_check", "-r", reference, "-i", path, "--max-mb", 1)
    assert (limited.returncode, "only its first 1 MB" in limited.stderr) == (0, True)
    assert run("contamination_check", "-r", reference, "-i", path).returncode == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9000), st.integers(0, 30))
def test_no_item_is_lost_between_two_stretches_of_text(lines: int, before: int) -> None:
    text = [(n, "filler line\n") for n in range(1, lines + 1)]
    text += [(lines + 1 + n, word + "\n") for n, word in enumerate(QUESTION.split())]
    text += [(lines + 100 + n, "filler\n") for n in range(before)]
    assert any(index.search(document) for document in checker.text_blocks(text))


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_any_record_around_a_copy(value: Any) -> None:
    assert 0 in found([value, {"q": QUESTION}, value])
    found(value)


def test_a_whole_test_set_in_one_text(tmp_path: Path) -> None:
    items = [problem(random.Random(seed)) for seed in range(1000)]
    (tmp_path / "reference.json").write_text(json.dumps(items))
    (tmp_path / "notes.txt").write_text("\n\n".join(f"{item['question']} {item['answer']}" for item in items))
    done = run("contamination_check", "-r", tmp_path / "reference.json", "-i", tmp_path / "notes.txt")
    found = json.loads(done.stdout)
    assert found["num_matches"] == len({item["question"] for item in items}) or found["num_matches"] == 1000
    assert {match["line"] for match in found["matches"]} <= set(range(1, 2001, 2))
