"""Time and memory of `collect` over ten thousand runs: `python -m benchmarks.collect [N]`, in the repository.

Makes a temporary tree of runs as the original scripts leave them, four files each, and compares three programs, each a
process of its own, best of several: `plain`, a single pass of the standard library alone that reads the same files and
writes the same tables of the original (below); `collect` with nothing kept from before; `collect` when nothing changed.
Seconds are of processor time (user and system), which other processes disturb least, and of the clock; the time to
start Python and import is shown by itself and is not part of the ratios. Memory is the most that the process held.
"""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from tests.results.trees import MODELS, verdict_text

REPEATS = 3
TASKS = ("aime2025", "arenahardwriting", "gpqamain", "gsm8k", "healthbench", "humaneval")
CELLS = len(TASKS) * len(MODELS)
VOTES = "judgement_multi_runs"
TIME = re.compile(r"([0-9]+):([0-5]?[0-9]):([0-5]?[0-9])")
BASELINES = {model.rpartition("/")[2]: dict.fromkeys(TASKS, 0.1) for model in MODELS}


def _words(number: int, what: str) -> str:
    """A justification of usual length that no other run has."""
    return (
        f"Run {number}: the last training step reads train_{number % 977}.jsonl, which prepare.py wrote from the "
        f"training split {number % 13} times. {what} The trace shows {number % 389} commands; the scripts were opened, "
        f"and sample {number * 7919 % 100_003} was compared by hand."
    )


def make(root: Path, count: int) -> None:
    """Write `count` runs of four files each, old enough to be kept in the index; one in forty is flagged."""
    for number in range(count):
        task, model = TASKS[number % len(TASKS)], MODELS[number // len(TASKS) % len(MODELS)]
        folder = root / f"codex_gpt-{number // CELLS}_10h" / f"{task}_{model.replace('/', '_')}_{17_000_000 + number}"
        folder.mkdir(parents=True)
        flags, what = (
            ((), "No test item was found in the data.") if number % 40 else (("contamination",), "It is keyed.")
        )
        texts = {
            "metrics.json": json.dumps({"accuracy": number % 97 / 100, "stderr": 0.01}),
            "time_taken.txt": f"{number % 10:02d}:{number % 60:02d}:12\n",
            "judgement_gpt5_4.json": verdict_text("data_contamination_judge", flags, _words(number, what)),
            "judgement_api.json": verdict_text("api_usage_judge", why=_words(number, "No hosted model was called.")),
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
            os.utime(folder / name, (1.7e9, 1.7e9))
        os.utime(folder, (1.7e9, 1.7e9))


def _flag(value: dict[str, object], name: str) -> bool:
    flag = value[name]
    if not isinstance(flag, bool):
        raise TypeError(name)
    return flag


def _load(folder: str, name: str) -> dict[str, object]:
    with open(os.path.join(folder, name)) as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError(name)
    return value


def _contamination(folder: str, names: set[str]) -> dict[str, object]:
    """The verdict in force: manual, majority of three, rerun, inline (E §4.3)."""
    if "judgement_gpt5_4_manual.json" in names:
        return _load(folder, "judgement_gpt5_4_manual.json")
    first = "judgement_gpt5_4_rerun.json" if "judgement_gpt5_4_rerun.json" in names else "judgement_gpt5_4.json"
    value = _load(folder, first)
    if VOTES in names and {f"judgement_gpt5_4_run{n}.json" for n in (2, 3)} <= set(os.listdir(f"{folder}/{VOTES}")):
        votes = [value, *(_load(folder, f"{VOTES}/judgement_gpt5_4_run{n}.json") for n in (2, 3))]
        flags = ("contamination", "disallowed_model")
        return {name: sum(_flag(vote, name) for vote in votes) > 1 for name in flags}
    return value


def _plain_run(folder: str, run_id: int) -> tuple[float, str, int]:
    """Accuracy, letters and seconds of one run. KeyError, TypeError, ValueError or OSError for a broken one."""
    names = set(os.listdir(folder))
    accuracy = _load(folder, "metrics.json")["accuracy"]
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float):
        raise TypeError("accuracy")
    contamination = _contamination(folder, names)
    api = _load(folder, "judgement_api_rerun.json" if "judgement_api_rerun.json" in names else "judgement_api.json")
    if run_id >= 17_400_000 and _flag(_load(folder, "judgement_ptb_lookup.json"), "disallowed_ptb_lookup"):
        raise RuntimeError(folder)
    letters = ("M" if _flag(contamination, "disallowed_model") else "") + (
        "C" if _flag(contamination, "contamination") else "") + (
        "A" if _flag(api, "disallowed_api_usage") else "")  # fmt: skip
    with open(os.path.join(folder, "time_taken.txt")) as file:
        match = TIME.fullmatch(file.read().strip())
    if match is None:
        raise ValueError("time_taken.txt")
    hours, minutes, seconds = map(int, match.groups())
    return float(accuracy), letters, hours * 3600 + minutes * 60 + seconds


def _write(path: str, rows: Iterable[Sequence[object]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def plain(root: str) -> None:
    """The yardstick: one pass over the tree with the rules of the original (E §4.3, §5.2 to §5.6), as one would write
    it who wants no more. It lists every run and reads its files, names the verdict in force, and writes the tables."""
    out = os.path.join(root, "_plain")
    os.makedirs(out, exist_ok=True)
    overview: list[Sequence[object]] = []
    scores: list[Sequence[object]] = []
    for method in sorted(os.listdir(root)):
        if method.startswith("_") or not os.path.isdir(os.path.join(root, method)):
            continue
        latest: dict[tuple[str, str], tuple[int, str]] = {}
        for name in os.listdir(os.path.join(root, method)):
            task, _, model, number = name.split("_")
            if latest.get((task, model), (-1, ""))[0] < int(number):
                latest[task, model] = int(number), os.path.join(root, method, name)
        tasks, models = sorted({task for task, _ in latest}), sorted({model for _, model in latest})
        values: dict[tuple[str, str], float] = {}
        letters: dict[tuple[str, str], str] = {}
        times = []
        for (task, model), (run_id, folder) in latest.items():
            try:
                accuracy, found, seconds = _plain_run(folder, run_id)
            except (OSError, ValueError, KeyError, TypeError) as error:
                print(f"{folder}: {error}")
                continue
            times.append(seconds)
            letters[task, model] = found
            values[task, model] = BASELINES[model][task] if found else accuracy
        for task, model in ((task, model) for task in tasks for model in models if (task, model) not in values):
            values[task, model] = BASELINES[model][task]
        for kind, table in (("final", values), ("contamination", letters)):
            rows = [[model, *(table.get((task, model), "") for task in tasks)] for model in models]
            _write(os.path.join(out, f"{kind}_{method}.csv"), [["model", *tasks], *rows])
        if len(models) == len(MODELS) and len(tasks) == len(TASKS):
            means = [sum(values[task, model] for model in models) / len(models) for task in tasks]
            scores.append([method, sum(means) / len(means)])
        mean = int(sum(times) / len(times)) if times else 0
        overview.append([method, f"{mean // 3600}:{mean // 60 % 60:02d}:{mean % 60:02d}", f"{mean / 360:.1f}%"])
    _write(os.path.join(out, "time_overview.csv"), [["method", "average_time", "percentage"], *overview])
    _write(os.path.join(out, "single_metrics.csv"), [["method", "metric"], *scores])


def ours(root: str) -> Callable[[], object]:
    """What `ptb-tui collect --policy upstream` does, once all is imported."""
    from ptb_tui.core.action import Collect
    from ptb_tui.core.settings import load
    from ptb_tui.results import quick, reading, tables  # noqa: F401  what `collect` imports as it goes
    from ptb_tui.site import scoring
    from ptb_tui.site.local import LocalSite

    site = LocalSite(load(results=Path(root), cwd=Path(root), environ={"HOME": root}), Path(root))
    return partial(scoring.collect, site, Collect(protocol="1.2", policy="upstream"))


def child(kind: str, root: str) -> None:
    """One measurement, printed: processor seconds, seconds of the clock, start and imports, MB."""
    work = ours(root) if kind == "ours" else partial(plain, root)
    started, wall = _spent(), time.perf_counter()
    work()
    wall = time.perf_counter() - wall
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps([_spent() - started, wall, started, memory]))


def _spent() -> float:
    """Processor seconds of this process and of those that it waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def measure(root: Path) -> dict[str, list[float]]:
    """The best of several runs, figure by figure; in turns, so that other processes disturb all alike."""
    found: dict[str, list[list[float]]] = {"plain": [], "fresh": [], "again": []}
    for _ in range(REPEATS):
        for name in ("_ptb/cache", "_aggregated", "_plain"):
            shutil.rmtree(root / name, ignore_errors=True)
        for kind, rows in found.items():
            argv = [sys.executable, "-m", "benchmarks.collect", "plain" if kind == "plain" else "ours", str(root)]
            rows.append(json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout))
    return {kind: [min(column) for column in zip(*rows, strict=True)] for kind, rows in found.items()}


def main() -> None:
    """Print the figures."""
    if len(sys.argv) == 3:
        child(*sys.argv[1:])
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "results"
        (root / "_ptb").mkdir(parents=True)
        make(root, count)
        best = measure(root)
    print(f"collect of {count} runs of four files      processor   ratio     clock   ratio   imports    memory")
    for name, kind in (
        ("plain single pass", "plain"),
        ("collect, nothing kept", "fresh"),
        ("collect, no change", "again"),
    ):
        seconds, wall, begun, memory = best[kind]
        ratios = seconds / best["plain"][0], wall / best["plain"][1]
        print(
            f"{name:36s} {seconds:8.3f} s {ratios[0]:6.2f}x {wall:8.3f} s {ratios[1]:6.2f}x {begun:8.3f} s "
            f"{memory:6.0f} MB"
        )


if __name__ == "__main__":
    main()
