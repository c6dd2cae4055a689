"""What an order for a baseline names, found or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.core.baseline import BaselineOrder
from ptb_tui.core.errors import NotAllowed, NotFound
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import load
from ptb_tui.run import baselines
from ptb_tui.run.baselines import Here, Model

SHIPPED = Content.of()


@pytest.mark.parametrize(
    ("task", "wanted", "found"),
    [
        ("gsm8k", "", "1.2"),
        ("bfcl", "", "1.1"),
        ("demo", "", "demo"),
        ("aime2026", "", "1.2"),  # in no protocol
        ("gsm8k", "1.0", "1.0"),
    ],
)
def test_whose_seeds_count(task: str, wanted: str, found: str) -> None:
    assert baselines.protocol_for(SHIPPED, task, wanted).name == found


def test_models(tmp_path: Path) -> None:
    values = {"HF_HOME": str(tmp_path / "hf")}
    assert baselines.find_model(SHIPPED, values, "local/demo-base").folder.name == "demo-base"
    (tmp_path / "my model").mkdir()
    assert baselines.find_model(SHIPPED, values, str(tmp_path / "my model")).name == "local/my_model"
    for name, words in (
        ("org/name", "data cache --only org/name"),
        ("local/none", "no content folder"),
        ("./here", "whole path"),
        ("../../etc", "whole path"),
        ("a/b/c", "names no model"),
        ("one", "names no model"),
        (str(tmp_path / "absent"), "no folder"),
    ):
        with pytest.raises(NotFound) as caught:
            baselines.find_model(SHIPPED, values, name)
        assert words in f"{caught.value.message} {caught.value.hint}"


def test_links_of_the_hubs_cache_become_files(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    (snapshot / "below").mkdir(parents=True)
    (blobs / "1").write_text("weights")
    assert baselines.materialise(Model("org/name", snapshot), tmp_path / "to") == snapshot
    (snapshot / "below" / "model.safetensors").symlink_to(blobs / "1")
    made = baselines.materialise(Model("org/name", snapshot), tmp_path / "to") / "below" / "model.safetensors"
    assert made.read_text() == "weights" and not made.is_symlink()


def order(tmp_path: Path, **values: object) -> baselines.Ready:
    here = Here(Root(tmp_path / "results"), SHIPPED, load(cwd=tmp_path))
    fields = {"task": "demo", "model": "local/demo-base", **values}
    return baselines.ready(here, BaselineOrder.model_validate(fields))


def test_seeds_and_items(tmp_path: Path) -> None:
    found = order(tmp_path)
    assert found.whole and len(found.seeds) == 1 and found.limit == -1
    more = order(tmp_path, seeds=3)
    assert more.whole and more.seeds[0] == found.seeds[0] and len(set(more.seeds)) == 3
    assert not order(tmp_path, task="gsm8k", seeds=2).whole and order(tmp_path, task="gsm8k").seeds[1] == 87681
    assert not order(tmp_path, limit=5).whole
    for wrong, words in (({"limit": 0}, "nothing to evaluate"), ({"answers": True}, "no baseline answers")):
        with pytest.raises(NotAllowed, match=words):
            order(tmp_path, **wrong)
    with pytest.raises(NotAllowed, match="all items"):
        order(tmp_path, task="arenahardwriting", answers=True, limit=5)


def test_what_was_measured_survives_odd_files(tmp_path: Path) -> None:
    root = Root(tmp_path)
    assert baselines.kept(root) == []
    for number, text in enumerate(('{"row": {"task": "a", "model": "m", "t": "2"}}', "{", "[]", '{"row": 3}')):
        folder = root.own("baselines") / f"place{number}" / "evaluation"
        folder.mkdir(parents=True)
        (folder / baselines.NAME).write_text(text)
    assert [row.task for row in baselines.kept(root)] == ["a"] and baselines.kept(root, "b") == []
