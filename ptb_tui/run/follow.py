"""The internal verb `follow SCRATCH PTB_DIR FAMILY`: from the raw output of an agent to its trace (design §5).

    <scratch>/raw ─ marks of a reading thread ─► stamped, redacted, parsed once ─► solve_out.txt, solve_parsed.txt,
                                                                                   .ptb/trace.idx

The three outputs have one writer, this process. It may be killed at any moment and started again: it goes on from
`follow.json`, and whatever it writes a second time has the same bytes. A results tree that fails or hangs holds up
nothing but the trace; `lag.json` then says since when and why. Ends with `follow.done` after `raw.end` was reached.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ptb_tui.core import clock, files, settings
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import RunFiles
from ptb_tui.traces import endings
from ptb_tui.traces.marks import MarkReader, MarkWriter, late_ranges
from ptb_tui.traces.outputs import FIRST_PAUSE, LONGEST_PAUSE, Lost, Outputs
from ptb_tui.traces.pages import pages_for
from ptb_tui.traces.redact import Redactor
from ptb_tui.traces.transcript import Part, Transcriber

POLL_S = 0.1
CHECKPOINT_S = 1.0
CHECKPOINT_BYTES = 8 << 20
HANG_S = 10.0  # after which an unanswered write counts as lag
_SLICE = 1 << 18  # bytes parsed together, which bounds the events held


class Checkpoint(BaseModel):
    """`follow.json`: the outputs with these sizes hold exactly the first `raw` bytes."""

    model_config = ConfigDict(frozen=True, strict=True)

    v: int = 1
    raw: NonNegativeInt = 0
    sizes: tuple[NonNegativeInt, NonNegativeInt, NonNegativeInt] = (0, 0, 0)  # out, parsed, index
    lines: NonNegativeInt = 0
    redacted: dict[str, int] = Field(default_factory=dict)


class Lag:
    """`lag.json`, for as long as the outputs are behind for a reason. Used by both threads."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        left = files.read_object(path) or {}  # by a follower that was killed
        self._since, self._why = str(left.get("since", "")), str(left.get("why", ""))

    def begin(self, why: str) -> None:
        """Say why nothing is written; the time of the first reason stays."""
        with self._lock:
            if why == self._why:
                return
            self._since, self._why = self._since or clock.utc_text(), why
            with contextlib.suppress(OSError):
                files.replace(self._path, files.dump({"since": self._since, "why": why}))

    def end(self) -> None:
        """Caught up."""
        with self._lock:
            if self._why:
                self._since = self._why = ""
                with contextlib.suppress(OSError):
                    self._path.unlink(missing_ok=True)


class Follower:
    """One run's trace. `look` belongs to a thread of its own; all else to another."""

    def __init__(
        self,
        scratch: Path,
        ptb_dir: Path,
        family: str,
        secrets: Mapping[str, str],
        lag: Lag | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._scratch, self._family, self._pause = scratch, family, pause
        run = RunFiles(ptb_dir)
        self._paths = (ptb_dir.parent / "solve_out.txt", ptb_dir.parent / "solve_parsed.txt", run.trace_index)
        self._raw = scratch / "raw"
        self._secrets, self._known = dict(secrets), 0
        self._redactor = Redactor(secrets)
        self._lag = lag or Lag(scratch / "lag.json")
        self._end: int | None = None
        self._fd: int | None = None
        self._marks: MarkReader | None = None
        self.outputs: Outputs | None = None
        self._begin(self._read_checkpoint())

    def _read_checkpoint(self) -> Checkpoint:
        data = files.read_bytes(self._scratch / "follow.json")
        try:
            return Checkpoint.model_validate_json(data) if data else Checkpoint()
        except ValidationError:
            return Checkpoint()

    def _begin(self, checkpoint: Checkpoint) -> None:
        """Take up the work at a checkpoint; nothing is opened yet."""
        self.close()
        self._checkpoint = checkpoint
        self._lines, self._redacted = checkpoint.lines, dict(checkpoint.redacted)
        self._pages = pages_for(self._family)
        self._digest = hashlib.sha256()
        self._transcriber: Transcriber | None = None
        self._saved = clock.monotonic()

    def close(self) -> None:
        """Close all files."""
        if self.outputs is not None:
            self.outputs.close()
            self.outputs = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._marks is not None:
            self._marks.close()
            self._marks = None

    def step(self) -> bool:
        """Write what can be written now; whether there was anything. Never raises for the results tree."""
        try:
            return self._step()
        except Lost as error:
            self._lag.begin(str(error))
            self._begin(Checkpoint())
            return True

    def _learn(self) -> None:
        """Tokens that were handed out while the agent works are redacted from here on."""
        try:
            changed = os.stat(self._scratch / "secrets.json").st_mtime_ns
        except OSError:
            return
        if changed != self._known:
            self._known = changed
            self._secrets = {**self._secrets, **_given(self._scratch)}
            self._redactor = Redactor(self._secrets)
            if self._transcriber is not None:
                self._transcriber.redact_with(self._redactor)

    def _step(self) -> bool:
        transcriber = self._transcriber or self._open()
        if transcriber is None or self._marks is None:
            return False
        most = self._marks.known()  # first: a token is noted before anybody can print it
        self._learn()
        outputs = self.outputs
        assert outputs is not None
        before = transcriber.offset
        for part in transcriber.take(self.end(), most):
            self._write(outputs, part)
        moved = transcriber.offset != before
        if outputs.sizes[0] != self._checkpoint.sizes[0] and clock.monotonic() - self._saved >= CHECKPOINT_S:
            self._save(outputs, transcriber)
        if not moved and not outputs.waiting:
            self._lag.end()
        return moved

    def _open(self) -> Transcriber | None:
        """Open everything, cut the outputs to the checkpoint, and bring parser and digest to the same point."""
        try:
            self._fd = os.open(self._raw, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        at = self._checkpoint
        self.outputs = Outputs(self._paths, at.sizes, self._lag.begin, self._pause)
        self.outputs.open()
        self._feed_again(at.sizes[0])
        position = 0
        while position < at.raw and (block := os.pread(self._fd, min(1 << 20, at.raw - position), position)):
            self._digest.update(block)
            position += len(block)
        self._marks = MarkReader(self._scratch / "stamps")
        if position < at.raw or self._marks.known() < at.raw:
            raise Lost(f"{self._raw} has less than was read before")
        self._transcriber = Transcriber(self._fd, self._marks, self._redactor, at.raw)
        return self._transcriber

    def _feed_again(self, size: int) -> None:
        delay = FIRST_PAUSE
        while True:
            pages, left = pages_for(self._family), size
            try:
                with open(self._paths[0], "rb") as file:
                    while left and (block := file.read(min(_SLICE, left))):
                        pages.feed(block)
                        left -= len(block)
            except OSError as error:
                self._lag.begin(str(error))
                self._pause(delay)
                delay = min(2 * delay, LONGEST_PAUSE)
                continue
            if left:
                raise Lost(f"{self._paths[0]} became shorter")
            self._pages = pages
            return

    def _write(self, outputs: Outputs, part: Part) -> None:
        self._digest.update(part.raw)
        for start in range(0, len(part.text), _SLICE):
            text = part.text[start : start + _SLICE]
            outputs.append((text, *self._pages.feed(text)))
            if outputs.waiting >= CHECKPOINT_BYTES:
                outputs.sync()
        self._lines += part.lines
        for name, count in part.redacted.items():
            self._redacted[name] = self._redacted.get(name, 0) + count

    def _save(self, outputs: Outputs, transcriber: Transcriber) -> None:
        outputs.sync()
        out, parsed, rows = outputs.sizes
        checkpoint = Checkpoint(
            raw=transcriber.offset, sizes=(out, parsed, rows), lines=self._lines, redacted=self._redacted
        )
        try:
            files.replace(self._scratch / "follow.json", checkpoint.model_dump_json() + "\n")
        except OSError as error:  # the older checkpoint stays true, only more would be written again
            self._lag.begin(f"{self._scratch}: {error.strerror}")
        self._checkpoint, self._saved = checkpoint, clock.monotonic()

    def end(self) -> int | None:
        """The final size of the raw output once the supervisor has told it; less if the disk has less."""
        if self._end is None and (said := files.read_object(self._scratch / "raw.end")) is not None:
            size = said.get("size")
            if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
                self._end = min(size, os.stat(self._raw).st_size if self._raw.exists() else 0)
        return self._end

    @property
    def complete(self) -> bool:
        """Whether every raw byte up to the end is in the outputs; then `finish` is next."""
        end = self.end()
        if end == 0 and not self._raw.exists():
            return True
        return self._transcriber is not None and self._transcriber.offset == end

    def finish(self) -> bool:
        """Write the last events and `follow.done`. False when `raw` changed while it was read, or when the results
        tree lost what was written: then go on with `step`."""
        end = self.end() or 0
        try:
            if self.outputs is None:
                self.outputs = Outputs(self._paths, self._checkpoint.sizes, self._lag.begin, self._pause)
            self.outputs.append((b"", *self._pages.close()))
            self.outputs.sync()
        except Lost as error:
            self._lag.begin(str(error))
            self._begin(Checkpoint())
            return False
        try:
            ending = endings.of_index(self._paths[2])
        except OSError as error:
            self._lag.begin(f"{self._paths[2]}: {error.strerror}")
            return False
        digest = _digest(self._raw, end)
        if digest != self._digest.hexdigest():
            self._lag.begin(f"{self._raw} changed while it was read")
            self._begin(Checkpoint())
            return False
        stamps = self._scratch / "stamps"
        done = {
            "raw_size": end,
            "raw_sha256": digest,
            "out_size": self.outputs.sizes[0],
            "lines": self._lines,
            "late": late_ranges(stamps) if stamps.exists() else [],
            "redacted": self._redacted,
            "ending": ending,
        }
        self._lag.end()
        files.replace(self._scratch / "follow.done", files.dump(done))
        self.close()
        return True


def _digest(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    if size:
        with open(path, "rb") as file:
            while size and (block := file.read(min(1 << 20, size))):
                digest.update(block)
                size -= len(block)
    return digest.hexdigest()


class Reader(threading.Thread):
    """Marks when output arrives, whatever the results tree does, and notices when that does not answer."""

    def __init__(self, scratch: Path, lag: Lag, outputs: Callable[[], Outputs | None]) -> None:
        super().__init__(name="reader", daemon=True)
        self._scratch, self._lag, self._outputs = scratch, lag, outputs
        self.grown, self.stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        """Look at the raw output until stopped."""
        writer: MarkWriter | None = None
        while not self.stopped.wait(POLL_S if writer else 0):
            try:
                writer = writer or MarkWriter(self._scratch / "stamps")
                if writer.look(self._scratch / "raw"):
                    self.grown.set()
            except OSError as error:  # a full disk of the node: later marks are better than none
                self._lag.begin(f"{self._scratch}: {error.strerror}")
                self.stopped.wait(POLL_S)
            outputs = self._outputs()
            busy = outputs.busy_since if outputs is not None else None
            if busy is not None and time.monotonic() - busy > HANG_S:
                self._lag.begin("the results file system does not answer")


def _given(scratch: Path) -> dict[str, str]:
    """Tokens of logins that this run was given, so far (`run.sources.login`, `run.broker`)."""
    found = (files.read_object(scratch / "secrets.json") or {}).get("secrets")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _secrets(scratch: Path, lag: Lag) -> dict[str, str]:
    """What must be redacted; waits until the configuration can be read, because nothing may be written before."""
    delay = FIRST_PAUSE
    while True:
        try:
            return {**settings.load(cwd=Path("/")).secrets(), **_given(scratch)}
        except (PtbError, OSError) as error:
            lag.begin(f"the secrets to redact are not known: {error}")
            time.sleep(delay)
            delay = min(2 * delay, LONGEST_PAUSE)


def follow(scratch: Path, ptb_dir: Path, family: str) -> None:
    """Follow to the end. OSError when the node's own disk refuses; then start again."""
    holder: list[Follower] = []
    lag = Lag(scratch / "lag.json")
    reader = Reader(scratch, lag, lambda: holder[0].outputs if holder else None)
    reader.start()
    try:
        follower = Follower(scratch, ptb_dir, family, _secrets(scratch, lag), lag)
        holder.append(follower)
        while True:
            reader.grown.clear()
            if follower.step():
                continue
            if follower.complete and follower.finish():
                return
            reader.grown.wait(POLL_S)
    finally:
        reader.stopped.set()
        reader.join()


def main(argv: Sequence[str]) -> int:
    """The verb. Two followers of one scratch never work at the same time: the second waits for the first to end."""
    if len(argv) != 3:
        print("usage: follow SCRATCH PTB_DIR FAMILY", file=sys.stderr)
        return 2
    scratch, ptb_dir, family = Path(argv[0]), Path(argv[1]), argv[2]
    lock = os.open(scratch / "follow.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (scratch / "follow.done").exists():
            follow(scratch, ptb_dir, family)
        return 0
    finally:
        os.close(lock)
