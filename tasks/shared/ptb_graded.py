"""An evaluation script of a task with a paid grader: generate with vLLM, then grade through the `openai` package.

A script calls `main(GradedSpec(...))`. Exit codes: 0 measured · 1 generation did not finish · 2 command line · 3
something it needs is missing (items, template, model, vLLM, key) · 4 grading is incomplete. The metrics file is written
only with exit code 0.

`--generate-only` and `--skip-generation` split the two halves, so that the organiser can keep keys and network away
from the model, and the model away from the grader.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ptb_eval import FAILED, MEASURED, MISSING, limit_of
from ptb_grading import Grader, GradingIncomplete, endpoint, warn
from ptb_items import InputMissing, load_items, read
from ptb_metrics import write_metrics
from ptb_model import check_model, vllm_works
from ptb_replies import answer_of
from ptb_seeds import sample_seed
from ptb_server import generate, read_answers, serving
from ptb_templates import TemplateUnknown, template_name, template_path

INCOMPLETE = 4
REGRADED = "regraded.json"
_ORDER = 42


@dataclass(frozen=True)
class GradedSpec:
    """One benchmark as a script declares it.

    `messages(item)` is the conversation sent to the model; `grade(items, answers, grader, args)` returns the metrics
    and may raise GradingIncomplete; answers are by id. `check(items, task_dir)` returns the items with whatever else
    they need, or raises InputMissing. `first_wait` are the seconds after the grader's first failure. `coverage` is the
    share of items that must get all their grades; the others are left out.
    """

    name: str
    description: str
    task_dir: Path
    messages: Callable[[Dict[str, Any]], List[Dict[str, str]]]
    grade: Callable[[List[Dict[str, Any]], Dict[str, str], Grader, argparse.Namespace], Dict[str, Any]]
    check: Callable[[List[Dict[str, Any]], Path], List[Dict[str, Any]]]
    max_new_tokens: int
    first_wait: float
    limit: int = -1
    coverage: float = 1.0
    final: bool = False
    fields: Sequence[str] = ("id",)


def parse_args(spec: GradedSpec, argv: Optional[List[str]] = None) -> argparse.Namespace:
    """The common command line (E §1.4)."""
    parser = argparse.ArgumentParser(description=spec.description, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--model-path", default="final_model", help="model directory or hub id (default final_model)")
    add("--limit", type=limit_of, default=spec.limit, help="N items only (default {}); -1: all".format(spec.limit))
    add("--max-new-tokens", type=int, default=spec.max_new_tokens)
    add("--json-output-file", help="where the metrics go; nothing is written without it")
    add("--templates-dir", default="templates/", help="folder of the chat templates")
    add("--judge-workers", type=int, default=64, help="requests to the grader at a time")
    add("--store-outputs", action="store_true", help="keep answers and grades in --outputs-dir")
    add("--outputs-dir", default="outputs", help="folder of stored answers and grades")
    add("--grades-dir", help="folder of usable replies of the grader; a repeat does not ask for them again")
    add("--regrade", type=int, default=0, help="grade N items twice, to see how far the grader agrees with itself")
    add("--grader-wait", type=float, default=spec.first_wait, help="seconds after the grader's first failure")
    add("--coverage", type=share_of, default=spec.coverage, help="share of items that must get all their grades")
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--generate-only", action="store_true", help="store the answers and stop before grading")
    half.add_argument("--skip-generation", action="store_true", help="grade the stored answers")
    if spec.final:
        add("--seed", type=int, help="seed of the run; every item gets its own from it")
    return parser.parse_args(argv)


def share_of(text: str) -> float:
    """A share: above 0, at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError("{} is no share between 0 and 1".format(text))
    return number


def chosen(items: List[Dict[str, Any]], limit: int) -> List[Dict[str, Any]]:
    """The items of an evaluation: always the same order, then the first `limit`."""
    ordered = list(items)
    random.Random(_ORDER).shuffle(ordered)
    return ordered if limit < 0 else ordered[:limit]


def store(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, so that a reader sees all of them or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=str(path.parent), prefix=".new")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(name, str(path))


def generated(spec: GradedSpec, args: argparse.Namespace, items: List[Dict[str, Any]]) -> Dict[str, str]:
    """Answers of the model, one request after the other. Raises InputMissing, TemplateUnknown or RuntimeError."""
    check_model(args.model_path)
    template = template_path(template_name(args.model_path, os.environ), args.templates_dir, spec.task_dir)
    if not vllm_works():
        raise InputMissing("this task generates with vLLM, which does not start here")
    run_seed = getattr(args, "seed", None)
    answers = {}
    with serving(args.model_path, template) as client:
        for number, item in enumerate(items, 1):
            seed = None if run_seed is None else sample_seed(run_seed, item["id"])
            text = generate(client, args.model_path, spec.messages(item), args.max_new_tokens, seed)
            answers[str(item["id"])] = answer_of(text)
            print("answer {} of {}".format(number, len(items)), file=sys.stderr, flush=True)
    return answers


def evaluate(spec: GradedSpec, args: argparse.Namespace) -> Optional[Dict[str, Any]]:
    """Run the evaluation; None when only the answers were wanted. Raises as `generated`, and GradingIncomplete."""
    stored = Path(args.outputs_dir) / "answers.jsonl"
    items = chosen(spec.check(load_items(spec.task_dir, "items.jsonl", spec.fields), spec.task_dir), args.limit)
    where = None if args.generate_only else endpoint(os.environ)
    if args.skip_generation:
        if not stored.is_file():
            raise InputMissing("no stored answers at {}".format(stored))
        answers = read_answers(read(stored, ("id", "answer")))
        missing = [str(item["id"]) for item in items if str(item["id"]) not in answers]
        if missing:
            raise InputMissing("{} lacks {} answers, first {}".format(stored, len(missing), missing[0]))
    else:
        answers = generated(spec, args, items)
        if args.store_outputs or args.generate_only:
            store(stored, [{"id": item["id"], "answer": answers[str(item["id"])]} for item in items])
    if where is None:
        return None
    kept = args.grades_dir or (os.path.join(args.outputs_dir, "grades") if args.store_outputs else "")
    grader = Grader(where, Path(kept) if kept else None, args.judge_workers)
    try:
        metrics = spec.grade(items, answers, grader, args)
        if args.regrade > 0:
            compare(spec, items[: args.regrade], answers, grader, args)
        return metrics
    finally:
        grader.close()


def compare(
    spec: GradedSpec, items: List[Dict[str, Any]], answers: Dict[str, str], grader: Grader, args: argparse.Namespace
) -> None:
    """Grade some items again and keep both accuracies in `regraded.json` beside the replies. The score is not touched,
    also when the grader does not answer."""
    place = grader.cache / REGRADED if grader.cache is not None else None
    if place is not None and place.is_file():
        return
    try:
        first = spec.grade(items, answers, grader, args)["accuracy"]
        again = spec.grade(items, answers, grader.afresh(), args)["accuracy"]
    except GradingIncomplete as error:
        warn("not graded twice: {}".format(error))
        return
    warn("graded twice, {} items: accuracy {:.4f}, then {:.4f}".format(len(items), first, again))
    if place is not None:
        store(place, [{"items": len(items), "first": first, "again": again}])


def main(spec: GradedSpec, argv: Optional[List[str]] = None) -> int:
    """Evaluate as the command line says; returns the exit code."""
    args = parse_args(spec, argv)
    try:
        metrics = evaluate(spec, args)
    except (InputMissing, TemplateUnknown) as error:
        print("{}: {}".format(spec.name, error), file=sys.stderr)
        return MISSING
    except GradingIncomplete as error:
        print("{}: {}".format(spec.name, error), file=sys.stderr)
        return INCOMPLETE
    except (RuntimeError, OSError, ValueError) as error:
        print("{}: {}: {}".format(spec.name, type(error).__name__, error), file=sys.stderr)
        return FAILED
    if metrics is None:
        return MEASURED
    if args.json_output_file:
        write_metrics(Path(args.json_output_file), metrics)
    print(json.dumps(metrics))
    return MEASURED
