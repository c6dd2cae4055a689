"""`data.toml` of a task: where its items come from, which rows are taken, and which field becomes which (E §1.3, §1.5).

Every row `[[sources]]` names a place, a revision, a rule of selection, a count and a hash. `items.jsonl` is made of the
sources of use `items` after those of use `fewshot`, `test_data.json` of those of use `test_data`, else `items`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from ptb_tui.content.reading import read_toml

NAME = "data.toml"
ITEMS, TEST_DATA, BASELINE = "items.jsonl", "test_data.json", "baseline_answers.jsonl"
BESIDE = (TEST_DATA, ITEMS, BASELINE)
"""All files that go one folder above a task's scripts."""

Format = Literal["jsonl", "json", "csv", "parquet"]
Use = Literal["items", "fewshot", "test_data"]
Sha256 = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Equals(_Table):
    """`where` of `select = "equals"`."""

    field: str
    value: str | int | float | bool


class _Rows(_Table):
    """What a fetched source gives: its form, the rows taken, and what must come out."""

    revision: str = ""
    format: Format | None = None  # empty: by the name of the file
    gated: bool = False
    token: tuple[str, ...] = ("HF_TOKEN", "MY_HF_TOKEN")  # settings that may hold the account's token
    use: Use = "items"
    select: Literal["all", "rows", "equals", "healthbench-easy"] = "all"
    rows: tuple[int, ...] = ()  # of `rows`: their numbers from 0, in the order wanted
    where: Equals | None = None
    min_turns: int = Field(default=5, ge=0)  # of `healthbench-easy` (E §1.5.7), like the two below
    needs_tag: str = "axis:completeness"
    max_negative: int = Field(default=2, ge=0)
    unique: str = ""  # keep the first row of each value of this field
    count: int | None = Field(default=None, ge=1)  # rows after selection
    sha256: Sha256 = ""  # of the file; of several, of their lines "<sha256>  <path>", sorted by path

    @model_validator(mode="after")
    def _fits(self) -> _Rows:
        if (self.select == "rows") != bool(self.rows):
            raise ValueError('`rows` and select = "rows" go together')
        if (self.select == "equals") != (self.where is not None):
            raise ValueError('`where` and select = "equals" go together')
        return self


class HubSource(_Rows):
    """Files of a data set of the hub: named (patterns are allowed), else those of a configuration and a split."""

    kind: Literal["hub"]
    repo: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$")
    config: str = "default"
    split: str = "train"
    file: str = ""
    files: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Files or patterns that the source names; empty when configuration and split decide."""
        return (self.file, *self.files) if self.file else self.files

    @property
    def where_from(self) -> str:
        """For people and for the lock."""
        return self.repo


class UrlSource(_Rows):
    """One file at an address."""

    kind: Literal["url"]
    url: str = Field(pattern=r"^https?://[^\s/]+/\S+$")

    @property
    def where_from(self) -> str:
        """For people and for the lock."""
        return self.url


class Generated(_Table):
    """A file that nobody offers: a command of ours makes it, or the operator supplies it."""

    kind: Literal["generated"]
    file: Literal["baseline_answers.jsonl", "items.jsonl", "test_data.json"]
    made_by: str = ""  # the command
    count: int | None = Field(default=None, ge=1)
    sha256: Sha256 = ""


Fetched = HubSource | UrlSource
Source = Annotated[HubSource | UrlSource | Generated, Field(discriminator="kind")]


class Taken(_Table):
    """A field of an item that is not one field of the source as it is."""

    field: str = ""
    json_text: bool = Field(default=False, alias="json")  # as JSON text
    index: int | None = None  # one entry of a list
    before: str = ""  # the part before the last such mark, trimmed
    after: str = ""  # the part after it, trimmed
    row: str = ""  # no field at all: the number of the row, put for {}
    text: str | None = None  # no field at all: always this

    @model_validator(mode="after")
    def _one(self) -> Taken:
        if sum((bool(self.field), bool(self.row), self.text is not None)) != 1:
            raise ValueError("one of `field`, `row` and `text` is needed")
        return self


def _form(value: Any) -> str:
    """Which of the ways below a value is written in, so that a mistake is said of that one."""
    return "table" if isinstance(value, dict | Taken) else "list" if isinstance(value, list | tuple) else "name"


One = Annotated[Annotated[str, Tag("name")] | Annotated[Taken, Tag("table")], Discriminator(_form)]
"""A field of the source, or more than its name."""

Many = Annotated[
    Annotated[str, Tag("name")] | Annotated[tuple[str, ...], Tag("list")] | Annotated[Taken, Tag("table")],
    Discriminator(_form),
]
"""The same, or several fields as one list."""

Map = Mapping[str, str | tuple[str, ...] | Taken]


class TestData(_Table):
    """`[test_data]`: the two fields of an item of `test_data.json`."""

    __test__ = False  # no test of pytest's
    question: One
    answer: One


class DataFile(_Table):
    """`data.toml`."""

    v: Literal[1] = 1
    sources: tuple[Source, ...] = Field(min_length=1)
    items: dict[str, Many] = Field(default_factory=dict)
    test_data: TestData | None = None

    @model_validator(mode="after")
    def _whole(self) -> DataFile:
        if self.items and "id" not in self.items:
            raise ValueError("[items] needs `id`")
        if (self.items or self.test_data) and not any(source.use == "items" for source in self.fetched):
            raise ValueError('no source of use "items"')
        return self

    @property
    def fetched(self) -> tuple[Fetched, ...]:
        """The sources that are downloaded."""
        return tuple(source for source in self.sources if not isinstance(source, Generated))

    @property
    def generated(self) -> tuple[Generated, ...]:
        """The files that are made or supplied."""
        return tuple(source for source in self.sources if isinstance(source, Generated))

    @property
    def made(self) -> tuple[str, ...]:
        """Files that a fetch writes."""
        return ((ITEMS,) if self.items else ()) + ((TEST_DATA,) if self.test_data else ())

    @property
    def needed(self) -> tuple[str, ...]:
        """Files without which the task cannot be run."""
        return (*self.made, *(source.file for source in self.generated if source.file not in self.made))

    def feeding(self, name: str) -> tuple[Fetched, ...]:
        """The sources of one file, in the order in which their rows go into it."""
        by_use: dict[str, list[Fetched]] = {"items": [], "fewshot": [], "test_data": []}
        for source in self.fetched:
            by_use[source.use].append(source)
        if name == ITEMS:
            return (*by_use["fewshot"], *by_use["items"])
        return tuple(by_use["test_data"] or by_use["items"])


def read_data_file(folder: Path) -> DataFile | None:
    """`data.toml` of a task folder; None when it has none. ContentError names file, place and what would be right."""
    path = folder / NAME
    sections: dict[str, Any] = {"sources": HubSource, "items": Taken, "test_data": TestData}
    return read_toml(path, DataFile, sections) if path.is_file() else None
