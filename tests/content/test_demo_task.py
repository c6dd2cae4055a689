"""The demo benchmark's files: generator, numeric scorer, seeds, template choice, command line."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

REPO = Path(__file__).resolve().parents[2]
TASK = REPO / "tasks" / "demo"
SHARED = REPO / "tasks" / "shared"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


numbers = load(SHARED / "ptb_numbers.py")
seeds = load(SHARED / "ptb_seeds.py")
templates = load(SHARED / "ptb_templates.py")
generator = load(TASK / "make_test_data.py")
problems = load(REPO / "agents" / "reference" / "problems.py")


def test_data_file_is_what_the_generator_writes() -> None:
    assert (TASK / "test_data.json").read_text() == generator.render(generator.make_items())


def operands(question: str) -> tuple[int, int]:
    found = [int(digits) for digits in re.findall("[0-9]+", question)]
    assert len(found) == 2, question
    return found[0], found[1]


def test_items_use_reserved_pairs_once_and_have_right_answers() -> None:
    items = generator.make_items()
    pairs = [operands(item["question"]) for item in items]
    assert len(items) == len(set(pairs)) == len({item["id"] for item in items}) == 200
    assert all(generator.reserved(a, b) for a, b in pairs)
    for number, (item, (a, b)) in enumerate(zip(items, pairs, strict=True)):
        assert int(item["answer"]) == (a - b if number % 2 else a + b)


def test_reference_data_avoid_the_test() -> None:
    test = generator.make_items()
    pairs = {operands(item["question"]) for item in test}
    for record in problems.make(seed=7, count=2000):
        a, b = operands(record["question"])
        assert not generator.reserved(a, b) and (a, b) not in pairs
        expected = a + b if f"{a}+{b}." in record["answer"] else a - b
        assert record["answer"].endswith(f"ANSWER: {expected}")


@pytest.mark.parametrize(
    ("completion", "target", "right"),
    [
        ("ANSWER: -3", "-3", True),
        ("ANSWER: 3 / 13", "-3", False),
        ("ANSWER: -5", "5", False),
        ("ANSWER: 14000", "14,000", True),
        ("ANSWER: 14,000", "14,000", True),
        ("ANSWER: 114,000", "14,000", False),
        ("ANSWER: 15", "5", False),
        ("ANSWER: 262499", "262500", False),
        ("ANSWER: $18.00.", "18", True),
        (".10.00.50", "50", False),
        ("½½", "50", False),
        ("10⁹⁹⁹", "50", False),
        ("3*5²*13.", "50", False),
        ("", "50", False),
        ("49 and then 50", "49", False),
        ("1" * 400, "1", False),
    ],
)
def test_signed_last_number_exact(completion: str, target: str, right: bool) -> None:
    assert numbers.signed_last_number_exact(completion, target)[1] is right


def test_a_target_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError):
        numbers.signed_last_number_exact("1", "one")


@given(st.text(max_size=200))
def test_no_completion_raises(completion: str) -> None:
    numbers.signed_last_number_exact(completion, "50")


@given(st.integers(-(10**9), 10**9))
def test_the_number_itself_is_right_and_the_next_one_wrong(value: int) -> None:
    assert numbers.signed_last_number_exact(f"so it is {value}.", str(value))[1]
    assert not numbers.signed_last_number_exact(f"so it is {value + 1}.", str(value))[1]


@pytest.mark.parametrize(
    ("arguments", "seed"),
    [((0, "x"), 2001290515), ((72332, 1), 1353171064), ((87681, "x", 1, 1), 1922321607)],
)
def test_sample_seed(arguments: tuple[object, ...], seed: int) -> None:
    assert seeds.sample_seed(*arguments) == seed


def model_dir(parent: Path, name: str, architecture: str) -> str:
    folder = parent / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    return str(folder)


def test_the_template_follows_the_assigned_base_model_not_the_path(tmp_path: Path) -> None:
    path = model_dir(tmp_path, "llama_gemma_results/final_model", "Gemma3ForCausalLM")
    assert templates.template_name(path, {"PTB_BASE_MODEL": "local/demo-base"}) == "qwen3.jinja"
    assert templates.template_name(path, {"PTB_BASE_MODEL": "HuggingFaceTB/SmolLM3-3B-Base"}) == "smollm.jinja"


def test_without_an_assigned_model_the_architecture_decides(tmp_path: Path) -> None:
    path = model_dir(tmp_path, "qwen/final_model", "Gemma3ForCausalLM")
    assert templates.template_name(path, {}) == "gemma3.jinja"
    base = model_dir(tmp_path, "base", "Qwen3ForCausalLM")
    unknown = {"PTB_BASE_MODEL": "local/other", "PTB_BASE_MODEL_PATH": base}
    assert templates.template_name(path, unknown) == "qwen3.jinja"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"architectures": 3}', '{"architectures": ["Other"]}', "\udcff"])
def test_an_odd_config_gives_no_template(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, errors="surrogateescape")
    with pytest.raises(templates.TemplateUnknown):
        templates.template_name(str(tmp_path), {})


def run(script: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PTB_")}
    command = [sys.executable, str(TASK / script), *arguments]
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", ["evaluate.py", "evaluate_final_eval.py"])
def test_help_names_the_common_options(script: str, tmp_path: Path) -> None:
    done = run(script, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for option in ("--model-path", "--limit", "--max-tokens", "--json-output-file", "--max-connections"):
        assert option in done.stdout
    assert ("--seed" in done.stdout) is (script == "evaluate_final_eval.py")


def test_exit_codes_of_missing_things(tmp_path: Path) -> None:
    assert run("evaluate.py", "--limit", "many", cwd=tmp_path).returncode == 2
    done = run("evaluate.py", "--json-output-file", "metrics.json", cwd=tmp_path)
    assert done.returncode == 3 and "final_model" in done.stderr
    assert not (tmp_path / "metrics.json").exists()


def test_the_scripts_defaults_are_those_of_the_task_file() -> None:
    limits = tomllib.loads((TASK / "task.toml").read_text())["evaluate"]
    for script in ("evaluate.py", "evaluate_final_eval.py"):
        text = (TASK / script).read_text()
        for key, value in limits.items():
            assert f"    {key}={value},\n" in text
