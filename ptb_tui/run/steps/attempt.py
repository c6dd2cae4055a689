"""One attempt of the final evaluation: a fresh home, the hidden script in the sandbox, its log, its metrics (E §1.7.4).

Everything the script printed, servers included, is in the log of the attempt (case C02). Whatever it leaves running
is ended with it (case C01).
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task
from ptb_tui.core import clock, files
from ptb_tui.evaluation.classify import last_words
from ptb_tui.evaluation.final import AttemptResult
from ptb_tui.evaluation.seeds import problem_of
from ptb_tui.run import processes
from ptb_tui.run.erasing import erase
from ptb_tui.run.sources.model import TARGET as MODEL_TARGET
from ptb_tui.run.steps import lay_out_task
from ptb_tui.sandbox import base
from ptb_tui.sandbox.base import Bind, Request, Sandbox, apply_limits

TERM_GRACE_S = 30.0
KILL_GRACE_S = 10.0
_LOG_BYTES = 256 << 20  # of inspect's own logs that are kept for one seed
_LOGS = 1000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SCRIPT = "evaluate_final_eval.py"


def fill_home(home: Path, task: Task, content: Content) -> None:
    """Lay out what the evaluation script finds: beside it the shared files and templates, test items one above."""
    lay_out_task(home / "task", task, content, task.final_script)
    if task.final_script.name != _SCRIPT:
        os.rename(home / "task" / task.final_script.name, home / "task" / _SCRIPT)
    if task.test_data is not None:
        shutil.copyfile(task.test_data, home / "test_data.json")


def environment(home: str, path: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
    """The complete environment of an attempt."""
    return {
        "PATH": ":".join(dict.fromkeys(path)),
        "HOME": home,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_API_KEY": "inspectai",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **extra,
    }


def end_tree(command: subprocess.Popen[bytes], runtime: str, spare: set[int], grace: float) -> None:
    """TERM to everything an attempt started but what holds its sandbox, KILL after `grace` seconds."""
    tree = [pid for pid in processes.descendants(os.getpid()) if pid not in spare]
    for pid in processes.polite(tree, runtime):
        processes.send(pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(grace)
    kill_rest(command, spare)


def kill_rest(command: subprocess.Popen[bytes], spare: set[int]) -> list[int]:
    """KILL what is left of an attempt, daemons included; returns what would not die within some seconds."""
    limit = clock.monotonic() + KILL_GRACE_S
    while tree := [pid for pid in processes.descendants(os.getpid()) if pid not in spare]:
        if clock.monotonic() > limit:
            return tree
        for pid in tree:
            processes.send(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(0.05)
        for pid in tree:
            if pid != command.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
    return []


@dataclass(frozen=True, slots=True)
class Attempts:
    """Makes attempts on one model; an instance is the `run_attempt` of `evaluation.final.run_final`."""

    task: Task
    content: Content
    sandbox: Sandbox
    model_dir: Path
    base_model: str
    base_dir: Path | None
    scratch: Path
    out_dir: Path
    timeout_s: float
    ends: float = math.inf  # on `clock.monotonic`; no attempt goes on beyond it
    limit: int = -1
    gpus: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def request(self, place: Path, seed: int, max_tokens: int | None) -> Request:
        """What the sandbox is asked for."""
        home, inside = place / "home", self.sandbox.home_inside(place / "home")
        binds: list[Bind] = []
        model, base = str(self.model_dir), str(self.base_dir) if self.base_dir else ""
        if self.sandbox.isolated:
            model = "final_model"
            binds.append(Bind(self.model_dir, f"{inside}/task/final_model"))
            if self.base_dir is not None:
                base = MODEL_TARGET
                binds.append(Bind(self.base_dir, base))
        argv = [self.sandbox.python(), _SCRIPT, "--model-path", model, "--templates-dir", "templates/"]
        argv += ["--limit", str(self.limit)]
        if self.task.final_script.name == _SCRIPT:
            argv += ["--seed", str(seed)]
        if max_tokens is not None:
            argv += [self.task.file.final.tokens_flag, str(max_tokens)]
        argv += ["--json-output-file", "metrics.json"]
        extra = {"PTB_BASE_MODEL": self.base_model, **self.keys}
        if base:
            extra["PTB_BASE_MODEL_PATH"] = base
        if self.gpus:
            extra["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)
        return Request(
            argv=tuple(argv),
            home=home,
            workdir="task",
            binds=tuple(binds),
            env=environment(inside, self.sandbox.path(), extra),
            gpus=self.gpus,
            network="none",
            tmp=place / "tmp",
            scratch=place / "sandbox",
        )

    def __call__(self, seed: int, stage: int, n: int, max_tokens: int | None) -> AttemptResult:
        """One attempt. StepError when the sandbox cannot be had; OSError when our own folders cannot be written."""
        place = self.scratch / f"attempt-{seed}-{n}"
        erase(place)
        (place / "tmp").mkdir(parents=True)
        fill_home(place / "home", self.task, self.content)
        request = self.request(place, seed, max_tokens)
        command = self.sandbox.command(request)
        self.notes[:] = list(dict.fromkeys([*self.notes, *command.notes]))
        log = self.out_dir / f"final_eval_seed{seed}_{n}.txt"
        start = clock.monotonic()
        with open(log, "xb", buffering=0) as out:
            out.write(f"[ptb] seed {seed}, attempt {n}, stage {stage}: {shlex.join(request.argv)}\n".encode())
            spare = set(processes.descendants(os.getpid()))
            stamp = base.stamp(command.began) if command.began else 0
            try:
                child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=lambda: apply_limits(command.limits),
                )
            except (OSError, subprocess.SubprocessError) as error:
                words = f"the evaluation could not be started: {error}"
                out.write(f"[ptb] sandbox: {words}\n".encode())
                return AttemptResult(None, clock.monotonic() - start, "sandbox", words, "not started")
            timed_out = ""
            try:
                child.wait(max(0.0, min(self.timeout_s, self.ends - clock.monotonic())))
            except subprocess.TimeoutExpired:
                timed_out = f"no result within {self.timeout_s:g} s"
                if clock.monotonic() >= self.ends:
                    timed_out = f"stopped after {clock.monotonic() - start:.0f} s: the time of the step is used up"
                out.write(f"\n[ptb] {timed_out}\n".encode())
                end_tree(child, self.sandbox.runtime, spare, TERM_GRACE_S)
            if stuck := kill_rest(child, spare):
                out.write(f"\n[ptb] processes that cannot be killed: {stuck}; the machine needs a restart\n".encode())
        seconds = clock.monotonic() - start
        if stamp and command.began and base.stamp(command.began) == stamp and not timed_out:
            line = last_words(log, rc=child.returncode, signal=None, grader=False).line
            return AttemptResult(None, seconds, "sandbox", f"the sandbox did not start: {line}", "not started")
        result = self._result(place, log, child.returncode, seconds, timed_out, seed)
        erase(place)
        return result

    def _result(
        self, place: Path, log: Path, code: int | None, seconds: float, timed_out: str, seed: int
    ) -> AttemptResult:
        if timed_out:
            return AttemptResult(
                None, seconds, "eval_failed", f"no result within {self.timeout_s:g} s", "timeout", True
            )
        work = place / "home" / "task"
        problem = ""
        if code == 0:
            metrics: Any = files.read_json(work / "metrics.json", 1 << 20)
            if metrics is None:
                problem = "it ended well but left no readable metrics"
            elif not (problem := problem_of(metrics)):
                keep_inspect_logs(place / "home", self.out_dir / "inspect_logs" / f"seed{seed}")
                files.replace(self.out_dir / f"metrics_seed{seed}.json", files.dump(metrics))
                return AttemptResult(metrics, seconds)
            return AttemptResult(None, seconds, "eval_failed", problem, f"metrics {problem}")
        killed = -code if code is not None and code < 0 else None
        words = last_words(log, rc=code, signal=killed, grader=bool(self.task.info.required_api_keys))
        return AttemptResult(None, seconds, words.cause, words.line, words.key)


def keep_inspect_logs(home: Path, target: Path) -> None:
    """Keep inspect's own logs of a measured seed, `task/logs` of the home: regular files only, bounded in size and
    number. What runs in an attempt may have put links in the place of both folders.
    """
    room = _LOG_BYTES
    with contextlib.ExitStack() as stack:
        folder = -1
        try:
            for part in (home, "task", "logs"):
                folder = os.open(part, _FOLDER, dir_fd=None if folder < 0 else folder)
                stack.callback(os.close, folder)
            with os.scandir(folder) as found:
                names = sorted(entry.name for entry in islice(found, _LOGS))
        except OSError:
            return
        for name in names:
            try:
                with open(os.open(name, _FILE, dir_fd=folder), "rb") as log:
                    info = os.fstat(log.fileno())
                    if not stat.S_ISREG(info.st_mode) or info.st_size > room:
                        continue
                    target.mkdir(parents=True, exist_ok=True)
                    with open(target / name, "wb") as out:
                        shutil.copyfileobj(log, out)
                    room -= info.st_size
            except OSError as error:
                print(f"an inspect log was not kept: {error.strerror}", flush=True)
