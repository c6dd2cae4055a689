"""A run is prepared, judged and evaluated with what it was submitted with; a plan says what is wrong with content."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ptb_tui.content.fingerprint import reference
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.errors import StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import load
from ptb_tui.core.spec import PlanCell, RunSpec, Sweep
from ptb_tui.run.plan import make_plan
from ptb_tui.run.steps import same_benchmark
from tests.e2e.conftest import CONTENT as TOY
from tests.e2e.conftest import REPOSITORY

SWEEP = {
    "name": "toy", "protocol": "toy", "tasks": ["toy"], "models": ["local/toy-base"], "hours": 1, "gpus": 0,
    "agents": [{"agent": "toy", "config": "x"}],
}  # fmt: skip


class Lab:
    def __init__(self, base: Path) -> None:
        self.base, self.own = base, base / "own"
        shutil.copytree(TOY, self.own)
        self.content = Content((self.own, REPOSITORY))

    def change(self, file: str, text: str) -> None:
        path = self.own / file
        path.write_text(text or path.read_text() + "\n")

    def spec(self, prompt: str = "") -> RunSpec:
        task, protocol = load_task(self.content, "toy"), load_protocol(self.content, "toy")
        found = reference(self.content, protocol, task, prompt)
        return RunSpec.model_validate(
            {"agent": "toy", "config": "x", "benchmark": "toy", "base_model": "local/toy-base", "hours": 1}
            | {"protocol": found, "prompt": prompt}
        )

    def compare(self, spec: RunSpec) -> None:
        same_benchmark(spec, self.content, load_protocol(self.content, "toy"), load_task(self.content, "toy"))

    def plan(self, **environ: str) -> PlanCell:
        env = {"HOME": str(self.base), "XDG_CONFIG_HOME": str(self.base / "config"), **environ}
        settings = load(cwd=self.base, environ=env, results=self.base / "results")
        plan = make_plan(Sweep.model_validate(SWEEP), Root(self.base / "results"), self.content, settings, "process")
        return plan.cells[0]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("prompt", ["", "mock_test.md"])
def test_nothing_changed(lab: Lab, prompt: str) -> None:
    lab.compare(lab.spec(prompt))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("tasks/prompts/toy.md", "the run was submitted with"),
        ("tasks/toy/evaluate_final_eval.py", "its frozen copy was changed"),
        ("tasks/toy/test_data.json", "the items are not those .*toy/test_data.json"),
    ],
)
def test_a_change_is_found(lab: Lab, file: str, said: str) -> None:
    spec = lab.spec()
    lab.change(file, "")
    with pytest.raises(StepError, match=said) as caught:
        lab.compare(spec)
    assert caught.value.cause == "content_changed"


def test_a_plan_records_which_benchmark_it_is_of(lab: Lab) -> None:
    cell = lab.plan()
    assert cell.action == "submit" and not cell.problems
    assert cell.spec.protocol == lab.spec().protocol and cell.spec.prompt == ""


@pytest.mark.parametrize(
    ("file", "text", "said", "remedy"),
    [
        ("tasks/prompts/toy.md", "Train {modle}", "toy.md: line 1: nothing fills {modle}", "known: model"),
        ("tasks/prompts/toy.md", "{if claude}", "without {end}", ""),
        ("tasks/protocols/toy.toml", "", "", ""),
    ],
)
def test_a_prompt_that_cannot_be_built_is_said_at_once(lab: Lab, file: str, text: str, said: str, remedy: str) -> None:
    if not text:
        path = lab.own / file
        path.write_text(path.read_text().replace('prompt = "toy.md"', 'prompt = "gone.md"'))
        said = "no tasks/prompts/gone.md in"
    else:
        lab.change(file, text)
    cell = lab.plan()
    (problem,) = [problem for problem in cell.problems if problem.blocks]
    assert cell.action == "blocked" and said in problem.words and remedy in problem.remedy


def test_a_mock_prompt_is_recorded_and_said(lab: Lab) -> None:
    cell = lab.plan(POST_TRAIN_BENCH_PROMPT="mock_test")
    (problem,) = cell.problems
    assert cell.action == "submit" and "do nothing" in problem.words and "POST_TRAIN_BENCH_PROMPT" in problem.remedy
    assert cell.spec.prompt == "mock_test.md" and cell.spec.protocol != lab.spec().protocol
    assert cell.spec.digest != lab.plan().spec.digest


def test_a_base_model_without_a_chat_template_and_files_that_would_be_left_out(lab: Lab) -> None:
    path = lab.own / "tasks/protocols/toy.toml"
    path.write_text(path.read_text() + '\n[templates]\n"local/other" = "qwen3.jinja"\n')
    (lab.own / "tasks/toy/info.json").chmod(0o600)
    words = [problem.words for problem in lab.plan().problems]
    assert "[templates] of protocol toy names none for local/toy-base" in words
    assert any(text.endswith("tasks/toy/info.json: only you may read it, so a run would not get it") for text in words)
    path.write_text(path.read_text().replace("local/other", "local/toy-base").replace("qwen3", "gone"))
    assert "[templates] of protocol toy: there is no tasks/templates/gone.jinja" in [
        problem.words for problem in lab.plan().problems
    ]
