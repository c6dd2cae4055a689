"""The scripts of the inspect tasks from the command line to the metrics file, on invented items."""

import gc
import importlib.util
import re
import subprocess
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.tasks.forked import Scripts
from tests.tasks.items import GRADED, INSPECT, ITEMS, lay_out
from tests.tasks.loading import TASKS, load

ptb_eval = load("ptb_eval", *(f"{name}/task_context" for name in INSPECT))
seeds = load("ptb_seeds")
FOLDERS = sorted([*INSPECT, *GRADED])


@pytest.fixture(autouse=True, scope="module")
def _inspect_leaves_streams_open() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("task", FOLDERS)
@pytest.mark.parametrize("final", [False, True])
def test_the_command_line(tmp_path: Path, scripts: Scripts, task: str, final: bool) -> None:
    path = lay_out(tmp_path, task, final)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return scripts.run(path, *arguments, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})

    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert ("--seed" in done.stdout) is final and "--model-path" in done.stdout
    assert run("--limit", "0").returncode == 2
    (tmp_path / "items.jsonl").write_text("")
    (path.parent / "final_model").mkdir()
    (path.parent / "final_model" / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    done = run("--json-output-file", "metrics.json", "--model-path", "final_model")
    assert done.returncode == 3 and "holds no items" in done.stderr, done.stderr
    (tmp_path / "items.jsonl").write_text('{"id": 1}\n')
    done = run("--model-path", "final_model")
    assert done.returncode == 3 and "lacks" in done.stderr
    (tmp_path / "items.jsonl").unlink()
    done = run("--model-path", "final_model")
    assert done.returncode == 3 and "items.jsonl not found" in done.stderr


@pytest.mark.parametrize("task", FOLDERS)
def test_defaults_are_those_of_the_task_file(task: str) -> None:
    table = tomllib.loads((TASKS / task / "task.toml").read_text())
    for name in ("evaluate.py", "evaluate_final_eval.py"):
        text = (TASKS / task / name).read_text()
        for key, value in table["evaluate"].items():
            assert f"    {key}={value},\n" in text
        limits = set(re.findall(r"^    limit=(.*),$", text, re.MULTILINE))
        dev = str(table.get("dev", {}).get("limit"))
        assert limits == {dev} if name == "evaluate.py" and dev != "None" else limits <= {"None", "-1"}
    key = "max_new_tokens" if task in GRADED else "max_tokens"
    assert table["final"]["ladder"][0] == {"max_tokens": table["evaluate"][key], "tries": 4}


@pytest.mark.parametrize("task", FOLDERS)
def test_sources_are_described(task: str) -> None:
    data = tomllib.loads((TASKS / task / "data.toml").read_text())
    table = tomllib.loads((TASKS / task / "task.toml").read_text())
    main = [source for source in data["sources"] if "use" not in source and source["kind"] != "generated"]
    assert [source["count"] for source in main] == [table["items"]]
    assert {"question", "answer"} == set(data["test_data"])
    wanted = set(ITEMS[task][0]) - {"use"}
    assert wanted == set(data["items"])


def output(content: str, calls: list[dict[str, Any]] | None = None) -> Any:
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput, ModelUsage
    from inspect_ai.tool import ToolCall

    made = [ToolCall(id="1", function=call["name"], arguments=call["arguments"]) for call in calls or []]
    message = ChatMessageAssistant(content=content, tool_calls=made or None)
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return ModelOutput(model="mock", choices=[ChatCompletionChoice(message=message)], usage=usage)


def measure(
    home: Path, task: str, final: bool, answer: Callable[..., Any], *arguments: str, seen: list[int] | None = None
) -> dict[str, Any]:
    """Metrics of a task with a scripted model: `answer(messages, tools)`; `seen` collects the seeds of the requests."""

    def reply(messages: list[Any], tools: list[Any], choice: Any, config: Any) -> Any:
        if seen is not None:
            seen.append(config.seed)
        return answer(messages, tools)

    module = script(lay_out(home, task, final))
    args = ptb_eval.parse_args(module.SPEC, list(arguments))
    model = {"model": "mockllm/model", "model_args": {"custom_outputs": reply}, "log_dir": str(home / "logs")}
    found = ptb_eval.evaluate(module.SPEC, args, model)
    assert isinstance(found, dict)
    return found


pytestmark = [pytest.mark.demo, pytest.mark.filterwarnings("ignore")]


def test_the_pipeline_of_the_specification_scores_two_of_five(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("711", "11"), (r"\boxed{11}", "11"), ("149", "49"), ("49", "49"), (".10.00.50", "50")]
    rows = [{"id": str(n), "question": f"Q{n}.", "target": target} for n, (_, target) in enumerate(pairs)]
    monkeypatch.setitem(ITEMS, "aime2025", rows)

    def answer(messages: list[Any], tools: list[Any]) -> Any:
        return output("ANSWER: " + next(said for n, (said, _) in enumerate(pairs) if f"Q{n}." in messages[-1].text))

    seen: list[int] = []
    metrics = measure(tmp_path, "aime2025", True, answer, "--seed", "72332", seen=seen)
    assert metrics["accuracy"] == pytest.approx(0.4) and set(metrics) == {"accuracy", "stderr"}
    assert sorted(seen) == sorted(seeds.sample_seed(72332, str(n)) for n in range(5))


@pytest.mark.parametrize("final", [False, True])
def test_gsm8k_shows_worked_examples_and_keeps_them_out_of_the_test(tmp_path: Path, final: bool) -> None:
    def answer(messages: list[Any], tools: list[Any]) -> Any:
        assert messages[0].role == "system" and "1+1=2" in messages[0].text and len(messages) == 2
        return output("ANSWER: 2")

    metrics = measure(tmp_path, "gsm8k", final, answer)
    assert metrics["accuracy"] == pytest.approx(1 / 3)


def test_gpqas_order_of_choices_is_the_seeds(tmp_path: Path) -> None:
    def right(messages: list[Any], tools: list[Any]) -> Any:
        prompts.append(messages[-1].text)
        line = next(line for line in messages[-1].text.splitlines() if ") right" in line)
        return output(f"ANSWER: {line[0]}")

    orders = []
    for number, seed in enumerate(("72332", "72332", "87681", "38992")):
        prompts: list[str] = []
        home = tmp_path / str(number)
        home.mkdir()
        assert measure(home, "gpqamain", True, right, "--seed", seed)["accuracy"] == 1.0
        orders.append(sorted(prompts))
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1
    home = tmp_path / "dev"
    home.mkdir()
    assert measure(home, "gpqamain", False, right)["accuracy"] == 1.0


def test_humaneval_in_both_forms(tmp_path: Path) -> None:
    def cheat(messages: list[Any], tools: list[Any]) -> Any:
        body = "    return 0\n" if "f0" in messages[-1].text else "    exit(0)\n"
        return output(f"```python\ndef f():\n{body}```")

    for final, expected in ((False, 1.0), (True, 0.5)):
        home = tmp_path / str(final)
        home.mkdir()
        assert measure(home, "humaneval", final, cheat)["accuracy"] == expected


def test_humaneval_without_an_answer_server_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PTB_ANSWER_SOCKET", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="cannot be reached"):
        measure(tmp_path, "humaneval", True, lambda *_: output("    return 0"))
    assert "[ptb] sandbox: no verdict" in capsys.readouterr().err


@pytest.mark.parametrize("final", [False, True])
def test_bfcl_offers_functions_and_counts_one_right_call(tmp_path: Path, final: bool) -> None:
    def answer(messages: list[Any], tools: list[Any]) -> Any:
        assert [tool.name for tool in tools] == ["math_add"]
        assert tools[0].parameters.properties["a"].type == "integer" and tools[0].parameters.required == ["a"]
        return output("", [{"name": "math_add", "arguments": {"a": 1}}])

    assert measure(tmp_path, "bfcl", final, answer) == {"accuracy": 0.5}


def test_a_solver_that_sets_a_seed_is_refused(tmp_path: Path) -> None:
    from inspect_ai.solver import generate

    module = script(lay_out(tmp_path, "aime2025", True))
    parts = module.SPEC.build(ITEMS["aime2025"], None)
    spec = ptb_eval.TaskSpec(
        **{
            **module.SPEC.__dict__,
            "build": lambda items, args: ptb_eval.Parts(parts.dataset, parts.scorer, [generate(seed=1)]),
        }
    )
    args = ptb_eval.parse_args(spec, ["--seed", "7"])
    model = {"model": "mockllm/model", "log_dir": str(tmp_path / "logs")}
    with pytest.raises(RuntimeError, match="sets the seed"):
        ptb_eval.evaluate(spec, args, model)
