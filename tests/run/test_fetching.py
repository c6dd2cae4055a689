"""Fetching the items of tasks from a hub on this machine: whole or not at all, the same again, and gone on with."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.items import check, data_facts, item_problems, read_record
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core.errors import ConfigError, NotAllowed, PtbError, StepError
from ptb_tui.run import datastate, fetching
from ptb_tui.run.datasources import Folder, Online
from ptb_tui.run.itemfiles import supply
from ptb_tui.supplies import claims
from ptb_tui.supplies.datalock import NAME as LOCK
from ptb_tui.supplies.datalock import read_lock
from ptb_tui.supplies.download import Web
from tests.supplies.benchhub import HEALTH, TASKS, fill, folders, lines, patients, sums
from tests.supplies.fakehub import FakeHub, serving


@dataclass
class Place:
    """A store, a content folder and a hub."""

    base: Path
    hub: FakeHub
    said: list[str] = field(default_factory=list)
    told: list[tuple[int, int]] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.base / "store"

    def task(self, name: str) -> Task:
        return load_task(Content((self.base / "content",)), name, self.store)

    def fetch(self, *names: str, refresh: bool = False, given: Path | None = None, **values: str) -> fetching.Outcome:
        def quiet(_: float) -> None: ...

        cache = self.store / fetching.SOURCES
        provider: Any = Online(cache, self.hub.endpoint, values, Web(timeout=20, pause=quiet), quiet, refresh=refresh)
        if given is not None:
            provider = Folder(given)
        tell = lambda words, done, total: self.told.append((done, total))  # noqa: E731
        order = fetching.Fetch(self.store, provider, self.said.append, tell, refresh, given)
        return order.run([self.task(name) for name in names])

    def state(self, name: str) -> str:
        return datastate.look(self.task(name), read_lock(self.store)).state

    def items(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.store / name / "items.jsonl").read_text().splitlines()]

    def test_data(self, name: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads((self.store / name / "test_data.json").read_text())
        return found

    def edit(self, name: str, before: str, after: str) -> None:
        path = self.base / "content" / "tasks" / name / "data.toml"
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with serving(FakeHub()) as hub:
        fill(hub)
        folders(tmp_path / "content", hub)
        yield Place(tmp_path, hub)


def failed(outcome: fetching.Outcome) -> str:
    """The words and the remedy of the only failure."""
    (failure,) = outcome.failed
    return f"{failure.words} → {failure.remedy}"


def test_every_task_gets_its_items(place: Place) -> None:
    before = {path: path.stat().st_mtime_ns for path in (place.base / "content").rglob("*")}
    outcome = place.fetch(*TASKS, HF_TOKEN=place.hub.token)
    assert before == {path: path.stat().st_mtime_ns for path in (place.base / "content").rglob("*")}, "only read"
    assert outcome.fetched == list(TASKS) and not outcome.failed, place.said
    assert place.items("aime2025")[0] == {"id": "0", "question": "What is 0 + 40?", "target": "40"}
    assert place.test_data("aime2026")[3] == {"question": "What is 3 + 40?", "answer": "43"}
    arena = place.items("arenahardwriting")
    assert [entry["id"] for entry in arena] == ["2.0-0", "2.0-2", "2.0-4"]
    assert len(place.test_data("arenahardwriting")) == 10 and place.test_data("arenahardwriting")[0]["answer"] == ""
    assert place.items("bfcl")[1]["target"] == "add(a=1)"
    assert json.loads(place.test_data("bfcl")[1]["answer"]) == ["add(a=1)"]
    assert place.items("gpqamain")[0]["choices"][0] == "Correct Answer 0"
    grade = place.items("gsm8k")
    assert [entry.get("use") for entry in grade[:11]] == ["fewshot"] * 10 + [None] and len(grade) == 30
    assert grade[0] == {"id": "fewshot-gsm8k-3082", "question": "3082 apples and 1?", "reasoning": "Count to 3082.",
                        "target": "3083", "use": "fewshot"}  # fmt: skip
    assert grade[10]["id"] == "gsm8k-0" and len(place.test_data("gsm8k")) == 20
    health = place.items("healthbench")
    assert len(health) == 100 and health[1]["id"] == "p3" and len(place.test_data("healthbench")) == 300
    assert json.loads(place.test_data("healthbench")[0]["answer"])[0]["points"] == 5
    assert place.items("humaneval")[2]["entry_point"] == "f2"
    states = {name: place.state(name) for name in TASKS}
    assert states.pop("arenahardwriting") == "partial" and set(states.values()) == {"fetched"}
    assert any("ptb-tui baseline arenahardwriting" in note for note in outcome.notes)
    for name in TASKS:
        if name != "arenahardwriting":
            check(place.task(name))
    assert place.told[-1][0] == place.told[-1][1] > 0
    asked = len(place.hub.requests)
    again = place.fetch(*TASKS)
    assert again.there == list(TASKS) and len(place.hub.requests) == asked, "what is whole is not asked for again"


def test_the_lock_keeps_what_was_met_and_refresh_takes_the_newest(place: Place) -> None:
    place.edit("aime2025", 'revision = "563bb8404243c5f09de6ec262f2db674fe5bce9b"', 'revision = ""')
    assert datastate.look(place.task("aime2025"), read_lock(place.store)).pin == "unpinned"
    place.fetch("aime2025")
    assert datastate.look(place.task("aime2025"), read_lock(place.store)).pin == "locked"
    repo = place.hub.repos["datasets", "math-ai/aime25"]
    first, now = repo.commit, "b" * 40
    repo.move(now, **{"test.jsonl": lines(sums(4)[1:])})
    shutil.rmtree(place.store / "aime2025")
    shutil.rmtree(place.store / fetching.SOURCES)
    assert place.fetch("aime2025").fetched and place.items("aime2025")[0]["id"] == "0", "the commit of the first time"
    assert place.fetch("aime2025", refresh=True).fetched and place.items("aime2025")[0]["id"] == "1"
    assert f"moved from {first[:12]} to {now[:12]}" in place.said[-1]
    (pin,) = read_lock(place.store).pins.values()
    assert (pin.revision, list(pin.files)) == (now, ["test.jsonl"])
    del repo.before[first]
    place.edit("aime2025", 'revision = ""', f'revision = "{first}"')
    assert place.state("aime2025") == "changed", "data.toml wants another one"
    assert "has not this revision" in failed(place.fetch("aime2025"))
    assert place.items("aime2025")[0]["id"] == "1", "what was there stays"


def test_data_that_are_others_are_refused(place: Place) -> None:
    place.edit("bfcl", "count = 3", "count = 7")
    assert "gives 3 of 3 rows, and data.toml says 7" in failed(place.fetch("bfcl"))
    assert not (place.store / "bfcl" / "items.jsonl").exists() and not list((place.store / "bfcl").glob(".*"))
    assert not (place.store / LOCK).exists(), "data that do not fit are not written down"
    place.edit("healthbench", "count = 100", "count = 245")
    words = failed(place.fetch("healthbench"))
    assert "the rule of HealthBench-Easy gives 100 of 301 rows, and data.toml says 245" in words
    place.edit("aime2025", 'sha256 = ""', f'sha256 = "{"0" * 64}"')
    assert "sha256 is" in failed(place.fetch("aime2025"))
    place.edit("aime2025", f'sha256 = "{"0" * 64}"', 'sha256 = ""')
    place.edit("aime2025", 'question = "problem"', 'question = "prblem"')
    assert "row 0 has no field 'prblem'; it has answer, id, problem" in failed(place.fetch("aime2025"))
    place.edit("aime2026", 'split = "test"', 'split = "dev"')
    assert "no files of configuration 'default', split 'dev'; it has data/test-" in failed(place.fetch("aime2026"))


def test_an_address_that_gives_something_else_is_refused_until_it_is_wanted(place: Place) -> None:
    place.fetch("healthbench")
    place.hub.pages[HEALTH] = lines(patients(300)[3:])
    place.edit("healthbench", "count = 100", "count = 99")
    shutil.rmtree(place.store / fetching.SOURCES)
    words = failed(place.fetch("healthbench"))
    assert LOCK in words and "remove the entry from the lock file" in words
    assert place.fetch("healthbench", refresh=True).fetched and len(place.items("healthbench")) == 99


def test_a_pinned_commit_never_changes_its_bytes(place: Place) -> None:
    place.fetch("bfcl")
    repo = place.hub.repos["datasets", "gorilla-llm/Berkeley-Function-Calling-Leaderboard"]
    repo.files["BFCL_v3_exec_simple.json"] += b"\n"
    for refresh in (True, False):
        shutil.rmtree(place.store / "bfcl", ignore_errors=True)
        assert "has sha256" in failed(place.fetch("bfcl", refresh=refresh))


def test_gated_data_name_the_page_and_the_token(place: Place) -> None:
    words = failed(place.fetch("gpqamain", "aime2025"))
    assert "Idavidrein/gpqa is gated" in words and f"{place.hub.endpoint}/datasets/Idavidrein/gpqa" in words
    assert "HF_TOKEN" in words and "MY_HF_TOKEN" in words
    assert place.state("aime2025") == "fetched", "one that fails keeps none of the others"
    assert place.fetch("gpqamain", MY_HF_TOKEN=place.hub.token).fetched
    assert place.hub.token not in "".join(place.said)
    assert not any(place.hub.strangers), "the second server sees no token"


def test_an_interrupted_download_is_gone_on_with(place: Place) -> None:
    whole = len(place.hub.pages[HEALTH])
    for path in (HEALTH, "main/train-00000-of-00001"):
        name = next(
            known for known in (HEALTH, *place.hub.repos["datasets", "openai/gsm8k"].files) if known.startswith(path)
        )
        place.hub.cut[name] = 150
    assert place.fetch("healthbench", "gsm8k").fetched == ["healthbench", "gsm8k"], place.said
    ranges = [(path, asked) for _, path, asked in place.hub.requests if asked]
    assert {asked for _, asked in ranges} == {"bytes=150-"} and len({path for path, _ in ranges}) >= 2
    assert len(place.items("healthbench")) == 100
    assert place.told[-1] == (place.told[-1][1], place.told[-1][1]) and place.told[-1][1] > whole
    place.hub.cut.clear()


def test_a_part_of_another_content_is_not_gone_on_with(place: Place) -> None:
    def die(count: int) -> None:
        raise KeyboardInterrupt

    target = place.base / "one.jsonl"
    web, url = Web(pause=lambda _: None), place.hub.storage + HEALTH
    with pytest.raises(KeyboardInterrupt):
        web.fetch(url, target, die)
    assert list(place.base.glob("one.jsonl.ptb-part*")) and not target.exists()
    place.hub.pages[HEALTH] = b"another\n"
    counts: list[int] = []
    web.fetch(url, target, counts.append)
    assert target.read_bytes() == b"another\n" and not list(place.base.glob("*ptb-part*"))
    (place.base / "two.ptb-part").write_bytes(b"x" * 500)
    etag = web.offer(url).mark
    (place.base / "two.ptb-part-of").write_text(etag)
    web.fetch(url, place.base / "two", counts.append)
    assert (place.base / "two").read_bytes() == b"another\n", "more than there is"


def test_files_of_a_folder_are_taken_without_a_network(place: Place, tmp_path: Path) -> None:
    given = tmp_path / "given"
    for (_, name), repo in place.hub.repos.items():
        for path, data in repo.files.items():
            target = given / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    (given / HEALTH.rpartition("/")[2]).write_bytes(place.hub.pages[HEALTH])
    answers = [{"id": f"2.0-{n}", "answer": "Once."} for n in range(3)]
    (given / "baseline_answers.jsonl").write_bytes(lines(answers))
    outcome = place.fetch(*TASKS, given=given)
    assert outcome.fetched == list(TASKS) and not outcome.notes and not place.hub.requests, place.said
    assert all(place.state(name) == "fetched" for name in TASKS)
    shutil.rmtree(place.store / "arenahardwriting")  # the folder could not tell its commit: its bytes are what counts
    assert place.fetch("arenahardwriting").fetched and place.state("arenahardwriting") == "partial", place.said
    place.fetch("arenahardwriting", given=given)
    facts = data_facts(place.task("arenahardwriting"))
    assert facts["files"]["baseline_answers.jsonl"]["count"] == 3
    assert facts["files"]["items.jsonl"]["origin"] == "fetched" and facts["sources"][0]["sha256"]
    other = Place(tmp_path / "other", place.hub)
    shutil.copytree(place.base / "content", other.base / "content")
    outcome = other.fetch("gsm8k", "healthbench", given=place.store)
    assert outcome.fetched == ["gsm8k", "healthbench"] and "taken from" in other.said[0], "a finished store serves, too"
    assert other.items("gsm8k") == place.items("gsm8k") and other.state("gsm8k") == "fetched"
    assert "has no files of" in failed(other.fetch("bfcl", given=tmp_path / "store" / "gsm8k"))


def test_states_and_problems_are_said_in_a_sentence(place: Place) -> None:
    task = place.task("aime2025")
    words = [problem.words for problem in item_problems(task)]
    assert words == [f"{task.store / name} is missing" for name in ("items.jsonl", "test_data.json")]
    assert {problem.remedy for problem in item_problems(task)} == {"ptb-tui data fetch aime2025"}
    assert place.state("aime2025") == "missing"
    place.fetch("aime2025")
    task, items = place.task("aime2025"), place.store / "aime2025" / "items.jsonl"
    assert item_problems(task) == [] and data_facts(task)["sources"][0]["revision"].startswith("563bb84")
    kept = items.read_bytes()
    for data, words_ in (
        (b"", "is empty"),
        (b"\n\n", "holds no items"),
        (b"[1]\n", "is not one JSON object a line"),
        (b"\xff\xfe{}\n", "is not one JSON object a line"),
        (kept + b" \n", "is not what was fetched"),
    ):
        items.write_bytes(data)
        (problem,) = item_problems(task)
        assert (
            words_ in problem.words and str(items) in problem.words and problem.remedy.endswith("data fetch aime2025")
        )
        with pytest.raises(StepError, match=words_):
            check(task)
        assert place.state("aime2025") == "changed"
    items.write_bytes(kept[:-9] + b"nonsense!}")
    assert "is not what was fetched" in item_problems(task)[0].words
    items.write_bytes(kept[:-2] + b"x\n")
    assert item_problems(task) == [], "a plan looks at the beginning alone"
    with pytest.raises(StepError, match="line 3 is not JSON"):
        check(task)
    assert place.fetch("aime2025").fetched and place.state("aime2025") == "fetched" and items.read_bytes() == kept
    (place.store / LOCK).unlink()
    assert place.state("aime2025") == "unpinned"
    (place.store / LOCK).write_text("v = 1\nsources = 3\n")
    with pytest.raises(ConfigError, match=r"data\.lock\.toml"):
        place.fetch("aime2025")


def test_a_lab_may_supply_its_own(place: Place) -> None:
    folder = place.base / "content" / "tasks" / "aime2025"
    place.fetch("aime2025")
    (folder / "items.jsonl").write_text('{"id": "own", "question": "?", "target": "1"}\n')
    task = place.task("aime2025")
    assert task.beside["items.jsonl"] == folder / "items.jsonl" and place.state("aime2025") == "fetched"
    (folder / "test_data.json").write_text('[{"question": "?", "answer": "1"}]')
    assert place.state("aime2025") == "supplied"
    facts = data_facts(place.task("aime2025"))
    assert {entry["origin"] for entry in facts["files"].values()} == {"supplied"} and "sources" not in facts
    (folder / "test_data.json").write_text('[{"question": "?"}]')
    with pytest.raises(StepError, match="item 1 lacks question or answer"):
        check(place.task("aime2025"))


def test_generated_answers_are_put_in_place_whole(place: Place) -> None:
    task = place.task("arenahardwriting")
    assert task.data is not None
    (source,) = task.data.generated
    path = place.base / "made.jsonl"
    path.write_bytes(lines([{"id": "1", "answer": "x"}]))
    with pytest.raises(PtbError, match=r"holds 1 items, and data\.toml of arenahardwriting says 3"):
        supply(task, source, path)
    path.write_bytes(lines([{"id": str(n), "answer": "x"} for n in range(3)]))
    assert supply(task, source, path).count == 3
    assert place.state("arenahardwriting") == "partial" and place.fetch("arenahardwriting").notes == []
    assert place.state("arenahardwriting") == "fetched"
    record = read_record(task.store)
    assert record is not None and set(record.files) == {"items.jsonl", "test_data.json", "baseline_answers.jsonl"}


def test_two_fetches_at_once_are_refused(place: Place) -> None:
    place.store.mkdir()
    with claims.claimed(place.store / fetching.CLAIM, "x"), pytest.raises(NotAllowed, match="data store"):
        place.fetch("aime2025")


def test_a_store_that_cannot_be_written_is_named(place: Place) -> None:
    place.store.parent.joinpath("store").write_text("a file")
    with pytest.raises(PtbError, match="store"):
        place.fetch("aime2025")
    place.store.unlink()
    place.store.mkdir()
    (place.store / "aime2025").write_text("in the way")
    words = failed(place.fetch("aime2025"))
    assert "aime2025" in words and "PTB_DATA_DIR" in words
    os.unlink(place.store / "aime2025")
    assert re.search("1 fetched", fetching.summary(place.fetch("aime2025")))
