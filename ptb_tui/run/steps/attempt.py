"""One attempt of the final evaluation: its phases one after another, each in a fresh home and a sandbox of its own, one
log, and the result through a channel of ours (E §1.7.4).

Everything the script printed, servers included, is in the log of the attempt (case C02). The result is what the script
wrote to the descriptor that it got as standard input: no file of the model's or of the task's folder is ever read for
it.

    <evaluation>/final_eval_seed<S>_<N>.txt   kept/seed<S>-<tokens>/…   (what a phase left for the next, or a repeat)
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import Task
from ptb_tui.core import clock, files
from ptb_tui.core.causes import cause as cause_row
from ptb_tui.core.errors import StepError
from ptb_tui.evaluation import easing
from ptb_tui.evaluation.classify import last_words
from ptb_tui.evaluation.final import Attempt, AttemptResult
from ptb_tui.evaluation.grading import explained
from ptb_tui.run import hubview
from ptb_tui.run.erasing import erase
from ptb_tui.run.sources.model import TARGET as MODEL_TARGET
from ptb_tui.run.steps import channel, kept, lay_out_task, running
from ptb_tui.run.steps.attendant import Companion
from ptb_tui.run.steps.phases import Extra, Phase
from ptb_tui.sandbox.base import Bind, Request, Sandbox
from ptb_tui.supplies import hub
from ptb_tui.traces.redact import Redactor

_LEDGER_BYTES = 8 << 20
_SCRIPT = "evaluate_final_eval.py"
_CACHES = {"VLLM_CACHE_ROOT": "vllm", "TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}


def fill_home(home: Path, task: Task, content: Content) -> None:
    """Lay out what the evaluation script finds: beside it the shared files and templates, the items one above."""
    lay_out_task(home / "task", task, content, task.final_script)
    if task.final_script.name != _SCRIPT:
        os.rename(home / "task" / task.final_script.name, home / "task" / _SCRIPT)
    for name, path in task.beside.items():
        shutil.copyfile(path, home / name)


def environment(home: str, cache: str, path: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
    """The complete environment of an attempt. `cache` is the evaluation's own folder for what servers compile."""
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
        "XDG_CACHE_HOME": cache,
        "FLASHINFER_WORKSPACE_BASE": cache,
        **{name: f"{cache}/{below}" for name, below in _CACHES.items()},
        channel.VARIABLE: channel.DESCRIPTOR,
        **extra,
    }


@dataclass(frozen=True, slots=True)
class Attempts:
    """Makes attempts on one model; an instance is the `run_attempt` of `evaluation.final.run_final`.

    `scratch` is a folder of ours on local disk, `out_dir` the evaluation's own, `values` the site's settings, from
    which a phase gets the keys that it names.
    """

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
    template: Mapping[str, str] = field(default_factory=dict)  # what says which chat template the base model has
    phases: tuple[Phase, ...] = (Phase(),)
    values: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def eases(self) -> tuple[dict[str, Any], ...]:
        """What the levels of easing set (`evaluation.easing`)."""
        return easing.levels((self.task.file.model_extra or {}).get("evaluate"))

    def request(self, place: Path, attempt: Attempt, phase: Phase, extra: Extra) -> Request:
        """What the sandbox is asked for."""
        home, inside = place / "home", self.sandbox.home_inside(place / "home")
        binds, model, base = self._models(inside) if phase.model else ([], "final_model", "")
        cache = self.scratch / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        if self.sandbox.isolated:
            if phase.model:  # what a model's server wrote is nothing for a phase with a key
                binds.append(Bind(cache, f"{inside}/.cache", writable=True))
            binds += self._shown(attempt, phase, f"{inside}/task")
        argv = [self.sandbox.python(), _SCRIPT, "--model-path", model, "--templates-dir", "templates/"]
        argv += ["--limit", str(self.limit)]
        if self.task.final_script.name == _SCRIPT:
            argv += ["--seed", str(attempt.seed)]
        if attempt.max_tokens is not None:
            argv += [self.task.file.final.tokens_flag, str(attempt.max_tokens)]
        argv += easing.arguments(self.eases, attempt.ease)
        if phase == self.phases[-1]:
            argv += ["--json-output-file", channel.RESULT]
        env = {"PTB_BASE_MODEL": self.base_model, **self.template, **phase.env, **extra.env}
        env |= {name: self.values[name] for name in phase.keys if self.values.get(name)}
        if base:
            env["PTB_BASE_MODEL_PATH"] = base
        if not self.task.file.needs and phase.model:  # the script finds its items by itself
            binds += hubview.lay_out(hub.home(self.values), home / "hf_cache", isolated=self.sandbox.isolated).binds
            env["HF_HOME"] = f"{inside}/hf_cache"
        if self.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)
        if not self.sandbox.isolated and (mark := os.environ.get("PTB_STEP")):
            env["PTB_STEP"] = mark  # what it leaves is found by it, should we be killed
        ports = _loopback(phase) if self.sandbox.isolated else ()
        return Request(
            argv=(*argv, *phase.arguments),
            home=home,
            workdir="task",
            binds=(*binds, *phase.binds, *extra.binds),
            env=environment(
                inside, f"{inside}/.cache" if self.sandbox.isolated else str(cache), self.sandbox.path(), env
            ),
            gpus=self.gpus if phase.model else (),
            network=phase.network,
            gateway_socket=place / "gateway" / "gateway.sock" if phase.network == "gateway" else None,
            reach=ports if phase.network == "gateway" else (),
            tmp=place / "tmp",
            scratch=place / "sandbox",
        )

    def _models(self, inside: str) -> tuple[list[Bind], str, str]:
        """Binds of the model and the base model, and the paths under which the script finds them."""
        if not self.sandbox.isolated:
            return [], str(self.model_dir), str(self.base_dir) if self.base_dir else ""
        binds = [Bind(self.model_dir, f"{inside}/task/final_model")]
        if self.base_dir is None:
            return binds, "final_model", ""
        return [*binds, Bind(self.base_dir, MODEL_TARGET)], "final_model", MODEL_TARGET

    def __call__(self, attempt: Attempt) -> AttemptResult:
        """One attempt. StepError when the sandbox cannot be had; OSError when our own folders cannot be written."""
        log = self.out_dir / f"final_eval_seed{attempt.seed}_{attempt.n}.txt"
        _set_aside(log)
        start = clock.monotonic()
        result = AttemptResult(None, 0, "eval_failed", "the task has no phases", "no phases")
        with open(log, "xb", buffering=0) as out:
            for phase in self.phases:
                if phase.once and self._mark(attempt, phase).exists():
                    out.write(f"[ptb] {phase.name}: done by an earlier attempt\n".encode())
                    continue
                left = min(start + self.timeout_s, self.ends) - clock.monotonic()
                result = self._phase(attempt, phase, log, out, left)
                if result.metrics is None:
                    break
        seconds = clock.monotonic() - start
        if result.metrics is None:
            erase(self.scratch / "cache")  # what a server that crashed left half compiled helps no other one
            return AttemptResult(None, seconds, result.cause, result.words, result.key, result.timed_out, result.kind)
        files.replace(self.out_dir / f"metrics_seed{attempt.seed}.json", files.dump(result.metrics))
        return AttemptResult(result.metrics, seconds)

    def _phase(self, attempt: Attempt, phase: Phase, log: Path, out: IO[bytes], left: float) -> AttemptResult:
        """One phase; its metrics are empty unless it is the last."""
        place = self.scratch / f"attempt-{attempt.seed}-{attempt.n}-{phase.name}"
        self._take_cache(attempt, phase, place)  # of a driver that was killed
        erase(place)
        (place / "tmp").mkdir(parents=True)
        fill_home(place / "home", self.task, self.content)
        self._give(attempt, phase, place / "home" / "task")
        with contextlib.ExitStack() as stack:
            extra = stack.enter_context(phase.beside(place / "beside", self.sandbox)) if phase.beside else Extra()
            companion = stack.enter_context(self._gateway(attempt, phase, place))
            request = self.request(place, attempt, phase, extra)
            command = self.sandbox.command(request)
            self.notes[:] = list(dict.fromkeys([*self.notes, *command.notes]))
            out.write(_headline(attempt, phase, request, self.phases))
            printed = out.tell()
            result_fd = channel.opened()
            stack.callback(os.close, result_fd)
            try:
                ended = running.run(
                    command,
                    self.sandbox.runtime,
                    out,
                    result_fd,
                    max(0.0, left),
                    helpers=lambda: (*extra.pids(), *(companion.pids if companion else ())),
                    tend=companion.tend if companion else lambda: None,
                )
            except running.NotStarted as error:
                out.write(f"[ptb] sandbox: {error}\n".encode())
                return AttemptResult(None, 0, "sandbox", str(error), "not started", kind="sandbox")
            finally:
                self._take_cache(attempt, phase, place)
            _without_keys(log, printed, {name: self.values.get(name, "") for name in phase.keys})
            out.seek(0, os.SEEK_END)
            result = self._result(phase, log, out, ended, channel.read(result_fd) if phase == self.phases[-1] else None)
        if result.metrics is not None:
            kept.keep_inspect_logs(place / "home", self.out_dir / "inspect_logs" / f"seed{attempt.seed}")
            if left_out := self._take(phase.keep, place, self._kept(attempt) / "keep"):
                words = f"it ended well but left no {left_out[0]}"
                result = AttemptResult(None, ended.seconds, "eval_failed", words, words, kind="metrics")
            elif phase.once:
                files.replace(self._mark(attempt, phase), "")
        erase(place)
        return result

    def _result(
        self, phase: Phase, log: Path, out: IO[bytes], ended: running.Ended, said: bytes | None
    ) -> AttemptResult:
        if ended.stuck:
            words = f"processes that cannot be killed: {list(ended.stuck)}; the machine needs a restart"
            out.write(f"\n[ptb] {words}\n".encode())
        if ended.late:
            if clock.monotonic() >= self.ends:
                words = f"{ended.late}: the time of the step is used up"
                out.write(f"\n[ptb] {words}\n".encode())
                return AttemptResult(None, ended.seconds, "step_limit", words, "step limit", True)
            words = f"no result within {self.timeout_s:g} s"
            out.write(f"\n[ptb] {words}\n".encode())
            return _blamed(phase, AttemptResult(None, ended.seconds, "eval_failed", words, "timeout", True, "timeout"))
        if not ended.began:
            line = last_words(log, rc=ended.code, signal=None).line
            words = f"the sandbox did not start: {line}"
            return AttemptResult(None, ended.seconds, "sandbox", words, "not started", kind="sandbox")
        if ended.code != 0:
            killed = -ended.code if ended.code is not None and ended.code < 0 else None
            found = last_words(log, rc=ended.code, signal=killed, grader=bool(phase.keys))
            words = explained(found.line) if found.kind == "grader" else found.line
            result = AttemptResult(None, ended.seconds, found.cause, words, found.key, kind=found.kind)
            return _blamed(phase, result)
        if said is None:
            return AttemptResult({}, ended.seconds)
        metrics, problem = channel.metrics_of(said)
        if problem:
            return AttemptResult(None, ended.seconds, "eval_failed", problem, f"metrics {problem}", kind="metrics")
        return AttemptResult(metrics, ended.seconds)

    def _kept(self, attempt: Attempt) -> Path:
        return self.out_dir / "kept" / f"seed{attempt.seed}-{attempt.max_tokens or 'default'}"

    def _mark(self, attempt: Attempt, phase: Phase) -> Path:
        return self._kept(attempt) / f"{phase.name}.done"

    def _cache(self, attempt: Attempt, phase: Phase) -> Path:
        return self._kept(attempt) / f"cache-{phase.name}"

    def _binds_cache(self, phase: Phase) -> bool:
        """Whether a phase works in its cache itself, so that a kill loses nothing: only one without the model may."""
        return self.sandbox.isolated and not phase.model

    def _shown(self, attempt: Attempt, phase: Phase, work: str) -> list[Bind]:
        if not self._binds_cache(phase):
            return []
        places = [(self._cache(attempt, phase) / name, f"{work}/{name}") for name in phase.cache]
        for source, _ in places:
            source.mkdir(parents=True, exist_ok=True)
        return [Bind(source, target, writable=True) for source, target in places]

    def _give(self, attempt: Attempt, phase: Phase, work: Path) -> None:
        sources = [self._kept(attempt) / "keep"]
        if self._binds_cache(phase):
            for name in phase.cache:
                (work / name).mkdir(parents=True, exist_ok=True)
        else:
            sources.append(self._cache(attempt, phase))
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, work, dirs_exist_ok=True)

    def _take_cache(self, attempt: Attempt, phase: Phase, place: Path) -> None:
        if not self._binds_cache(phase):
            self._take(phase.cache, place, self._cache(attempt, phase))

    def _take(self, names: Sequence[str], place: Path, target: Path) -> list[str]:
        """Copy what a phase left; the names of what it did not leave."""
        room, missing = kept.Room(), []
        for name in names:
            target.mkdir(parents=True, exist_ok=True)
            if not kept.bring(place / "home" / "task", name, target / name, room):
                missing.append(name)
        return missing

    @contextlib.contextmanager
    def _gateway(self, attempt: Attempt, phase: Phase, place: Path) -> Iterator[Companion | None]:
        """The companion of a phase that reaches hosts; its ledger stays with the evaluation. StepError."""
        if phase.network != "gateway" or not self.sandbox.isolated:
            yield None
            return
        (place / "gateway").mkdir(mode=0o700)
        socket = place / "gateway" / "gateway.sock"
        settings = {
            "socket": str(socket),
            "ledger": str(place / "egress.jsonl"),
            "allow": list(phase.allow),
            "also": [f"127.0.0.1:{port}" for port in _loopback(phase)],
        }
        files.replace(place / "companion.json", files.dump(settings), mode=0o600)
        companion = Companion(place)
        try:
            companion.ready(socket)
            yield companion
        finally:
            companion.end()
            if (ledger := files.read_bytes(place / "egress.jsonl", _LEDGER_BYTES)) is not None:
                files.replace(self.out_dir / f"egress_seed{attempt.seed}_{attempt.n}.jsonl", ledger)


def _loopback(phase: Phase) -> tuple[int, ...]:
    """Ports of this machine's loopback that the phase is to find at its own."""
    ports = (rule.removeprefix("127.0.0.1:") for rule in phase.allow if rule.startswith("127.0.0.1:"))
    return tuple(int(port) for port in ports if port.isdecimal())


def _blamed(phase: Phase, result: AttemptResult) -> AttemptResult:
    """A failure with its cause. What fails without the model is no fault of whoever made the model."""
    if phase.model or cause_row(result.cause).counts != "yes":
        return result
    return replace(result, cause="grading_incomplete", kind="grader")


def _without_keys(log: Path, start: int, secrets: Mapping[str, str]) -> None:
    """Take the values of keys out of what a phase has printed from `start` on."""
    if not any(secrets.values()):
        return
    with open(log, "r+b") as file:
        file.seek(start)
        clean, found = Redactor(secrets).redact(file.read())
        if found:
            file.seek(start)
            file.write(clean)
            file.truncate()


def _headline(attempt: Attempt, phase: Phase, request: Request, phases: Sequence[Phase]) -> bytes:
    """The first line of a phase in the log. The words of a command hold no value of a key."""
    name = f", {phase.name}" if len(phases) > 1 else ""
    eased = f", eased {attempt.ease} times" if attempt.ease else ""
    where = f"[ptb] seed {attempt.seed}, attempt {attempt.n}, stage {attempt.stage}{eased}{name}"
    return f"{where}: {shlex.join(request.argv)}\n".encode("utf-8", "backslashreplace")


def _set_aside(log: Path) -> None:
    """The log of an attempt that was cut off goes out of the way of its repetition."""
    for number in range(1, 1000):
        aside = log.with_name(log.name.replace("final_eval_", f"interrupted_{number}_", 1))
        if not os.path.lexists(log):
            return
        if not os.path.lexists(aside):
            os.rename(log, aside)
    raise StepError(f"{log} was cut off too often")
