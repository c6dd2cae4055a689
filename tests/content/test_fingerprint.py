"""Fingerprints: what they are over, what changes them, and what differs between two."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content import fingerprint
from ptb_tui.content.fingerprint import Difference
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.layout import Root
from tests.e2e.conftest import CONTENT as TOY
from tests.e2e.conftest import REPOSITORY

PARTS = st.dictionaries(st.sampled_from(["a", "b", "c/d", "e"]), st.sampled_from(["1", "2"]))


@pytest.fixture
def content(tmp_path: Path) -> Content:
    shutil.copytree(TOY, tmp_path / "toy")
    return Content((tmp_path / "toy", REPOSITORY))


def take(content: Content, prompt: str = "") -> fingerprint.Print:
    return fingerprint.take(content, load_protocol(content, "toy"), prompt)


def test_it_is_over_what_the_protocol_uses_and_nothing_else(content: Content) -> None:
    parts = set(take(content).parts)
    assert {
        "tasks/protocols/toy.toml", "tasks/prompts/toy.md", "tasks/prompts/sections/gpu_info.md",
        "tasks/toy/evaluate.py", "tasks/toy/evaluate_final_eval.py", "tasks/shared/ptb_templates.py",
        "tasks/templates/qwen3.jinja", "judges/tools/contamination_check.py",
        "judges/data_contamination_judge/prompt.md",
    } <= parts  # fmt: skip
    assert not {name for name in parts if "gsm8k" in name or "test_data" in name or "api_usage" in name}
    assert take(content).fingerprint == take(content).fingerprint == fingerprint.of_parts(take(content).parts)


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("tasks/prompts/toy.md", "changed"),
        ("tasks/prompts/sections/gpu_info.md", "changed"),
        ("judges/general_judge/prompt.md", "changed"),
        ("tasks/shared/new.py", "added"),
        ("tasks/toy/task_context/extra.txt", "added"),
        ("tasks/toy/test_data.json", ""),
        ("tasks/toy/.hidden", ""),
        ("tasks/prompts/mock_test.md", ""),
        ("agents/toy/solve.sh", ""),
    ],
)
def test_what_changes_it(content: Content, file: str, how: str) -> None:
    before, own = take(content), content.paths[0]
    items = fingerprint.of_data(load_task(content, "toy"))
    if file.startswith("judges/"):
        shutil.copytree(REPOSITORY / "judges/general_judge", own / "judges/general_judge")
    (own / file).parent.mkdir(parents=True, exist_ok=True)
    (own / file).write_text('[{"question": "other", "answer": "1"}]')
    after = take(content)
    wanted = Difference(**{how: (file,)}) if how else Difference()
    assert fingerprint.difference(before.parts, after.parts) == wanted
    assert (before.fingerprint != after.fingerprint) is bool(how) is bool(wanted)
    assert (items != fingerprint.of_data(load_task(content, "toy"))) is file.endswith("test_data.json")


def test_a_frozen_copy_has_the_same(content: Content, tmp_path: Path) -> None:
    from ptb_tui.site import bundle

    (content.paths[0] / "tasks" / "shared").mkdir()
    (content.paths[0] / "tasks" / "shared" / "mine.py").write_text("")  # laid over the shipped folder, not in its place
    root = Root(tmp_path / "results")
    frozen = Content((root.own("bundles") / bundle.ensure(root, content),))
    protocol, task = load_protocol(content, "toy"), load_task(content, "toy")
    assert fingerprint.reference(content, protocol, task) == fingerprint.reference(
        frozen, load_protocol(frozen, "toy"), load_task(frozen, "toy")
    )


def test_a_runs_own_prompt_is_part_of_it(content: Content) -> None:
    assert take(content, "mock_test.md").fingerprint != take(content).fingerprint
    assert "tasks/prompts/toy.md" not in take(content, "mock_test.md").parts


@given(PARTS, PARTS)
def test_what_differs(before: dict[str, str], after: dict[str, str]) -> None:
    found = fingerprint.difference(before, after)
    assert bool(found) is (before != after) is (fingerprint.of_parts(before) != fingerprint.of_parts(after))
    back = fingerprint.difference(after, before)
    assert (found.added, found.removed, found.changed) == (back.removed, back.added, back.changed)
    assert all(name in found.words for name in (found.changed + found.added + found.removed)[:1])


def test_parts_are_kept_once_and_not_believed_when_they_are_wrong(content: Content, tmp_path: Path) -> None:
    root, first = Root(tmp_path / "results"), take(content)
    fingerprint.keep(root, first.model_copy(update={"bundle": "b"}))
    fingerprint.keep(root, first)
    kept = fingerprint.recall(root, first.fingerprint)
    assert kept is not None and kept.bundle == "b" and kept.parts == first.parts
    (content.paths[0] / "tasks/prompts/toy.md").write_text("another")
    second = take(content)
    assert fingerprint.apart(root, first.fingerprint, second.fingerprint) == "", "one of them is not known"
    fingerprint.keep(root, second)
    assert fingerprint.apart(root, first.fingerprint, second.fingerprint) == "tasks/prompts/toy.md changed"
    path = root.own("fingerprints") / f"{first.fingerprint}.json"
    for bad in ("", "{", "[]", '{"v": 1}', path.read_text().replace(first.parts["tasks/prompts/toy.md"], "0" * 64)):
        path.write_text(bad)
        assert fingerprint.recall(root, first.fingerprint) is None
    for name in ("", "../x", "0" * 16, "e" * 64):
        assert fingerprint.recall(root, name) is None
