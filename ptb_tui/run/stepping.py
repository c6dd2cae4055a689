"""One step of a job from wherever it is to its end (design §5). Standard library alone.

    examine ─ fresh ─→ prepare → rename to the run directory → launch ─┐
            ├ shim alive ────────────────────────────────── adopt ─────┼→ watch → finish → ended
            └ exit record, or shim gone without one ───────────────────┘

A command is never started twice: once a shim may have been started, only its evidence decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

from ptb_tui.core import clock, datastore, events, files
from ptb_tui.core.errors import PtbError, StepError, StorageError
from ptb_tui.core.layout import Root, RunFiles, StepName
from ptb_tui.run import locks, place, processes
from ptb_tui.run.erasing import erase
from ptb_tui.run.following import Following
from ptb_tui.run.outcomes import agent_end, program_outcome
from ptb_tui.run.telemetry import Sampler, public_block, public_header
from ptb_tui.run.usage import Usage, most_bytes
from ptb_tui.sandbox.base import passed

TICK_S = 0.25
SAMPLE_S = 10.0
PUBLIC_SAMPLE_S = 60.0
PREPARE_LIMIT_S = 900.0
HARVEST_LIMIT_S = 4 * 3600.0
HARVEST_TRIES = 3
MAX_TRIES = 50  # supervisors of one step that may end by an error of a disk


class JobView(Protocol):
    """What a step needs of its job. `lock_fds` is empty for an adopter until the former holders let go."""

    root: Root
    run_id: int
    slot: str
    lock_fds: list[int]
    files: RunFiles
    spec: dict[str, Any]
    scratch: Path
    why_stop: str

    def verb(self, name: str, *arguments: str | Path) -> list[str]:
        """Command line of one of our verbs."""
        ...

    def child(self, log: Path, argv: list[str], limit: float) -> int:
        """Run one of our verbs to its end."""
        ...


def _own_scratch(scratch: Path) -> None:
    """Our folder over the scratch of all runs (`Root.scratch`), which may lie where everybody can write.

    StorageError when it is not ours. Where it cannot be made, the step says so itself.
    """
    with contextlib.suppress(OSError):
        scratch.parent.parent.mkdir(parents=True, exist_ok=True)
        locks.own_folder(scratch.parent)


class Step:
    """One step of the job."""

    def __init__(self, job: JobView, name: StepName, folder: str) -> None:
        self.job, self.name, self.folder_name = job, name, folder
        self.scratch = job.scratch / folder
        self.log = events.Writer(self.folder)
        self.following = Following(self.scratch)
        self.shim: subprocess.Popen[bytes] | None = None
        self.begun = False  # whether the command may have been started

    @property
    def folder(self) -> Path:
        """The step's folder; it moves once, when the agent starts."""
        return self.job.files.steps / self.folder_name

    def run(self) -> tuple[str, str, str]:
        """Bring the step to its end from wherever it is; returns (outcome, cause, why) as recorded."""
        try:
            _own_scratch(self.job.scratch)
        except StorageError as error:  # nothing in there is ours, neither evidence nor a program to start
            self.log.append("ended", outcome="failed", cause="prepare_failed", why=f"{error}; {error.hint}")
            return "failed", "prepare_failed", str(error)
        try:
            outcome, reason, why, facts = self._run()
        except StepError as error:
            outcome, reason, why, facts = "failed", error.cause, error.message, {}
        except (PtbError, OSError, ValueError, KeyError) as error:
            if self.begun and (
                self._shim_alive() or (isinstance(error, OSError | StorageError) and self.log.number < MAX_TRIES)
            ):
                raise  # the step stays open: its command goes on, or its disk may answer the next supervisor
            outcome, reason, why, facts = "failed", "unknown", f"{type(error).__name__}: {error}", {}
            if self.begun and self.name.kind == "agent" and self.scratch.exists():
                self.log.append("model_at_risk", host=socket.gethostname(), path=str(self.scratch), why=why)
        if self.shim is None and not (self.scratch / "raw").exists() and outcome != "done":
            self._drop_scratch()  # its command never started
        if facts:
            self.log.append("result", **facts)
        self.log.append("ended", outcome=outcome, cause=reason, why=why[:2000])
        return outcome, reason, why

    def _run(self) -> tuple[str, str, str, dict[str, Any]]:
        if not self.job.lock_fds:
            self._await_evidence()
        seen = {event.kind for event in events.read(self.folder).events}
        shim = files.read_object(self.scratch / "shim.json")
        self.begun = "started" in seen or shim is not None or (self.scratch / "raw").exists()
        me = {"supervisor": clock.this_process().to_json(), "host": socket.gethostname(), "slot": self.job.slot}
        if not self.begun:
            if "claimed" in seen:
                self.log.append("requeued", why="its command had not started")
            if self._asked_to_stop():
                return "cancelled", "operator", self._cancel_words(), {}
            self.log.append("claimed", **me)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self.scratch)
            self.scratch.mkdir(parents=True, mode=0o700)
            self._prepare()
            if self._asked_to_stop():
                return "cancelled", "operator", self._cancel_words(), {}
            if self.name.kind == "agent":
                self._move_in()
            self._launch()
        else:
            self.log.append("adopted", **me)
            if "started" not in seen:
                self.log.append("started", shim=None, scratch=str(self.scratch))
        self._watch()
        return self._finish()

    def _await_evidence(self) -> None:
        """An adopter finds the run's lock held by somebody's child: a shim tells who it is, others come to an end."""
        while not (self.scratch / "shim.json").is_file():
            fd = locks.take(locks.run_lock(self.job.root, self.job.run_id))
            if fd is not None:
                os.close(fd)
                break
            time.sleep(TICK_S)
        if not (self.scratch / "shim.json").is_file():
            self._take_locks()

    def _asked_to_stop(self) -> bool:
        return bool(self.job.why_stop) or self.job.files.cancel.exists() or self.job.files.fence.exists()

    def _cancel_words(self) -> str:
        record = files.read_object(self.job.files.cancel) or {}
        who, why = record.get("operator", ""), record.get("reason", "")
        return f"cancelled by {who or 'somebody'}{': ' + str(why) if why else ''}"

    def _prepare(self) -> None:
        """Write `<scratch>/launch.json`. StepError with the cause that the preparing program gave."""
        if self.name.kind != "agent":
            asked = files.read_object(self.folder / "step.json") or {}
            limit = float(asked.get("limit_s", 3600))
            argv = self.job.verb(f"step-{self.name.kind}", self.job.files.ptb, self.folder, self.scratch)
            if asked.get("bundle"):  # asked for with the content of another day
                argv[argv.index("-I") + 1] = str(place.program(self.job.root, asked))
            store = datastore.data_store(self.job.root.path)
            launch = {
                "argv": argv,
                "cwd": str(self.scratch),
                "deadline_s": limit,
                "env": {**place.step_environment(self.job.slot), datastore.VARIABLE: str(store)},
            }
            files.replace(self.scratch / "launch.json", files.dump(launch))
            return
        self.log.append("phase", name="prepare")
        argv = self.job.verb("step-prepare", self.job.files.ptb, self.folder, self.scratch, self.job.slot)
        code = self.job.child(self.folder / "prepare.log", argv, PREPARE_LIMIT_S)
        if code != 0 or not (self.scratch / "launch.json").is_file():
            result = files.read_object(self.folder / "result.json") or {}
            words = str(result.get("why") or f"prepare ended with status {code}; see prepare.log")
            raise StepError(words, cause=str(result.get("cause") or "prepare_failed"))

    def _move_in(self) -> None:
        """The last act of preparing: one rename makes the queued run a run directory (design §5, Ids)."""
        job = self.job
        method, run = str(job.spec["method"]), str(job.spec["run"])
        target = job.root.path / method / run
        mark = target / ".ptb.moving"
        if not job.files.started:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.mkdir()
            except FileExistsError:
                if os.listdir(target) and files.read_bytes(mark) != str(job.spec["token"]).encode():
                    words = f"{target} exists already and is not ours to fill"
                    raise StepError(words, cause="prepare_failed") from None
            files.replace(mark, str(job.spec["token"]))
        public = self.scratch / "public"
        for name in sorted(os.listdir(public)) if public.is_dir() else ():
            shutil.copyfile(public / name, target / name)
        if job.files.started:  # a former supervisor got this far
            mark.unlink(missing_ok=True)
            return
        live = job.root.live(job.run_id)
        live.parent.mkdir(parents=True, exist_ok=True)
        files.replace(live, f"{method}/{run}/.ptb\n")
        os.rename(job.files.ptb, target / ".ptb")
        job.files = RunFiles(target / ".ptb")
        mark.unlink()

    def _launch(self) -> None:
        launch = files.read_object(self.scratch / "launch.json") or {}
        environment = {str(k): str(v) for k, v in (launch.get("env") or {}).items()}
        if keys := [str(key) for key in launch.get("keys") or ()]:
            answer = subprocess.run(
                self.job.verb("step-keys", *keys), stdin=subprocess.DEVNULL, capture_output=True, cwd="/", check=False
            )
            if answer.returncode != 0:
                raise StepError(answer.stderr.decode("utf-8", "replace")[-500:], cause="credential")
            given = {str(name): str(value) for name, value in json.loads(answer.stdout).items()}
            environment.update(passed(given, str(launch.get("prefix") or ""), bool(launch.get("encoded"))))
        environment["PTB_STEP"] = str(self.scratch)
        self.begun = True
        self.shim = subprocess.Popen(
            self.job.verb("shim", self.scratch, self.folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=open(self.scratch / "shim.log", "ab"),  # noqa: SIM115 - closed with this process
            cwd="/",
            start_new_session=True,
            pass_fds=self.job.lock_fds,
        )
        assert self.shim.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.shim.stdin.write(json.dumps(environment).encode())
            self.shim.stdin.close()
        self.log.append("started", shim=self.shim.pid, scratch=str(self.scratch), limit_s=launch.get("deadline_s"))
        self.log.append("phase", name=self.name.kind)

    def _shim_alive(self) -> bool:
        if self.shim is not None:
            return self.shim.poll() is None
        record = files.read_object(self.scratch / "shim.json") or {}
        if clock.alive(clock.process_from(record.get("shim"))):
            return True
        # A shim without its record yet, or a child of the former supervisor, still holds the run's lock.
        return not self.job.lock_fds and locks.busy(locks.run_lock(self.job.root, self.job.run_id))

    def _watch(self) -> None:
        """Until the shim is gone: keep the follower alive, pass on a stop, take samples."""
        sampler = Sampler([os.getpid()] if self.shim else [], self.scratch, place.slot_gpus(self.job.slot))
        asked, sampled, public = "", 0.0, 0.0
        usage, most = Usage(self.scratch), most_bytes(self.job.spec, place.site(self.job.root))
        while self._shim_alive():
            self._tend_follower()
            if not asked:
                held = usage.poll(sampler.pid_roots) if most else 0
                with contextlib.suppress(OSError):  # a results tree that does not answer stops nothing
                    asked = self._pass_on_stop("disk_full" if (held or 0) > most else "")
            now = clock.monotonic()
            if now - sampled >= SAMPLE_S:
                sampled = now
                record = files.read_object(self.scratch / "shim.json") or {}
                if (identity := clock.process_from(record.get("shim"))) is not None:
                    sampler.pid_roots = [identity.pid]
                with contextlib.suppress(OSError):
                    sample = sampler.sample()
                    with open(self.folder / "telemetry.jsonl", "a", encoding="utf-8") as out:
                        out.write(files.dump(sample))
                    if self.name.kind == "agent" and now - public >= PUBLIC_SAMPLE_S:
                        public = now
                        with open(self.job.files.run_dir / "system_monitor.log", "a", encoding="utf-8") as out:
                            if out.tell() == 0:
                                out.write(public_header(PUBLIC_SAMPLE_S))
                            out.write(public_block(sample))
            self._pause(TICK_S)
        usage.close()
        if not self.job.lock_fds:
            self._take_locks()

    def _pass_on_stop(self, limit: str) -> str:
        """Tell the shim to stop when somebody asked for it or a limit was passed; the reason, or empty when there is
        none or no shim yet."""
        asked = "cancel" if self.job.files.cancel.exists() else self.job.why_stop
        asked = "fence" if not asked and self.job.files.fence.exists() else asked or limit
        if not asked:
            return ""
        try:
            files.replace(self.scratch / "stop.json", files.dump({"why": asked}))
        except OSError:  # a command that filled the disk must not go on because of that
            (self.scratch / "reserve").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                files.replace(self.scratch / "stop.json", files.dump({"why": asked}))
        record = files.read_object(self.scratch / "shim.json") or {}
        if not processes.send_exactly(clock.process_from(record.get("shim")), signal.SIGTERM):
            return ""
        self.log.append("stopping", why=asked)
        return asked

    def _pause(self, seconds: float) -> None:
        if self.shim is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.shim.wait(seconds)
        else:
            time.sleep(seconds)

    def _take_locks(self) -> None:
        """An adopter takes over the run and the slot once the shim has let go of them."""
        job = self.job
        for name in ("run", *job.slot.split(",")):
            while True:
                path = locks.run_lock(job.root, job.run_id)
                fd = locks.take(path) if name == "run" else (locks.take_slot(job.root, name) if name else -1)
                if fd is not None:
                    if fd >= 0:
                        job.lock_fds.append(fd)
                    break
                self._tend_follower()
                time.sleep(TICK_S)

    def _tend_follower(self) -> None:
        if self.name.kind == "agent":
            self.following.tend(lambda family: self.job.verb("follow", self.scratch, self.job.files.ptb, family))

    def _finish(self) -> tuple[str, str, str, dict[str, Any]]:
        """After the command: its exit record, the rest of its trace, the harvest, the outcome."""
        record = files.read_object(self.folder / "exit.json")
        if record is None and (record := files.read_object(self.scratch / "exit.json")) is not None:
            files.replace(self.folder / "exit.json", files.dump(record))
        marks = [f"{name}={self.scratch}".encode() for name in ("PTB_STEP", "PTB_RELAY")]
        processes.end_marked(marks[0], marks[1], self.scratch)
        if not self.scratch.is_dir() and self.name.kind == "agent":
            return agent_end(record, self._cancel_words(), self._harvested())
        if self.name.kind != "agent":
            return self._finish_program(record)
        size = (self.scratch / "raw").stat().st_size if (self.scratch / "raw").exists() else 0
        files.replace(self.scratch / "raw.end", files.dump({"size": size}))
        self.log.append("phase", name="trace")
        while not self.following.done:
            self._tend_follower()
            time.sleep(TICK_S / 2)
        done = files.read_object(self.scratch / "follow.done") or {}
        self.log.append("phase", name="harvest")
        facts = self._harvest({key: done.get(key) for key in ("lines", "late", "redacted", "raw_sha256", "ending")})
        self.following.end()
        self._drop_scratch()
        return agent_end(record, self._cancel_words(), facts)

    def _harvested(self) -> dict[str, Any]:
        """What a former supervisor brought home before it removed the scratch. StepError when it had not."""
        for event in events.read(self.folder).events:
            if event.kind == "harvested":
                return {**self._facts(), "trace": event.data.get("trace")}
        raise StepError(f"{self.scratch} is gone and was not harvested", cause="host_lost")

    def _facts(self) -> dict[str, Any]:
        result = files.read_object(self.folder / "result.json") or {}
        return {key: value for key, value in result.items() if key not in ("outcome", "cause", "why", "v")}

    def _drop_scratch(self) -> None:
        """Renamed first: half a scratch must never look like one to work on."""
        gone = self.scratch.with_name(f".{self.scratch.name}{place.GONE}")
        with contextlib.suppress(OSError):
            erase(gone)
            os.rename(self.scratch, gone)
            erase(gone)

    def _finish_program(self, record: dict[str, Any] | None) -> tuple[str, str, str, dict[str, Any]]:
        with contextlib.suppress(OSError):
            shutil.copyfile(self.scratch / "raw", self.folder / "log.txt")
        result, facts = files.read_object(self.folder / "result.json") or {}, self._facts()
        self._drop_scratch()
        return (*program_outcome(record, result, self.name.kind), facts)

    def _harvest(self, trace: dict[str, Any]) -> dict[str, Any]:
        """Bring the model and the task folder home. A harvest that cannot finish keeps the scratch and says so."""
        argv = self.job.verb("step-harvest", self.job.files.ptb, self.folder, self.scratch)
        result: dict[str, Any] = {}
        for attempt in range(HARVEST_TRIES):
            if attempt:
                time.sleep(2.0**attempt)
            code = self.job.child(self.folder / "harvest.log", argv, HARVEST_LIMIT_S)
            result = files.read_object(self.folder / "result.json") or {}
            if code == 0:
                found = {key: result.get(key) for key in ("model", "model_digest")}
                self.log.append("harvested", **found, trace=trace)
                return {**self._facts(), "trace": trace}
        words = str(result.get("why") or "the harvest failed; see harvest.log")
        self.log.append("model_at_risk", host=socket.gethostname(), path=str(self.scratch), why=words)
        raise StepError(f"{words}; everything is still in {self.scratch}", cause=str(result.get("cause") or "unknown"))
