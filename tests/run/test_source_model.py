"""The base model: of the content, or of the site's cache of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import ProtocolRef, RunSpec
from ptb_tui.run.sources import Look, Ready, model
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.sandbox.process import Process
from tests.run.test_hubview import COMMIT, FOLDER, host_cache


def look_at(base_model: str, cache: Path, network: Any = "gateway") -> Look:
    content = Content.of()
    spec = RunSpec(
        agent="reference",
        config="x",
        benchmark="demo",
        base_model=base_model,
        hours=1,
        gpus=0,
        network=network,
        protocol=ProtocolRef(name="demo", fingerprint="f"),
    )
    return Look(
        Root(cache),
        spec,
        load_agent(content, "reference"),
        load_task(content, "demo"),
        load_protocol(content, "demo"),
        content,
        Settings({"HF_HOME": str(cache)}, {}, None, None, None, "ann"),
    )


def test_a_model_of_the_hub_that_is_whole_is_shown(tmp_path: Path) -> None:
    look = look_at("org/tiny", host_cache(tmp_path / "hf"))
    assert model.problems(look) == []
    (tmp_path / "scratch" / "home").mkdir(parents=True)
    given = model.provide(look, Ready(tmp_path / "scratch", Bubblewrap()))
    assert [bind.target for bind in given.binds] == ["/opt/ptb/hf/hub", "/opt/ptb/hf/datasets"]
    assert given.facts["commit"] == COMMIT and given.env == {} and not given.notes
    assert (tmp_path / "scratch" / "home" / "hf_cache" / "hub" / FOLDER).is_dir()


def test_without_a_network_the_hubs_library_does_not_ask(tmp_path: Path) -> None:
    look = look_at("org/tiny", host_cache(tmp_path / "hf"), network="none")
    (tmp_path / "scratch" / "home").mkdir(parents=True)
    given = model.provide(look, Ready(tmp_path / "scratch", Process()))
    assert given.env == {"HF_HUB_OFFLINE": "1"} and given.binds == ()


@pytest.mark.parametrize("partial", [False, True])
def test_a_model_that_is_not_whole_is_a_problem_with_its_remedy(tmp_path: Path, partial: bool) -> None:
    cache = host_cache(tmp_path / "hf") if partial else tmp_path / "hf"
    if partial:
        (cache / "hub" / FOLDER / "snapshots" / COMMIT / "config.json").unlink()
    look = look_at("org/tiny", cache)
    (problem,) = model.problems(look)
    assert problem.blocks and problem.remedy == "ptb-tui data cache --only org/tiny"
    assert ("only in part: config.json is not there" if partial else "is not in the cache") in problem.words
    with pytest.raises(StepError) as caught:
        model.provide(look, Ready(tmp_path / "scratch", Bubblewrap()))
    assert caught.value.cause == "prepare_failed" and "data cache --only org/tiny" in caught.value.hint


def test_a_local_model_needs_no_cache(tmp_path: Path) -> None:
    look = look_at("local/demo-base", tmp_path / "nowhere")
    assert model.problems(look) == []
    given = model.provide(look, Ready(tmp_path, Bubblewrap()))
    assert given.env["PTB_BASE_MODEL_PATH"] == "/opt/ptb/base_model" and len(given.binds) == 1
    with pytest.raises(StepError, match="is in no content folder"):
        model.problems(look_at("local/nothing", tmp_path))
