"""Time to list a thousand runs: `python -m benchmarks.runs [N]`, from the root of the repository.

Makes a temporary results root, half ours with six steps, half as the original scripts leave them, and prints how long
a scan takes without index, with the index read from disk, and when asked again; then whole processes, with their
ratio to `python -c pass`, the best of several.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ptb_tui.core.layout import Root
from ptb_tui.results.store import RunStore
from tests.results.trees import MODELS, foreign_run, own_run, settle

REPEATS = 5
TASKS = ("aime2025", "arenahardwriting", "gpqamain", "gsm8k", "healthbench", "humaneval")
SCAN = """
import sys
from pathlib import Path
from ptb_tui.core.layout import Root
from ptb_tui.results.store import row_values, scan
assert len([row_values(run) for run in scan(Root(Path(sys.argv[1])))]) == int(sys.argv[2])
"""


def make(root: Root, count: int) -> None:
    """Write `count` ended runs."""
    for number in range(count // 2):
        own_run(root, 1_800_000_000 + number, experiment=f"_run{number % 20}")
        task, model = TASKS[number % len(TASKS)], MODELS[number // len(TASKS) % len(MODELS)]
        method = f"codex_gpt-5.{number % 20}_10h"
        foreign_run(root, method, task, model, 17_500_000 + number, started="2026-08-01T10:00:00Z")
    settle(root.path)


def best(action: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def process(*argv: str, env: dict[str, str]) -> float:
    """Seconds of the fastest run of a Python process."""
    return best(lambda: subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL, env=env))


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        root = Root(Path(folder) / "results")
        root.ptb.mkdir(parents=True)
        make(root, count)
        cold = best(lambda: RunStore(root, use_cache=False).scan(), 2)
        RunStore(root).scan()
        warm = best(lambda: RunStore(root).scan())
        store = RunStore(root)
        store.scan()
        again = best(store.scan)
        size = (root.own("cache") / "runs.json").stat().st_size
        print(f"scan of {count} runs, no index          {cold:8.3f} s")
        print(f"scan of {count} runs, index from disk   {warm:8.3f} s   index {size / 1e6:.1f} MB")
        print(f"scan of {count} runs, asked again       {again:8.3f} s")
        env = {**os.environ, "POST_TRAIN_BENCH_RESULTS_DIR": str(root.path)}
        base = process("-c", "pass", env=env)
        print(f"python -c pass                       {base:8.3f} s")
        programs: dict[str, tuple[str, ...]] = {}
        programs["scan and rows in a fresh process"] = ("-c", SCAN, str(root.path), str(count // 2 * 2))
        if importlib.util.find_spec("ptb_tui.__main__") is not None:
            programs["ptb-tui --help"] = ("-m", "ptb_tui", "--help")
            programs["ptb-tui runs --json"] = ("-m", "ptb_tui", "runs", "--json")
        for name, argv in programs.items():
            try:
                seconds = process(*argv, env=env)
            except subprocess.CalledProcessError as error:
                print(f"{name:36s} ended with {error.returncode}")
            else:
                print(f"{name:36s} {seconds:8.3f} s   {seconds / base:.1f} x")


if __name__ == "__main__":
    main()
