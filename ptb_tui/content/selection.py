"""Rows of a source become items: selection, uniqueness, and which field goes where. Pure functions (E §1.3, §1.5.7)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ptb_tui.content.datafile import Fetched, Map, Taken, TestData
from ptb_tui.core.errors import PtbError

Row = Mapping[str, Any]


class SelectionError(PtbError):
    """The rows of a source are not what `data.toml` says."""

    title = "Data that do not fit"


def is_easy(row: Row, source: Fetched) -> bool:
    """HealthBench-Easy (E §1.5.7): enough turns, a rubric of the wanted axis, few rubrics of negative points."""
    turns, rubrics = row.get("prompt"), row.get("rubrics")
    if not isinstance(turns, list) or not isinstance(rubrics, list):
        raise SelectionError("a row has no list `prompt` or no list `rubrics`")
    known = [rubric for rubric in rubrics if isinstance(rubric, dict)]
    tagged = any(source.needs_tag in (rubric.get("tags") or ()) for rubric in known)
    negative = sum(isinstance(rubric.get("points"), int | float) and rubric["points"] < 0 for rubric in known)
    return len(turns) >= source.min_turns and tagged and negative <= source.max_negative


def _chosen(source: Fetched, rows: Iterable[Row]) -> Iterator[tuple[int, Row]]:
    numbered = enumerate(rows)
    if source.select == "rows":
        wanted = set(source.rows)
        found = {number: row for number, row in numbered if number in wanted}
        for number in source.rows:
            if number not in found:
                raise SelectionError(f"there is no row {number}")
            yield number, found[number]
    elif source.select == "equals" and source.where is not None:
        where = source.where
        yield from ((number, row) for number, row in numbered if row.get(where.field) == where.value)
    elif source.select == "healthbench-easy":
        yield from ((number, row) for number, row in numbered if is_easy(row, source))
    else:
        yield from numbered


def selected(source: Fetched, rows: Iterable[Row]) -> Iterator[tuple[int, Row]]:
    """The rows of a source that are taken, with their numbers from 0. SelectionError when one is not there."""
    seen: set[str] = set()
    for number, row in _chosen(source, rows):
        if source.unique:
            key = json.dumps(_field(row, source.unique, number), sort_keys=True, default=str)
            if key in seen:
                continue
            seen.add(key)
        yield number, row


def _field(row: Row, name: str, number: int) -> Any:
    if row.get(name) is None:
        known = ", ".join(sorted(str(key) for key in row)[:20])
        raise SelectionError(f"row {number} has no field {name!r}; it has {known or 'none'}")
    return row[name]


def _value(how: str | tuple[str, ...] | Taken, row: Row, number: int) -> Any:
    if isinstance(how, str):
        return _field(row, how, number)
    if isinstance(how, tuple):
        return [_field(row, name, number) for name in how]
    if how.text is not None:
        return how.text
    if how.row:
        return how.row.replace("{}", str(number))
    value = _field(row, how.field, number)
    if how.index is not None:
        if not isinstance(value, list) or not -len(value) <= how.index < len(value):
            raise SelectionError(f"row {number}: {how.field!r} has no entry {how.index}")
        value = value[how.index]
    for mark in filter(None, (how.before, how.after)):
        head, found, tail = str(value).rpartition(mark)
        if not found:
            raise SelectionError(f"row {number}: {how.field!r} holds no {mark!r}")
        value = (head if how.before else tail).strip()
    return json.dumps(value, ensure_ascii=False) if how.json_text else value


def item(fields: Map, source: Fetched, row: Row, number: int) -> dict[str, Any]:
    """One line of `items.jsonl`. Worked examples are marked, and their ids are apart from those of the items."""
    made = {name: _value(how, row, number) for name, how in fields.items()}
    if source.use == "fewshot":
        made["id"] = f"fewshot-{made['id']}"
        made["use"] = "fewshot"
    return made


def test_item(fields: TestData, row: Row, number: int) -> dict[str, str]:
    """One entry of `test_data.json`: both values are text (E §1.3)."""
    found = {"question": _value(fields.question, row, number), "answer": _value(fields.answer, row, number)}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in found.items()
    }


test_item.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's


def counted(source: Fetched, count: int, whole: int) -> None:
    """SelectionError, naming both numbers, unless a source gave as many rows as `data.toml` says."""
    if source.count in (None, count):
        return
    rule = {"healthbench-easy": "the rule of HealthBench-Easy", "all": "the source"}.get(source.select, "the selection")
    raise SelectionError(
        f"{rule} gives {count} of {whole} rows, and data.toml says {source.count}",
        hint="the source has changed, or the rule is another one: compare, then correct `count` or the rule in a copy "
        "of the task's folder",
    )
