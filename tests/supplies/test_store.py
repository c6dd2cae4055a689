"""Which version a run gets."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import NotFound, StorageError
from ptb_tui.supplies.getting import version_in
from ptb_tui.supplies.store import Choice, Installed, Store


def put(store: Store, version: str, *, cli: str = "codex", digest: str = "0" * 64) -> Installed:
    made = Installed(
        cli=cli, name=f"{version}-{digest[:12]}", version=version, digest=digest, installed=f"2026-01-0{version[0]}"
    )
    (store.path / cli / made.name / "bin").mkdir(parents=True)
    store.publish(made)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "clis")


def test_a_store_that_is_not_there_has_nothing(store: Store) -> None:
    assert store.versions("codex") == () and store.current("codex") is None
    assert store.choose("codex", "codex_xhigh") == Choice(None)
    assert store.newest("codex") == ("", "")
    with pytest.raises(NotFound, match="no version of codex was current before"):
        store.roll_back("codex")


def test_a_tree_without_its_record_is_not_there(store: Store) -> None:
    (store.path / "codex" / "1.0-000000000000" / "bin").mkdir(parents=True)
    assert store.versions("codex") == ()
    one = put(store, "2.0")
    (store.path / "codex" / one.name / "bin").rmdir()
    assert store.versions("codex") == (), "nor is a record without its tree"


def test_pins_go_from_the_agent_over_the_variable_and_the_cli_to_the_current_one(store: Store) -> None:
    one, two, three, four = (put(store, f"{n}.0") for n in (1, 2, 3, 4))
    store.make_current(four)
    assert store.choose("codex", "a") == Choice(four)
    store.pin("cli", "codex", "codex", "3.0")
    assert store.choose("codex", "a") == Choice(three, "pinned", three.name)
    assert store.choose("codex", "a", "2.0") == Choice(two, "asked for by a variable", "2.0")
    store.pin("agent", "a", "codex", one.name)
    assert store.choose("codex", "a", "2.0") == Choice(one, "pinned for the agent", one.name)
    assert store.choose("codex", "b") == Choice(three, "pinned", three.name)
    assert store.choose("codex", "b", "9.9") == Choice(None, "asked for by a variable", "9.9")
    assert store.unpin("agent", "a") and not store.unpin("agent", "a")
    assert store.unpin("cli", "codex")
    assert store.choose("codex", "a") == Choice(four)


def test_a_pin_to_what_is_not_there_names_what_is(store: Store) -> None:
    put(store, "1.0")
    with pytest.raises(NotFound, match=r"codex 7\.7 is not in the store; there are: 1\.0") as error:
        store.pin("cli", "codex", "codex", "7.7")
    assert error.value.hint == "ptb-tui agents update codex --version 7.7"


def test_rollback_goes_back_step_by_step_over_what_is_gone(store: Store) -> None:
    one, two, three = (put(store, f"{n}.0") for n in (1, 2, 3))
    assert store.make_current(one) == ""
    assert store.make_current(two) == one.name
    assert store.make_current(two) == two.name, "again changes nothing"
    store.make_current(three)
    assert store.roll_back("codex") == two and store.current("codex") == two
    assert store.roll_back("codex") == one
    with pytest.raises(NotFound):
        store.roll_back("codex")
    store.make_current(two)
    store.make_current(three)
    (store.path / "codex" / f"{two.name}.json").unlink()
    assert store.roll_back("codex") == one


def test_files_that_are_broken_are_no_versions(store: Store) -> None:
    one = put(store, "1.0")
    store.make_current(one)
    for text in ("", "[]", "{", json.dumps({"v": 1, "cli": "codex"}), json.dumps({**one.model_dump(), "cli": "x"})):
        (store.path / "codex" / f"{one.name}.json").write_text(text)
        assert store.current("codex") is None and store.versions("codex") == ()
    (store.path / "codex" / "current.json").write_text('{"name": "../x"}')
    assert store.current("codex") is None


def test_unfinished_work_goes_after_a_day(store: Store) -> None:
    old, new = store.workplace(), store.workplace()
    (old / "tree").mkdir()
    (old / "tree").chmod(0o555)
    os.utime(old, (time.time() - 90_000,) * 2)
    store.workplace()
    assert not old.exists() and new.exists()


def test_a_store_that_cannot_be_written_names_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as error:
        Store(tmp_path / "file" / "clis").workplace()
    assert "cli_store" in error.value.hint


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("2.1.332 (Claude Code)", "2.1.332"),
        ("codex-cli 0.171.0", "0.171.0"),
        ("grok v0.9.1-beta.2\nmore", "0.9.1-beta.2"),
        ("2026.01.05-abc123", "2026.01.05-abc123"),
        ("cursor", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_version_in_what_a_cli_says(said: str, version: str) -> None:
    assert version_in(said) == version


@given(st.text())
def test_any_text_has_a_version_that_names_a_folder(said: str) -> None:
    found = version_in(said)
    assert found and "/" not in found and len(found) <= 60
