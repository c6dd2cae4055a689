"""The last words of a failed attempt: a cause of `core/causes.toml` and the first real error line (cases A20, C02)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core.text import sanitize

_TAIL = 512 << 10
_LINE = 300


@dataclass(frozen=True, slots=True)
class LastWords:
    """`cause` is a row of causes.toml, `kind` a finer word, `line` one line fit for a terminal."""

    cause: str
    kind: str
    line: str

    @property
    def key(self) -> str:
        """What makes two failures "the same": the line without numbers and addresses."""
        return re.sub(r"0x[0-9a-fA-F]+|[0-9]+", "#", f"{self.kind} {self.line}")


# Most telling first: the root of a failure stands above the complaint that it brought about.
_SIGNS: tuple[tuple[str, str, str], ...] = (
    ("disk_full", "no space", r"No space left on device|\[Errno 28\]|ENOSPC"),
    ("quota", "quota", r"Disk quota exceeded|\[Errno 122\]|EDQUOT"),
    ("sandbox", "sandbox", r"^bwrap: |^FATAL: .*(?:container|image)|\[ptb\] sandbox"),
    ("unknown", "package missing", r"^ModuleNotFoundError: |^ImportError: "),
    ("gpu", "no GPU", r"no CUDA-capable device|CUDA driver version is insufficient|No CUDA GPUs are available"
     r"|NVIDIA-SMI has failed|CUDA error: (?!out of memory)|uncorrectable ECC|device-side assert|Xid"),
    ("eval_failed", "GPU memory", r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory"
     r"|Free memory on device|less than desired GPU memory utilization|No available memory for the cache blocks"),
    ("oom", "memory", r"\bMemoryError\b|Cannot allocate memory|\bKilled\b.*oom|oom-kill"),
    ("eval_failed", "port", r"[Aa]ddress already in use"),
    ("eval_failed", "template", r"TemplateSyntaxError|TemplateError|UndefinedError"
     r"|chat[ _]template.*(?:error|invalid|not)|TemplateUnknown|no chat template is known"),
    ("eval_failed", "model load", r"Error(?:\(s\))? (?:in )?loading|safetensors_rust|SafetensorError|HeaderTooLarge"
     r"|does not appear to have a file|not supported for now|Unrecognized model|size mismatch|Can't load tokenizer"
     r"|holds no config\.json|KeyError: '[\w.]*(?:weight|layers|model_type)"),
    ("eval_failed", "server start", r"[Ss]erver (?:process )?(?:failed|exited|crashed|did not)"
     r"|Engine core initialization failed|Failed to (?:start|launch).*(?:server|vLLM)|EngineDeadError"),
)  # fmt: skip
_GRADER = re.compile(r"insufficient_quota|invalid_api_key|AuthenticationError|RateLimitError|graded? .*incomplete")
_COMPILED = tuple((cause, kind, re.compile(pattern)) for cause, kind, pattern in _SIGNS)
_RAISED = re.compile(r"^(?:\S+: )?(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Failure|Exit|Interrupt)\b")
_ERROR = re.compile(r"(?:^|\W)(?:ERROR|Error|error|FATAL|fatal)\b")


def tail(path: Path, limit: int = _TAIL) -> list[str]:
    """The last lines of a log as text; none when it cannot be read. Links are not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            file.seek(max(0, size - limit))
            lines = file.read(limit).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    return lines[1:] if size > limit else lines


def read(lines: list[str], *, grader: bool = False) -> LastWords:
    """What a log ends with. `grader`: the task asks a paid grader, whose refusals are not the model's fault."""
    cut = [line[:4096] for line in lines]
    if grader:
        for line in cut:
            if _GRADER.search(line):
                return LastWords("grading_incomplete", "grader", _words(line))
    for cause, kind, pattern in _COMPILED:
        for line in cut:
            if pattern.search(line):
                return LastWords(cause, kind, _words(line))
    for sign in (_RAISED, _ERROR):
        for line in cut:
            if sign.search(line):
                return LastWords("eval_failed", "error", _words(line))
    last = next((line for line in reversed(cut) if line.strip()), "")
    return LastWords("eval_failed", "", _words(last) or "it printed nothing")


def _words(line: str) -> str:
    return sanitize(line.strip(), limit=_LINE, newlines=False)


def last_words(log: Path, *, rc: int | None, signal: int | None, grader: bool = False) -> LastWords:
    """The last words of an attempt that ended with `rc` or by `signal` and left no usable metrics."""
    found = read(tail(log), grader=grader)
    if signal == 9 and found.cause == "eval_failed":
        return LastWords("oom", "killed", "killed by signal 9, most likely for memory")
    if rc == 3 and found.cause == "eval_failed" and found.kind != "model load":
        return LastWords("unknown", "input missing", found.line)  # the site's files, not the model
    return found
