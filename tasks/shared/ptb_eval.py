"""An evaluation script of an inspect task: its command line, one evaluation, its metrics file, its exit code.

A script calls `main(TaskSpec(...))`. Exit codes: 0 measured · 1 the evaluation did not finish, or not with every
sample · 2 command line · 3 something it needs is missing (test items, template, model). The metrics file is written
only with exit code 0.
"""

import argparse
import importlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from ptb_items import InputMissing, load_items
from ptb_metrics import metrics_of, write_metrics
from ptb_model import check_model, model_for
from ptb_solvers import seeded
from ptb_templates import TemplateUnknown, template_name, template_path, tool_parser

NO_TIMEOUT_S = 18_000_000
MEASURED, FAILED, MISSING = 0, 1, 3


@dataclass(frozen=True)
class Parts:
    """What a task is made of in inspect's terms; without solvers the question is sent as it is."""

    dataset: Any
    scorer: Any
    solvers: Sequence[Any] = ()


@dataclass(frozen=True)
class TaskSpec:
    """One benchmark as a script declares it.

    `build(items, args)` returns the Parts for the items of `items_file`, each of which has `fields`; it is called
    after the environment is set, so that it may import inspect. `final` adds `--seed`. `tools`: the model is offered
    functions, which takes another template for some families and a parser of calls.
    """

    name: str
    description: str
    task_dir: Path
    build: Callable[[List[Dict[str, Any]], argparse.Namespace], Parts]
    max_tokens: int
    max_connections: int
    gpu_memory_utilization: float
    limit: Optional[int] = None
    final: bool = False
    tools: bool = False
    items_file: str = "items.jsonl"
    fields: Sequence[str] = ("id", "question", "target")


def limit_of(text: str) -> int:
    """A number of items: positive, or -1 for all."""
    number = int(text)
    if number < 1 and number != -1:
        raise argparse.ArgumentTypeError("{} leaves nothing to evaluate; -1 is all items".format(text))
    return number


def parse_args(spec: TaskSpec, argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The common command line (E §1.4)."""
    parser = argparse.ArgumentParser(description=spec.description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model-path", default="final_model", help="model directory or hub id (default final_model)")
    parser.add_argument("--limit", type=limit_of, default=spec.limit, help="first N items only; -1: all")
    parser.add_argument("--max-tokens", type=int, default=spec.max_tokens)
    parser.add_argument("--json-output-file", help="where the metrics go; nothing is written without it")
    parser.add_argument("--max-connections", type=int, default=spec.max_connections)
    parser.add_argument("--gpu-memory-utilization", type=float, default=spec.gpu_memory_utilization)
    parser.add_argument("--templates-dir", default="templates/", help="folder of the chat templates")
    if spec.final:
        parser.add_argument("--seed", type=int, help="seed of the run; every sample gets its own from it")
    return parser.parse_args(argv)


def evaluate(spec: TaskSpec, args: argparse.Namespace, model: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Run the evaluation and return its metrics. Raises InputMissing, TemplateUnknown or RuntimeError.

    `model` replaces the model arguments of inspect's `eval`, for callers that bring a model of their own.
    """
    items = load_items(spec.task_dir, spec.items_file, spec.fields)
    if model is None:
        check_model(args.model_path)
        name = template_name(args.model_path, os.environ, spec.tools)
        template = template_path(name, args.templates_dir, spec.task_dir)
        model = model_for(args, template, tool_parser(args.model_path, os.environ) if spec.tools else "")
    limit = None if args.limit is None or args.limit < 0 else args.limit

    inspect = importlib.import_module("inspect_ai")
    solver = importlib.import_module("inspect_ai.solver")
    parts = spec.build(items, args)
    solve = seeded(list(parts.solvers) or [solver.generate()], getattr(args, "seed", None))
    logs = inspect.eval(
        inspect.Task(name=spec.name, dataset=parts.dataset, solver=solve, scorer=parts.scorer),
        limit=limit,
        max_tokens=args.max_tokens,
        max_connections=args.max_connections,
        timeout=NO_TIMEOUT_S,
        attempt_timeout=NO_TIMEOUT_S,
        score_display=False,
        display="plain",
        log_realtime=False,
        log_format="json",
        **model,
    )
    count = len(parts.dataset)
    return metrics_of(logs, count if limit is None else min(limit, count))


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
