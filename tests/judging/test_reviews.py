import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.judging.reviews import MAX_REVIEWS, newest, read_reviews, write_review


def write(folder: Path, number: int, kind: str = "void") -> str:
    return write_review(folder, kind, "ada/../b", f"reason {number}", {"n": number}).name


def test_the_order_is_that_of_writing_whatever_the_clock_says(tmp_path: Path) -> None:
    (tmp_path / "29990101T000000Z-old-1.json").write_text('{"kind": "void", "n": -1}')
    written = [write(tmp_path, number) for number in range(5)]
    found, problems = read_reviews([tmp_path])
    assert [review.body["n"] for review in found] == [-1, 0, 1, 2, 3, 4]
    assert written == [review.name for review in found[1:]]
    assert problems == [] and all("/" not in name and name.startswith("2999") for name in written)
    assert found[-1].text("operator") == "ada/../b"


def test_many_people_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(lambda number: write(tmp_path, number), range(40)))
    found, _ = read_reviews([tmp_path])
    assert len(names) == len(found) == 40
    assert list(tmp_path.glob("*.tmp")) == []


def test_several_folders_are_one_list(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "20260101T000000Z-x-1.json").write_text('{"kind": "void"}')
    (tmp_path / "b" / "20260101T000001Z-x-1.json").write_text('{"kind": "undo"}')
    (tmp_path / "a" / "20260101T000002Z-x-1.json").write_text('{"kind": "pin"}')
    found, _ = read_reviews([tmp_path / "a", tmp_path / "b", tmp_path / "absent"])
    assert [review.kind for review in found] == ["void", "undo", "pin"]
    last = newest(found, "void")
    assert last is not None and last.path.parent.name == "a"
    assert newest(found, "verdict") is None


def test_odd_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "b.json").mkdir()
    (tmp_path / "c.json").symlink_to("/etc/hostname")
    (tmp_path / "d.json").write_text('{"kind": 3, "reason": "\\u001b[31mred"}')
    (tmp_path / "notes.txt").write_text("x")
    found, problems = read_reviews([tmp_path])
    assert len(problems) == 3 and [review.kind for review in found] == [""]
    assert found[0].text("reason") == "red"
    for number in range(MAX_REVIEWS):
        (tmp_path / f"x{number}.json").write_text("{}")
    found, problems = read_reviews([tmp_path])
    assert len(found) == MAX_REVIEWS and len(problems) == 1


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.dictionaries(st.text(), st.integers()).map(lambda body: json.dumps(body).encode()))
def test_total_on_content(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.json").write_bytes(data)
        found, problems = read_reviews([Path(folder)])
        assert len(found) + len(problems) == 1


def test_a_decision_sorts_behind_those_beside_it(tmp_path: Path) -> None:
    there, ours = tmp_path / "there", tmp_path / "ours"
    there.mkdir()
    (there / "20991231T235959.999Z-ada-00000000.json").write_text('{"kind": "void", "reason": "a clock ahead"}')
    made = write_review(ours, "void", "ada", "mine", {}, beside=[there])
    last = newest(read_reviews([there, ours])[0], "void")
    assert last is not None and last.name == made.name
