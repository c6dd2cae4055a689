"""Acceptance 12 and 13 of the specification: the shipped prompts, and the choice of the chat template."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import (
    PROMPTS,
    PromptFacts,
    Text,
    compose,
    facts_of,
    is_mock,
    judge_prompt,
    prompt_of,
    sections_of,
)
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.spec import RunSpec
from ptb_tui.run.steps import template_of
from tests.e2e.conftest import REPOSITORY

CONTENT = Content((REPOSITORY,))
PUBLISHED = ("1.0", "1.1", "1.2")
BASES = load_protocol(CONTENT, "1.2").models
GRADED = ("arenahardwriting", "healthbench")
FAMILIES = ("qwen", "llama", "gemma", "smollm")


def spec(protocol: str = "1.2", **more: object) -> RunSpec:
    values = {
        "agent": "codex",
        "config": "m",
        "benchmark": "gsm8k",
        "base_model": "Qwen/Qwen3-4B-Base",
        "hours": 10,
        "protocol": {"name": protocol, "fingerprint": "f"},
    }
    return RunSpec.model_validate(values | more)


def text_of(asked: RunSpec) -> str:
    task, protocol = load_task(CONTENT, asked.benchmark), load_protocol(CONTENT, asked.protocol.name)
    return prompt_of(CONTENT, asked, task, protocol)


def with_facts(**changes: object) -> str:
    """The shipped template with facts that no shipped task has."""
    facts = PromptFacts("codex", "org/base", "Bench", "10", gpus=1, inspect=True, test_data=True)
    path = REPOSITORY / PROMPTS / "prompt.md"
    return compose(Text(path.read_text(), str(path)), sections_of(CONTENT), replace(facts, **changes))  # type: ignore[arg-type]


def rules(text: str) -> list[str]:
    return re.findall(r"(?m)^(\d+\. .*)$", text)


@pytest.mark.parametrize("protocol", [*PUBLISHED, "demo"])
def test_no_placeholder_is_left_and_the_prompt_is_the_same_every_day(protocol: str) -> None:
    for task in load_protocol(CONTENT, protocol).tasks:
        for agent in ("codex", "claude"):
            for gpus in (0, 1, 8):
                asked = spec(protocol, benchmark=task, agent=agent, gpus=gpus, base_model="local/demo-base")
                text = text_of(asked)
                assert not re.search(r"[{}]|^#\.", text, re.M), text
                assert text == text_of(asked) and text.endswith("\n") and "\n\n\n" not in text


def test_the_task_the_hours_and_the_model_are_told() -> None:
    text = text_of(spec(hours=0.05))
    assert "`Qwen/Qwen3-4B-Base`" in text and "at most 0.05 hours" in text and "`bash timer.sh`" in text
    assert text.count(load_task(CONTENT, "gsm8k").label) >= 2 and "final_model" in text
    assert "at most 10 hours" in text_of(spec(hours=10.0))


def test_the_section_about_the_checker_goes_with_the_test_data() -> None:
    marks = ("../contamination_check.py", "../test_data.json", "--reference", "--input-format text", "standard input")
    assert all(mark in with_facts() for mark in marks)
    assert not any(mark in with_facts(test_data=False) for mark in marks)


@pytest.mark.parametrize("protocol", PUBLISHED)
def test_rules_and_tool_of_each_version(protocol: str) -> None:
    text, graded = text_of(spec(protocol)), text_of(spec(protocol, benchmark="healthbench"))
    first = protocol == "1.0"
    assert len(rules(text)) == (7 if first else 9) and len(rules(graded)) == (7 if first else 10)
    assert [int(rule.partition(".")[0]) for rule in rules(graded)] == list(range(1, len(rules(graded)) + 1))
    for mark in ("contamination_check.py", "derived from particular test items", "API key"):
        assert (mark in text) is not first
    assert ("`OPENAI_API_KEY` is an exception" in graded) is not first
    assert (
        facts_of(spec(protocol), load_task(CONTENT, "gsm8k"), load_protocol(CONTENT, protocol)).test_data is not first
    )


def test_required_keys() -> None:
    assert "exception to the rule before" not in with_facts()
    one, two = with_facts(grading_keys=("A_KEY",)), with_facts(grading_keys=("A_KEY", "B_KEY"))
    assert rules(one)[-1].startswith("10. `A_KEY` is an exception") and ": it is there" in one
    assert rules(two)[-1].startswith("10. `A_KEY` and `B_KEY` are exceptions") and ": they are there" in two


def test_gpus_and_notes_on_inspect() -> None:
    assert "- You have one Nvidia H100 GPU.\n" in with_facts()
    assert "- You have 8 Nvidia H100 GPUs.\n" in with_facts(gpus=8)
    assert "- You have 2 Nvidia B200 GPUs.\n" in with_facts(gpus=2, gpu_kind="Nvidia B200")
    none = with_facts(gpus=0)
    assert "There is no GPU" in none and "--max-connections" not in none and "marked ERROR" in none
    assert "`--max-connections`" in with_facts() and "marked ERROR" not in with_facts(inspect=False)
    inspect = {task for task in load_protocol(CONTENT, "1.1").tasks if load_task(CONTENT, task).file.inspect}
    assert inspect == {"aime2025", "bfcl", "gpqamain", "gsm8k", "humaneval"}
    assert load_task(CONTENT, "aime2026").file.inspect


def test_agents_called_claude_are_told_that_nobody_waits_for_them() -> None:
    note = "This session is not interactive"
    for agent in ("claude", "kimi_claude", "claude_non_api"):
        assert note in text_of(spec(agent=agent)).splitlines()[-1]
    for agent in ("codex", "glm5", "glmx", "qwen3max"):
        assert note not in text_of(spec(agent=agent))


def test_a_mock_prompt_asks_agents_and_judges_for_nothing() -> None:
    asked = spec(prompt="mock_test.md")
    text, protocol = text_of(asked), load_protocol(CONTENT, "1.2")
    assert "Train nothing" in text and "`Qwen/Qwen3-4B-Base`" in text and "# Rules" not in text
    assert is_mock("mock_test.md") and not is_mock("prompt.md")
    own = REPOSITORY / "judges" / "general_judge" / "prompt.md"
    told = judge_prompt(CONTENT, asked, own, protocol).read_text()
    assert "{evidence}" in told and "{verdict}" in told and "every question with `false`" in told
    assert judge_prompt(CONTENT, spec(), own, protocol) == own


def test_the_chat_template_is_the_base_models_whatever_paths_and_configs_say(tmp_path: Path) -> None:
    """13: in a process of its own, as in the sandbox, for every base model, family and kind of task."""
    expected, cases = [], []
    for base in BASES:
        named = template_of(load_protocol(CONTENT, "1.2"), base)
        stem = named["PTB_TEMPLATE"].removesuffix(".jinja")
        for family in FAMILIES:
            model = tmp_path / f"{family}max_x" / base / "final_model"
            model.mkdir(parents=True)
            (model / "config.json").write_text(json.dumps({"architectures": [f"{family.title()}ForCausalLM"]}))
            for env in (named, {"PTB_BASE_MODEL": base}, {**named, "PTB_BASE_MODEL": "org/unknown"}):
                cases.append([str(model), env])
                expected.append([f"{stem}.jinja", f"{'gemma3_tool_calling' if stem == 'gemma3' else stem}.jinja"])
    code = (
        "import json, sys, ptb_templates as t\n"
        "for path, env in json.load(sys.stdin):\n"
        "    print(json.dumps([t.template_name(path, env), t.template_name(path, env, tools=True)]))\n"
    )
    shared = REPOSITORY / "tasks" / "shared"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(shared)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(cases), capture_output=True, text=True, check=True, env=env
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def test_an_assigned_base_model_that_is_not_known_never_takes_the_word_of_what_the_agent_left(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["GemmaForCausalLM"]}')
    code = "import sys, os, ptb_templates as t\nprint(t.template_name(sys.argv[1], os.environ))"
    argv = [sys.executable, "-c", code, str(tmp_path)]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY / "tasks" / "shared")}
    by_hand = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
    assert by_hand.stdout == "gemma3.jinja\n", "nobody assigned anything"
    assigned = subprocess.run(
        argv, capture_output=True, text=True, env={**env, "PTB_BASE_MODEL": "org/new"}, check=False
    )
    assert assigned.returncode != 0 and "no chat template is known for org/new" in assigned.stderr
