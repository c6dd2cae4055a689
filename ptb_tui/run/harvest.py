"""Harvest: bring what the agent left from node-local scratch into the run directory (H §1.9, §1.11; design §5).

Everything in the job's home is hostile. May be killed at any moment and run again: each folder is copied beside its
place, checked, brought to the disk and then renamed; `.ptb/harvest.json` is written last and says that all is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.text import sanitize
from ptb_tui.evaluation import fingerprint
from ptb_tui.run import copying, gpu_check
from ptb_tui.run.cli_record import LIMIT, version_block, version_file
from ptb_tui.run.copying import Copied, Limits
from ptb_tui.run.diagnostics import END, ExitFacts, diagnostics, exit_facts_of, time_taken
from ptb_tui.run.returning import take_back

HOME_INSIDE = "/home/ben"
MODEL_LIMITS = Limits(files=fingerprint.MAX_FILES, bytes=2 << 40)
TASK_LIMITS = Limits(files=200_000, bytes=64 << 30)
LEDGER_BYTES = 1 << 30
MAX_FOLDERS = 2_000  # model folders recorded one by one

_MARKS = ("config.json", "pytorch_model.bin", "tokenizer_config.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".msgpack")
_MODEL_FILES = frozenset(
    (
        *_MARKS, "generation_config.json", "tokenizer.json", "tokenizer.model", "special_tokens_map.json",
        "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "model.safetensors.index.json",
        "pytorch_model.bin.index.json", "adapter_config.json", "chat_template.jinja", "preprocessor_config.json",
        "processor_config.json", "README.md", ".gitattributes",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HarvestReport:
    """What was harvested. `model` is present or absent; `model_digest` is "" when absent."""

    model: str
    model_digest: str = ""
    model_files: int = 0
    model_bytes: int = 0
    model_why: str = ""  # why it is absent, or what of it was left out
    task_files: int = 0
    task_bytes: int = 0
    task_left_out: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain form for `.ptb/harvest.json` and the step's result."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "facts"} | self.facts


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _find_model(home: Path, aliases: tuple[str, ...]) -> tuple[str, str]:
    """Path of the model's folder below the home, and "" or why there is none."""
    model = home / "task" / "final_model"
    if not os.path.lexists(model):
        return "", "the agent left no final_model"
    found, why = copying.resolve(str(home), "task/final_model", aliases, "task")
    if why:
        return "", f"final_model is a link that {why}"
    if not _is_folder(home / found):
        return "", "final_model is not a folder"
    return ("", "final_model is a link to the whole task folder") if found == "task" else (found, "")


def harvest_model(ptb: Path, home: Path, limits: Limits = MODEL_LIMITS) -> tuple[str, Copied | None, str]:
    """Copy the final model and write its manifest; digest, what was copied and why not. StepError."""
    run_dir, aliases = ptb.parent, (HOME_INSIDE, str(home))
    final, manifest = run_dir / "final_model", ptb / "final_model.json"
    source, why = _find_model(home, aliases)
    if not source:
        return "", None, why
    partial = run_dir / ".final_model.partial"
    copying.clear(partial)
    with copying.room_given_back(partial):
        copied = copying.copy_tree(home, source, partial, limits, aliases=aliases, within="task")
    digest = fingerprint.digest(copied.files)
    before = (files.read_object(manifest, 64 << 20) or {}).get("digest")
    if (run_dir / "metrics.json").exists() and before != digest:
        copying.clear(partial)
        raise StepError(f"{run_dir} already holds a score of another model")
    copying.flush(partial)
    record = {
        "v": 1,
        "digest": digest,
        "source": fingerprint.shown(source),
        "bytes": copied.bytes,
        "files": [entry.to_json() for entry in copied.files],
        "left_out": copied.left_out,
        "left_out_count": copied.left_out_count,
    }
    copying.put_in_place(partial, final)
    _write(manifest, record)
    shown = f"{copied.left_out_count} entries of it were left out" if copied.left_out_count else ""
    return digest, copied, shown


def _write(path: Path, record: dict[str, Any]) -> None:
    try:
        files.replace(path, files.dump(record))
    except OSError as error:
        raise copying.refusal(error, f"writing {path}") from error


def _config_sha(folder: Path) -> str:
    data = files.read_bytes(folder / "config.json", 16 << 20)
    return hashlib.sha256(data).hexdigest() if data is not None else ""


@dataclass(slots=True)
class _ModelFolders:
    """Decides what of the task folder is a model: those files stay behind, other files beside them are evidence."""

    home: Path
    found: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def __call__(self, path: str, entries: list[os.DirEntry[str]]) -> set[str] | None:
        """The names to keep of a model folder; None for any other folder (rule of H §1.11 step 4)."""
        names_here = {entry.name for entry in entries}
        weights = any(name.endswith(".safetensors") for name in names_here)
        if not weights and sum(mark in names_here for mark in _MARKS) < 2:
            return None
        sizes: dict[str, int] = {}
        for entry in entries:
            if not (entry.name in _MODEL_FILES or entry.name.endswith(_WEIGHTS)):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                sizes[entry.name] = info.st_size
        self.count += 1
        if len(self.found) < MAX_FOLDERS:
            largest = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:50]
            self.found.append(
                {
                    "path": fingerprint.shown(path.removeprefix("task").lstrip("/") or "."),
                    "files": len(sizes),
                    "bytes": sum(sizes.values()),
                    "sizes": {fingerprint.shown(name): size for name, size in largest},
                    "config_sha256": _config_sha(self.home / path),
                }
            )
        return names_here - sizes.keys()


def harvest_task(ptb: Path, home: Path, limits: Limits = TASK_LIMITS, *, model_taken: bool = True) -> Copied:
    """Copy the task folder without models and write what was left out; `model_taken`: `final_model` is in safety.

    StepError.
    """
    partial = ptb.parent / ".task.partial"
    copying.clear(partial)
    models = _ModelFolders(home)
    skip = frozenset(("task/final_model",)) if model_taken else frozenset()
    with copying.room_given_back(partial):
        copied = copying.copy_tree(home, "task", partial, limits, skip=skip, choose=models)
        copying.flush(partial)
    copying.put_in_place(partial, ptb.parent / "task")
    _write(ptb / "model_folders.json", {"v": 1, "count": models.count, "folders": models.found})
    _write(
        ptb / "task.json",
        {
            "v": 1,
            "digest": fingerprint.digest(copied.files),
            "files": len(copied.files),
            "bytes": copied.bytes,
            "left_out_count": copied.left_out_count,
            "left_out": copied.left_out,
        },
    )
    return copied


def _append_once(log: Path, block: str) -> None:
    """Append to `output.log` unless an interrupted harvest did so before. StepError."""
    try:
        fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        with os.fdopen(fd, "r+b") as file:
            size = os.fstat(fd).st_size
            file.seek(max(0, size - 65536))
            end = file.read()
            if f"{END}\n".encode() not in end:
                start = b"" if not end or end.endswith(b"\n") else b"\n"
                file.write(start + block.encode("utf-8", "replace"))
    except OSError as error:
        raise copying.refusal(error, f"writing {log}") from error


def _keep_ledger(source: Path, target: Path) -> None:
    """Keep the gateway's ledger, which the host wrote, where judges find it. StepError."""
    try:
        if not stat.S_ISREG(source.lstat().st_mode) or source.lstat().st_size > LEDGER_BYTES:
            return
    except OSError:
        return
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    copying.copy_file(str(source), str(partial))
    os.replace(partial, target)


def harvest(
    run_dir: Path,
    job_home: Path,
    *,
    exit_facts: ExitFacts,
    hours: float | None = None,
    model_limits: Limits = MODEL_LIMITS,
    task_limits: Limits = TASK_LIMITS,
) -> HarvestReport:
    """Copy model and task folder, write `time_taken.txt` and the diagnostics. Idempotent.

    The model comes first: it is what the hours were spent on. StepError with cause disk_full or quota when the
    results tree is full, host_lost when the job's home is gone before a harvest was complete.
    """
    ptb = run_dir / ".ptb"
    done = ptb / "harvest.json"
    for folder in (job_home, job_home / "task"):  # an agent may have taken the rights from its own home
        if _is_folder(folder):
            copying.open_up(str(folder), folder.lstat(), stat.S_IRWXU)
    if not _is_folder(job_home):
        before = files.read_object(done)
        if before is None:
            raise StepError(f"{job_home} is gone and was not harvested", cause="host_lost")
        known = {name: before[name] for name in HarvestReport.__slots__ if name != "facts" and name in before}
        return HarvestReport(**known)
    (ptb / "reserve").unlink(missing_ok=True)  # held room for what comes now
    model_why, task = "the agent removed its task folder", Copied()
    digest, model = "", None
    if _is_folder(job_home / "task"):
        digest, model, model_why = harvest_model(ptb, job_home, model_limits)
        task = harvest_task(ptb, job_home, task_limits, model_taken=model is not None)
    _keep_ledger(job_home.parent / "egress.jsonl", ptb / "egress.jsonl")
    recorded = (files.read_object(ptb / "provenance.json") or {}).get("cli")
    left = files.read_bytes(job_home / "cli_version.txt", LIMIT)
    version = version_file(recorded if isinstance(recorded, dict) else {}, left, clock.utc_text())
    try:
        files.replace(run_dir / "cli_version.txt", version)
        if exit_facts.elapsed_s is not None:
            files.replace(run_dir / "time_taken.txt", time_taken(exit_facts.elapsed_s))
    except OSError as error:
        raise copying.refusal(error, f"writing into {run_dir}") from error
    entries = len(os.listdir(run_dir / "final_model")) if model is not None else 0
    words = diagnostics(exit_facts, hours, entries, job_home) + version_block(version)
    _append_once(run_dir / "output.log", words)
    report = HarvestReport(
        model="present" if model is not None else "absent",
        model_digest=digest,
        model_files=len(model.files) if model else 0,
        model_bytes=model.bytes if model else 0,
        model_why=model_why,
        task_files=len(task.files),
        task_bytes=task.bytes,
        task_left_out=task.left_out_count,
    )
    _write(done, {"v": 1, **report.to_json()})
    return report


def harvest_main(argv: Sequence[str]) -> int:
    """Internal verb: argv is `[ptb_dir, step_folder, scratch]`; the job's home is `<scratch>/home`.

    Writes `result.json` into the step's folder, else `harvest-result.json` into the scratch when the results tree
    refuses; returns 0 when everything was harvested.
    """
    ptb, step, scratch = (Path(part) for part in argv[:3])
    spec = files.read_object(RunFiles(ptb).spec) or {}
    hours = spec.get("hours")
    try:
        report = harvest(
            ptb.parent,
            scratch / "home",
            exit_facts=exit_facts_of(step, scratch),
            hours=float(hours) if isinstance(hours, int | float) else None,
        )
        result = {"outcome": "done", "cause": "", "why": report.model_why, **report.to_json()}
        result |= gpu_check.facts(scratch / "raw", spec.get("gpus"))
    except (PtbError, OSError) as error:
        found = copying.refusal(error, str(error.filename)) if isinstance(error, OSError) else error
        cause = found.cause if isinstance(found, StepError) else "unknown"
        result = {"outcome": "failed", "cause": cause, "why": sanitize(found.message, limit=2000)}
    with contextlib.suppress(OSError):  # a full scratch: the next attempt takes it back
        result |= take_back(scratch)
    text = files.dump({"v": 1, **result})
    try:
        files.replace(step / "result.json", text)
    except OSError as error:
        print(f"result.json cannot be written: {error.strerror}", file=sys.stderr)
        files.replace(scratch / "harvest-result.json", text)
        return 1
    print(text, end="")
    return 0 if result["outcome"] == "done" else 1


main = harvest_main
