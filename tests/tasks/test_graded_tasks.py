"""The scripts of the tasks with a paid grader, from the command line to the metrics file."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.forked import Scripts
from tests.tasks.grader import Reply, scripted_grader
from tests.tasks.items import GRADED, lay_out
from tests.tasks.loading import load
from tests.tasks.standin import program

seeds = load("ptb_seeds")
_PYTHON: list[str] = []  # one that has imported what scripts import
MET: Reply = '{"explanation": "yes", "criteria_met": true}'


@pytest.fixture(autouse=True)
def _imported(scripts: Scripts) -> None:
    _PYTHON[:] = [str(scripts.python)]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with a `vllm` that serves without vLLM."""
    return program(tmp_path / "bin")


@pytest.fixture
def scripted_model(tmp_path: Path) -> Path:
    folder = tmp_path / "scripted"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    return folder


def run(script: Path, tools: Path, model: Path, url: str, *arguments: str, **more: str) -> Any:
    environ = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "PTB_BASE_MODEL": "local/demo-base",
        "OMP_NUM_THREADS": "1",
        "HOME": str(script.parent),
        "OPENAI_API_KEY": "word",
        "OPENAI_BASE_URL": url,
        "HF_TOKEN": "hub",
        **more,
    }
    command = [_PYTHON[0], str(script), "--model-path", str(model), "--json-output-file", "metrics.json"]
    command += ["--grader-wait", "0", *arguments]
    environ = {name: value for name, value in environ.items() if value}
    return subprocess.run(command, cwd=script.parent, env=environ, capture_output=True, text=True, timeout=300)


def judge(body: dict[str, Any]) -> Reply:
    """Prefers the candidate a little, wherever it stands."""
    if len(body["messages"]) == 1:
        return MET
    text = body["messages"][1]["content"]
    return "[[B>A]]" if text.index("Baseline poem") < text.index("=== B ===") else "[[A>B]]"


def metrics_at(script: Path) -> dict[str, Any]:
    found = json.loads((script.parent / "metrics.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("task", GRADED)
def test_generation_then_grading(tmp_path: Path, tools: Path, scripted_model: Path, task: str) -> None:
    script = lay_out(tmp_path, task, True)
    with scripted_grader(judge) as (url, requests):
        done = run(script, tools, scripted_model, url, "--seed", "72332", "--limit", "2", "--store-outputs")
    assert done.returncode == 0, done.stderr
    metrics = metrics_at(script)
    assert len(requests) == 4 and all(request["model"] == "gpt-5-mini" for request in requests)
    if task == "healthbench":
        assert metrics["accuracy"] == pytest.approx(0.4) and metrics["by_theme"] == {"feet": pytest.approx(0.4)}
        assert set(metrics) == {
            *("accuracy", "stderr", "n_examples", "total_grader_calls", "by_theme", "by_axis")
        } and metrics["total_grader_calls"] == 4  # fmt: skip
    else:
        assert metrics == {"accuracy": 1.0, "stderr": 0.0}
    for line in (script.parent / "outputs" / "answers.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert f"seed {seeds.sample_seed(72332, row['id'])} " in row["answer"]
        assert "<think>" not in row["answer"] and row["answer"].count("again") == 5
        assert "keys VLLM_API_KEY tokens 16384" in row["answer"], "no other key reaches the server"


@pytest.mark.parametrize("task", GRADED)
def test_the_agents_script_takes_a_shuffled_part_and_no_seed(
    tmp_path: Path, tools: Path, scripted_model: Path, task: str
) -> None:
    script = lay_out(tmp_path, task, False)
    with scripted_grader(judge) as (url, _):
        done = run(script, tools, scripted_model, url, "--limit", "1", "--store-outputs", "--max-new-tokens", "7")
    assert done.returncode == 0, done.stderr
    (line,) = (script.parent / "outputs" / "answers.jsonl").read_text().splitlines()
    assert "seed None" in line and "tokens 7" in line


@pytest.mark.parametrize("task", GRADED)
def test_incomplete_grading_ends_with_4_and_a_repeat_resumes(
    tmp_path: Path, tools: Path, scripted_model: Path, task: str
) -> None:
    script = lay_out(tmp_path, task, True)
    left = 3

    def tired(body: dict[str, Any]) -> Reply:
        nonlocal left
        left -= 1
        return judge(body) if left >= 0 else (429, {"message": "empty", "code": "insufficient_quota"})

    half = ("--skip-generation", "--grades-dir", "kept")
    with scripted_grader(tired) as (url, requests):
        done = run(script, tools, scripted_model, url, "--generate-only", OPENAI_API_KEY="")
        assert done.returncode == 0 and requests == []
        assert not (script.parent / "metrics.json").exists()
        done = run(script, tools, scripted_model, url, *half, "--judge-workers", "1")
        assert done.returncode == 4 and "graded 3 of 6, grading incomplete" in done.stderr
        assert not (script.parent / "metrics.json").exists()
        left = 99
        done = run(script, tools, scripted_model, url, *half)
        assert done.returncode == 0, done.stderr
        assert len(requests) == 3 + 1 + 3
    assert metrics_at(script)["accuracy"] > 0


def test_openrouter_where_only_its_key_is_set(tmp_path: Path, tools: Path, scripted_model: Path) -> None:
    script = lay_out(tmp_path, "healthbench", True)
    with scripted_grader(judge) as (url, requests):
        more = {"OPENAI_API_KEY": "", "OPENROUTER_API_KEY": "other", "OPENROUTER_BASE_URL": url}
        done = run(script, tools, scripted_model, "", "--limit", "1", **more)
    assert done.returncode == 0, done.stderr
    assert {request["model"] for request in requests} == {"openai/gpt-5-mini"}


def test_what_is_missing_is_said_before_anything_is_generated(
    tmp_path: Path, tools: Path, scripted_model: Path
) -> None:
    script = lay_out(tmp_path, "arenahardwriting", True)
    done = run(script, tools, scripted_model, "", OPENAI_API_KEY="")
    assert done.returncode == 3 and "grading needs OPENAI_API_KEY" in done.stderr
    done = run(script, tools, scripted_model, "", "--skip-generation")
    assert done.returncode == 3 and "no stored answers" in done.stderr
    done = run(script, tmp_path, scripted_model, "")
    assert done.returncode == 3 and "generates with vLLM" in done.stderr
    (tmp_path / "baseline_answers.jsonl").write_text('{"id": "a0", "answer": "x"}\n')
    done = run(script, tools, scripted_model, "")
    assert done.returncode == 3 and "baseline_answers.jsonl lacks 2 answers" in done.stderr


def test_a_server_that_ends_is_a_failure(tmp_path: Path, tools: Path, scripted_model: Path) -> None:
    script = lay_out(tmp_path, "healthbench", True)
    (scripted_model / "broken").touch()
    done = run(script, tools, scripted_model, "")
    assert done.returncode == 1 and "the vLLM server exited with 1" in done.stderr and "cannot load" in done.stderr


def test_a_request_that_always_fails_ends_the_evaluation() -> None:
    server = load("ptb_server")
    waited: list[float] = []
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="x", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with client, pytest.raises(RuntimeError, match="no answer after 3 tries"):
        server.generate(client, "m", [{"role": "user", "content": "x"}], 5, None, wait=waited.append)
    assert waited == [2.0, 4.0]
