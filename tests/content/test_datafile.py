"""`data.toml`: the shipped ones, mistakes in one sentence, and rows that become items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.datafile import DataFile, HubSource, Map, Taken, UrlSource, read_data_file
from ptb_tui.content.items import item_problems
from ptb_tui.content.lookup import Content
from ptb_tui.content.selection import SelectionError, counted, is_easy, item, selected
from ptb_tui.content.selection import test_item as reference_of
from ptb_tui.content.tasks import load_task
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import ContentError, PtbError

REPOSITORY = Path(__file__).parents[2]
SHIPPED = sorted(path.parent.name for path in (REPOSITORY / "tasks").glob("*/data.toml"))
COUNTS = {"aime2025": 30, "aime2026": 30, "arenahardwriting": 250, "bfcl": 100, "gpqamain": 448, "gsm8k": 1319,
          "healthbench": 245, "humaneval": 164}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_sources_give_the_items_of_the_benchmark(name: str, tmp_path: Path) -> None:
    found = read_data_file(REPOSITORY / "tasks" / name)
    assert found is not None and [source.count for source in found.fetched if source.use == "items"] == [COUNTS[name]]
    task = load_task(Content((REPOSITORY,)), name, tmp_path)
    assert dict(task.beside) == {} and task.store == tmp_path / name
    problems = {problem.words.rpartition("/")[2]: problem.remedy for problem in item_problems(task)}
    assert problems.pop("items.jsonl is missing") == problems.pop("test_data.json is missing")
    assert (problems == {}) is (name != "arenahardwriting")
    assert all("ptb-tui baseline arenahardwriting" in remedy for remedy in problems.values())


def broken(tmp_path: Path, text: str) -> str:
    (tmp_path / "data.toml").write_text(text)
    with pytest.raises(ContentError) as error:
        read_data_file(tmp_path)
    return error.value.message


SOURCE = '[[sources]]\nkind = "hub"\nrepo = "a/b"\n'


def test_mistakes_name_file_place_and_remedy(tmp_path: Path) -> None:
    assert "data.toml: sources" in broken(tmp_path, "v = 1\nsources = []\n")
    assert "did you mean `revision`?" in broken(tmp_path, SOURCE + 'revison = "x"\n')
    assert "repo" in broken(tmp_path, '[[sources]]\nkind = "hub"\nrepo = "../../x/y"\n')
    assert "url" in broken(tmp_path, '[[sources]]\nkind = "url"\nurl = "file:///etc/passwd"\n')
    assert "go together" in broken(tmp_path, SOURCE + 'select = "rows"\n')
    assert "go together" in broken(tmp_path, SOURCE + 'where = { field = "a", value = 1 }\n')
    assert "[items] needs `id`" in broken(tmp_path, SOURCE + '[items]\nquestion = "q"\n')
    assert "one of `field`" in broken(tmp_path, SOURCE + '[items]\nid = { before = "x" }\n')
    assert "sha256" in broken(tmp_path, SOURCE + 'sha256 = "abc"\n')
    assert 'no source of use "items"' in broken(tmp_path, SOURCE + 'use = "fewshot"\n[items]\nid = "i"\n')
    assert "not TOML" in broken(tmp_path, "v = \n")


def hub(**keys: Any) -> HubSource:
    return HubSource(kind="hub", repo="a/b", **keys)


@given(st.lists(st.fixed_dictionaries({"k": st.integers(0, 3), "u": st.integers(0, 5)}), max_size=30))
def test_selection_keeps_order_and_numbers(rows: list[dict[str, int]]) -> None:
    assert list(selected(hub(), rows)) == list(enumerate(rows))
    equal = list(selected(hub(select="equals", where={"field": "k", "value": 2}), rows))
    assert equal == [(n, row) for n, row in enumerate(rows) if row["k"] == 2]
    unique = [row["u"] for _, row in selected(hub(unique="u"), rows)]
    assert unique == list(dict.fromkeys(row["u"] for row in rows))
    if len(rows) > 1:
        assert [n for n, _ in selected(hub(select="rows", rows=(1, 0)), rows)] == [1, 0]
    with pytest.raises(SelectionError, match=f"no row {len(rows)}"):
        list(selected(hub(select="rows", rows=(len(rows),)), rows))


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(st.none(), st.text(max_size=5), st.lists(st.integers()))))
def test_rows_of_any_shape_give_an_item_or_a_sentence(row: dict[str, Any]) -> None:
    fields: Map = {"id": Taken(row="x-{}"), "a": "a", "b": Taken(field="b", index=0), "c": Taken(field="a", json=True)}
    try:
        made = item(fields, hub(), row, 7)
    except PtbError as error:
        assert "row 7" in error.message
    else:
        assert made["id"] == "x-7" and json.loads(made["c"]) == row["a"]


def test_fields_are_taken_as_they_are_written() -> None:
    row = {"q": "How many?", "a": "First #### then.\n#### 1,450", "n": 12, "wrong": ["x", "y"]}
    fields: Map = {
        "id": Taken(row="t-{}"),
        "before": Taken(field="a", before="####"),
        "after": Taken(field="a", after="####"),
        "both": ("q", "n"),
        "one": Taken(field="wrong", index=1),
    }
    made = item(fields, hub(use="fewshot"), row, 3)
    assert made == {"id": "fewshot-t-3", "before": "First #### then.", "after": "1,450", "both": ["How many?", 12],
                    "one": "y", "use": "fewshot"}  # fmt: skip
    table = DataFile.model_validate(
        {"sources": [{"kind": "url", "url": "http://x/y"}], "test_data": {"question": "n", "answer": {"text": ""}}}
    )
    assert table.test_data is not None and reference_of(table.test_data, row, 0) == {"question": "12", "answer": ""}
    with pytest.raises(SelectionError, match="holds no '!!'"):
        item({"id": Taken(field="a", after="!!")}, hub(), row, 0)


def test_healthbench_easy() -> None:
    source = UrlSource(kind="url", url="http://x/y", select="healthbench-easy", count=245)
    turn, axis = {"role": "user", "content": "?"}, {"points": 5, "tags": ["axis:completeness"]}
    row: dict[str, Any] = {
        "prompt": [turn] * 5,
        "rubrics": [axis, {"points": -1, "tags": []}, {"points": -3, "tags": []}],
    }
    assert is_easy(row, source)
    assert not is_easy({**row, "prompt": [turn] * 4}, source)
    assert not is_easy({**row, "rubrics": [*row["rubrics"], {"points": -1, "tags": []}]}, source)
    assert not is_easy({**row, "rubrics": [{"points": 5, "tags": ["axis:accuracy"]}]}, source)
    with pytest.raises(SelectionError, match="no list `prompt`"):
        is_easy({"prompt": "x"}, source)
    with pytest.raises(SelectionError, match=r"gives 244 of 5000 rows, and data\.toml says 245") as error:
        counted(source, 244, 5000)
    assert "HealthBench-Easy" in error.value.message and error.value.hint


def test_where_the_store_is(tmp_path: Path) -> None:
    root, config = tmp_path / "results", tmp_path / "config" / "ptb-tui"
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}
    assert data_store(root, env) == tmp_path / "data" / "ptb-tui" / "data"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f'[sites.local]\ndata_store = "/l"\n[sites.x]\nroot = "{root}"\ndata_store = "/x"\n'
    )
    assert (data_store(root, env), data_store(None, env)) == (Path("/x"), Path("/l"))
    (root / "_ptb").mkdir(parents=True)
    (root / "_ptb" / "site.toml").write_text('data_store = "/s"\n')
    assert data_store(root, env) == Path("/s")
    assert data_store(root, {**env, "PTB_DATA_DIR": "/e"}) == Path("/e")
    (config / "config.toml").write_text("sites = [")
    assert data_store(None, env) == tmp_path / "data" / "ptb-tui" / "data"
