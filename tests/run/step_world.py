"""A results root with one ended run and a content folder with a stand-in task whose evaluator does as it is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptb_tui.content.fingerprint import reference
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core import files
from ptb_tui.run.steps import evaluate
from tests.evaluation.models import model

REPOSITORY = Path(__file__).parents[2]

# Behaves as `plan.json` in the model folder says for this call: one entry a call of the seed.
EVALUATOR = """
import argparse, json, os, subprocess, sys, time
p = argparse.ArgumentParser()
p.add_argument("--model-path"); p.add_argument("--templates-dir"); p.add_argument("--limit", type=int)
p.add_argument("--seed", type=int); p.add_argument("--max-tokens", type=int, default=0)
p.add_argument("--json-output-file")
a = p.parse_args()
assert os.path.isfile("shared_part.py") and os.path.isfile(a.templates_dir + "t.jinja"), os.listdir(".")
assert json.load(open("../test_data.json")) and os.path.isfile(os.path.join(a.model_path, "config.json"))
seen = {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "home": sorted(os.listdir(".."))}
print("SEEN " + json.dumps(seen), flush=True)
plan = json.load(open(os.path.join(a.model_path, "plan.json")))
if plan.get("calls"):
    open(plan["calls"], "a").write("%d %d\\n" % (a.seed, a.max_tokens))
what = plan.get("%d:%d" % (a.seed, a.max_tokens), plan.get("*", "good"))
if what == "hang":
    time.sleep(600)
if what == "daemon":
    subprocess.Popen([sys.executable, "-c", plan["daemon"]], start_new_session=True)
    what = "good"
if what == "planted":
    print("PLANTED")
    open("metrics.json", "w").write('{"accuracy": 1.0}')
    sys.exit(0)
if what == "channel":
    from pathlib import Path
    import ptb_metrics
    code = "import os, sys; print('CHILD has', sys.stdin.read() or os.environ.get('PTB_RESULT_FD') or 'nothing')"
    subprocess.run([sys.executable, "-c", code])
    ptb_metrics.write_metrics(Path(a.json_output_file), {"accuracy": 0.25, "stderr": 0.1, "limit": a.limit})
    sys.exit(0)
if what == "crash":
    print("Traceback (most recent call last):\\nRuntimeError: cannot serve at 0x%x" % id(a), file=sys.stderr)
    sys.exit(1)
metrics = {"accuracy": 0.5 + a.seed / 1000, "stderr": 0.1, "limit": a.limit} if what == "good" else what
os.makedirs("logs"); open("logs/log.json", "w").write("{}")
open(a.json_output_file, "w").write(metrics if isinstance(metrics, str) else json.dumps(metrics))
"""


@dataclass(frozen=True)
class World:
    """Paths of one run."""

    root: Path
    content: Path
    run_dir: Path
    scratch: Path

    @property
    def ptb(self) -> Path:
        return self.run_dir / ".ptb"

    def step(self, name: str, **spec: Any) -> Path:
        folder = self.ptb / "steps" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "step.json").write_text(json.dumps({"limit_s": 600, **spec}))
        return folder

    def start(self, program: str, folder: Path, **environ: str) -> subprocess.Popen[bytes]:
        code = f"import sys; from ptb_tui.run.steps.{program} import main; sys.exit(main(sys.argv[1:]))"
        argv = [sys.executable, "-c", code, str(self.ptb), str(folder), str(self.scratch)]
        paths = os.pathsep.join(
            (str(self.content), *filter(None, sys.path))
        )  # the bundle first: its content is what a step sees
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.scratch), "PYTHONPATH": paths}
        return subprocess.Popen(
            argv,
            cwd=self.scratch,
            env=environment | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, program: str, folder: Path, **environ: str) -> tuple[int, dict[str, Any], str]:
        """Exit status, result.json and what was printed."""
        if program == "evaluate" and not environ:
            printed = self.scratch.parent / "forked.log"
            before = printed.stat().st_size if printed.exists() else 0
            status = self.forked(folder)
            result = json.loads((folder / "result.json").read_text())
            return status, result, printed.read_bytes()[before:].decode()
        child = self.start(program, folder, **environ)
        out, _ = child.communicate(timeout=240)
        result = json.loads((folder / "result.json").read_text())
        return child.returncode, result, out.decode()

    def forked(self, folder: Path, *, writes: int = 0) -> int:
        """The exit status of an evaluation in a fork of this process, which saves the start of Python; it is killed
        before its write number `writes`, counted from 1."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of a test runner, which the child never needs
            child = os.fork()
        if child == 0:
            status = 99
            try:
                with open(self.scratch.parent / "forked.log", "ab") as log:
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
                sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - as long as the fork
                os.environ.update(HOME=str(self.scratch))
                setattr(Content, "of", lambda paths=(): Content((self.content,)))  # noqa: B010 - of a fork alone
                setattr(files, "replace", _dying(files.replace, writes))  # noqa: B010
                status = evaluate.main([str(self.ptb), str(folder), str(self.scratch)])
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run_dir / "metrics.json").read_text())
        return found

    def seen(self, seed: int, n: int = 1, output: str = "evaluation") -> dict[str, Any]:
        """What the evaluator saw in an attempt."""
        log = (self.run_dir / output / f"final_eval_seed{seed}_{n}.txt").read_text()
        line = next(line for line in log.splitlines() if line.startswith("SEEN "))
        found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
        return found


def _dying(write: Callable[..., None], at: int) -> Callable[..., None]:
    left = at

    def wrapped(*arguments: Any, **more: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments, **more)

    return wrapped


def write(folder: Path, content: dict[str, str]) -> None:
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def reference_of(content: Path, protocol: str, task: str) -> dict[str, Any]:
    """Which benchmark a run of this content is of."""
    found = Content((content,))
    return reference(found, load_protocol(found, protocol), load_task(found, task)).model_dump()


def build(tmp: Path, *, plan: dict[str, Any] | None = None, sandbox: str = "process", final: str = "") -> World:
    """A world whose model makes the evaluator follow `plan`; `final` are lines for `[final]` of the task."""
    root, content = tmp / "results", tmp / "content"
    run_dir = root / "quitter_none_0.1h" / "stand_local_base_7"
    world = World(root, content, run_dir, tmp / "scratch")
    world.scratch.mkdir(parents=True)
    for name in ("ptb_tui", "agents", "containers", "judges", "tasks"):
        shutil.copytree(REPOSITORY / name, content / name, ignore=shutil.ignore_patterns("__pycache__"))
    write(
        content,
        {
            "tasks/stand/info.json": '{"benchmark": "Stand-in"}',
            "tasks/stand/benchmark.txt": "Stand-in\n",
            "tasks/stand/evaluate.py": "",
            "tasks/stand/evaluate_final_eval.py": EVALUATOR,
            "tasks/stand/test_data.json": '[{"question": "What is 411 plus 238 minus 97?", "answer": "552"}]',
            "tasks/stand/task.toml": final and f"v = 1\n[final]\n{final}\n",
            "tasks/shared/shared_part.py": "",
            "tasks/templates/t.jinja": "{{ messages }}",
            "tasks/protocols/stand.toml": 'v = 1\nname = "stand"\ntasks = ["stand"]\nmodels = ["local/base"]\n'
            '[seeds]\nstand = [1, 2]\n[templates]\n"local/base" = "t.jinja"\n',
            "containers/models/base/config.json": '{"architectures": ["Qwen3ForCausalLM"]}',
        },
    )
    write(root, {"_ptb/site.toml": f'sandbox = "{sandbox}"\n'})
    spec = {
        "id": 7,
        "agent": "quitter",
        "config": "none",
        "benchmark": "stand",
        "base_model": "local/base",
        "hours": 0.1,
        "protocol": {"name": "stand", "fingerprint": "f"},
    }
    spec["protocol"] = reference_of(content, "stand", "stand")
    write(run_dir, {".ptb/spec.json": json.dumps(spec), "task/notes.md": "nothing"})
    if plan is not None:
        model(run_dir / "final_model", plan__json=json.dumps(plan).encode())
    return world
