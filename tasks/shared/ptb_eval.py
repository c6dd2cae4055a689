"""What the evaluation scripts of all tasks share: command line, model start, one inspect evaluation, metrics file.

A script calls `main(TaskSpec(...))`. Exit codes: 0 measured · 1 the evaluation did not finish, or not with every
sample · 2 command line · 3 something it needs is missing (test items, template, model). The metrics file is written
only with exit code 0.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from ptb_seeds import sample_seed
from ptb_templates import TemplateUnknown, template_name, template_path

NO_TIMEOUT_S = 18_000_000
MEASURED, FAILED, MISSING = 0, 1, 3


class InputMissing(Exception):
    """Test items or the model cannot be found or read."""


@dataclass(frozen=True)
class TaskSpec:
    """One benchmark as a script declares it.

    `build(items)` returns `(dataset, scorer)` of inspect for the items of `test_data.json`; it is called after the
    environment is set, so that it may import inspect. `final` adds `--seed`.
    """

    name: str
    description: str
    task_dir: Path
    build: Callable[[List[Dict[str, Any]]], Any]
    max_tokens: int
    max_connections: int
    gpu_memory_utilization: float
    limit: Optional[int] = None
    final: bool = False


def parse_args(spec: TaskSpec, argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The common command line (E §1.4)."""
    parser = argparse.ArgumentParser(description=spec.description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model-path", default="final_model", help="model directory or hub id (default final_model)")
    parser.add_argument("--limit", type=int, default=spec.limit, help="first N items only; -1 or absent: all")
    parser.add_argument("--max-tokens", type=int, default=spec.max_tokens)
    parser.add_argument("--json-output-file", help="where the metrics go; nothing is written without it")
    parser.add_argument("--max-connections", type=int, default=spec.max_connections)
    parser.add_argument("--gpu-memory-utilization", type=float, default=spec.gpu_memory_utilization)
    parser.add_argument("--templates-dir", default="templates/", help="folder of the chat templates")
    if spec.final:
        parser.add_argument("--seed", type=int, help="seed of the run; every sample gets its own from it")
    return parser.parse_args(argv)


def load_items(task_dir: Path) -> List[Dict[str, Any]]:
    """The test items: beside the script, one folder above, or where PTB_TEST_DATA says. Raises InputMissing."""
    places = [task_dir / "test_data.json", task_dir.parent / "test_data.json"]
    if os.environ.get("PTB_TEST_DATA"):
        places.append(Path(os.environ["PTB_TEST_DATA"]))
    for place in places:
        if place.is_file():
            try:
                items: List[Dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
            except ValueError as error:
                raise InputMissing("{} is not JSON: {}".format(place, error)) from error
            if not isinstance(items, list) or not items:
                raise InputMissing("{} holds no items".format(place))
            return items
    raise InputMissing("test_data.json not found in: " + ", ".join(str(place) for place in places))


def vllm_works() -> bool:
    """Whether vLLM can serve here. Importing it also succeeds on machines where it then cannot start."""
    if shutil.which("vllm") is None:
        return False
    try:
        done = subprocess.run(
            ["vllm", "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def model_for(args: argparse.Namespace, template: Path) -> Dict[str, Any]:
    """The model arguments of inspect's `eval`: vLLM where it works, else transformers on the CPU, greedy."""
    if vllm_works():
        margs: Dict[str, Any] = {
            "gpu_memory_utilization": args.gpu_memory_utilization,
            "chat_template": str(template),
            "host": "127.0.0.1",
        }
        return {"model": "vllm/" + args.model_path, "model_args": margs}
    # A fixed number of threads and full precision: the same model gives the same answers every time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    margs = {
        "model_path": args.model_path,
        "device": "cpu",
        "dtype": "float32",
        "do_sample": False,
        "chat_template": template.read_text(encoding="utf-8"),
    }
    return {"model": "hf/local", "model_args": margs}


def write_metrics(path: Path, metrics: Dict[str, Any]) -> None:
    """Write the flat metrics object so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=str(path.parent), prefix="." + path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(metrics, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def seeded(run_seed: Optional[int]) -> Any:
    """Inspect's `generate`, with an own seed for every sample where the run has one."""
    solver = importlib.import_module("inspect_ai.solver")
    if run_seed is None:
        return solver.generate()

    @solver.solver
    def generate_with_seed() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            return await generate(state, seed=sample_seed(run_seed, state.sample_id, state.epoch))

        return solve

    return generate_with_seed()


def evaluate(spec: TaskSpec, args: argparse.Namespace) -> Dict[str, Any]:
    """Run the evaluation and return its metrics. Raises InputMissing, TemplateUnknown or RuntimeError."""
    if os.path.isdir(args.model_path):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        if not os.path.isfile(os.path.join(args.model_path, "config.json")):
            raise InputMissing("{} holds no config.json".format(args.model_path))
    elif os.sep in args.model_path[:1] or args.model_path.startswith(".") or "/" not in args.model_path:
        raise InputMissing("no model directory {}".format(args.model_path))
    items = load_items(spec.task_dir)
    template = template_path(template_name(args.model_path, os.environ), args.templates_dir, spec.task_dir)
    limit = None if args.limit is None or args.limit < 0 else args.limit

    inspect = importlib.import_module("inspect_ai")
    dataset, scorer = spec.build(items)
    task = inspect.Task(name=spec.name, dataset=dataset, solver=[seeded(getattr(args, "seed", None))], scorer=scorer)
    logs = inspect.eval(
        task,
        limit=limit,
        max_tokens=args.max_tokens,
        max_connections=args.max_connections,
        timeout=NO_TIMEOUT_S,
        attempt_timeout=NO_TIMEOUT_S,
        score_display=False,
        display="plain",
        log_realtime=False,
        log_format="json",
        **model_for(args, template),
    )
    return metrics_of(logs, len(items) if limit is None else min(limit, len(items)))


def metrics_of(logs: List[Any], expected: int) -> Dict[str, Any]:
    """The metrics of exactly one successful log with one score over `expected` samples. Raises RuntimeError."""
    if len(logs) != 1 or logs[0].status != "success" or logs[0].results is None:
        error = logs[0].error.message if logs and logs[0].error else "no successful log"
        raise RuntimeError("evaluation did not succeed: {}".format(error))
    results = logs[0].results
    if results.completed_samples != expected or results.total_samples != expected:
        raise RuntimeError("{} of {} samples completed".format(results.completed_samples, expected))
    if len(results.scores) != 1:
        raise RuntimeError("expected one score, found {}".format(len(results.scores)))
    return {name: metric.value for name, metric in results.scores[0].metrics.items()}


def main(spec: TaskSpec, argv: Optional[List[str]] = None) -> int:
    """Evaluate as the command line says; returns the exit code."""
    args = parse_args(spec, argv)
    try:
        metrics = evaluate(spec, args)
    except (InputMissing, TemplateUnknown) as error:
        print("{}: {}".format(spec.name, error), file=sys.stderr)
        return MISSING
    except (RuntimeError, OSError, ValueError) as error:
        print("{}: {}: {}".format(spec.name, type(error).__name__, error), file=sys.stderr)
        return FAILED
    if args.json_output_file:
        write_metrics(Path(args.json_output_file), metrics)
    print(json.dumps(metrics))
    return MEASURED
