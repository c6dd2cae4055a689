"""Sanitised copies of runs to give away: their traces, results and the texts of their workspace (H §3.7, §7.12).

    <out>/<method>/<run>/…        the copies, with export.json: what was replaced in which file
    <out>/report.json report.txt  the same for all runs of one call
    <out>/.state/…                what the copies were made from, so that a second call does only what is new

Runs are only read, links are not followed, and an interrupted export leaves no half copy behind.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core import clock, files
from ptb_tui.core.errors import StorageError
from ptb_tui.results.records import RunRecord
from ptb_tui.results.regular import open_regular, read_record
from ptb_tui.results.sanitising import Report, Sanitiser
from ptb_tui.results.workspace import LeftOut, texts

VERSION = 1  # of what an export does; another one makes all copies again
ANCHOR = "solve_out.txt"
_BLOCK = 1 << 20
_VERDICT, _OUTPUT = "judgement_gpt5_4", "judge_output_gpt5_4"
NAMES = (
    (ANCHOR, (ANCHOR,)),
    ("solve_parsed.txt", ("solve_parsed.txt",)),
    *((name, (name,)) for name in ("metrics.json", "metrics_averaged.json", "error.log", "time_taken.txt",
                                   "system_monitor.log")),
    (f"{_VERDICT}.json", (f"{_VERDICT}_rerun.json", f"{_VERDICT}.json")),
    *((f"{_OUTPUT}{end}", (f"{_OUTPUT}_rerun{end}", f"{_OUTPUT}{end}")) for end in (".json", ".txt")),
)  # fmt: skip
"""Name of a copy, and what it is made from: the first that is there, each sanitised twin before it."""


def _sources(folder: Path) -> dict[str, str]:
    """Name of each copy and of the file that it is made from."""
    found = {}
    for target, names in NAMES:
        twins = [twin for name in names for twin in (_twin(name), name)]
        if (source := next((name for name in twins if _is_regular(folder / name)), None)) is not None:
            found[target] = source
    return found


def _twin(name: str) -> str:
    stem, end = os.path.splitext(name)
    return f"{stem}_sanitized{end}"


def _is_regular(path: Path) -> bool:
    if (fd := open_regular(path)) < 0:
        return False
    os.close(fd)
    return True


def _blocks(path: Path) -> Iterator[bytes]:
    fd = open_regular(path)
    if fd < 0:
        return
    with os.fdopen(fd, "rb") as file:
        while block := file.read(_BLOCK):
            yield block


def secrets_mark(secrets: Mapping[str, str], salt: bytes) -> str:
    """Changes with the secrets and says nothing of them."""
    text = json.dumps(sorted(secrets.items())).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=1 << 12, r=8, p=1, dklen=16).hex()


class Exporter:
    """Exports the runs of one call. StorageError when `out` cannot be written."""

    def __init__(self, out: Path, secrets: Mapping[str, str], *, force: bool = False) -> None:
        self.out, self._force = out, force
        self._state = out / ".state"
        try:
            self._state.mkdir(parents=True, exist_ok=True)
            salt = files.read_bytes(self._state / "salt")
            if salt is None:
                salt = os.urandom(16)
                files.replace(self._state / "salt", salt, mode=0o600)
        except OSError as error:
            raise StorageError(f"{out}: {error.strerror}", hint="--out FOLDER names another place") from None
        self._mark = secrets_mark(secrets, salt)
        self._sanitiser = Sanitiser(secrets)
        self.runs: list[dict[str, Any]] = []

    def add(self, record: RunRecord) -> dict[str, Any]:
        """Export one run; its report. `state` is exported, as before, or missing (it has no trace)."""
        where = f"{record.method}/{record.run_name}"
        report: dict[str, Any] = {"run": record.id, "path": where, "state": "missing"}
        sources = _sources(record.path)
        if record.place == "run" and ANCHOR in sources:
            made_from = self._made_from(record.path, sources)
            kept, target = self._state / f"{record.method}__{record.run_name}.json", self.out / where
            known = read_record(kept, 64 << 20)
            if not self._force and known is not None and known.get("from") == made_from and target.is_dir():
                report = {**known["report"], "state": "as before"}
            else:
                report |= self._copy(record, sources, target)
                files.replace(kept, files.dump({"v": VERSION, "from": made_from, "report": report}))
        self.runs.append(report)
        return report

    def _made_from(self, folder: Path, sources: Mapping[str, str]) -> dict[str, Any]:
        stamps = {}
        for name in (*sources.values(), "task"):
            with contextlib.suppress(OSError):
                info = os.lstat(folder / name)
                stamps[name] = [info.st_size, info.st_mtime_ns]
        return {"version": VERSION, "secrets": self._mark, "files": stamps}

    def _copy(self, record: RunRecord, sources: Mapping[str, str], target: Path) -> dict[str, Any]:
        scratch = self.out / f".new-{os.getpid()}-{record.id}"
        made: dict[str, Any] = {}
        left_out = LeftOut()
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            for name, source in sources.items():
                made[name] = self._write(scratch / name, _blocks(record.path / source), source)
            for name, data in texts(record.path / "task", left_out):
                if self._sanitiser.text(os.fsencode(name))[1].replaced:
                    left_out.add("a secret in its name")
                    continue
                try:
                    made[f"task/{name}"] = self._write(scratch / "task" / name, [data], f"task/{name}")
                except OSError as error:
                    if error.errno != errno.ENAMETOOLONG:
                        raise
                    left_out.add("name too long")
            found = {"state": "exported", "t": clock.utc_text(), "files": made, "left_out": left_out.counts}
            shown = {"v": 1, "run": record.id, "path": f"{record.method}/{record.run_name}", **found}
            (scratch / "export.json").write_text(json.dumps(shown, indent=1) + "\n")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(target, ignore_errors=True)
            os.rename(scratch, target)
        except OSError as error:
            shutil.rmtree(scratch, ignore_errors=True)
            raise StorageError(f"{error.filename or self.out}: {error.strerror}") from None
        return found

    def _write(self, path: Path, blocks: Iterable[bytes], source: str) -> dict[str, Any]:
        report, size = Report(), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            for part in self._sanitiser.stream(blocks, report):
                size += file.write(part)
        found: dict[str, Any] = {"bytes": size}
        if source != path.name and not source.startswith("task/"):
            found["made_from"] = source
        return found | ({"replaced": report.replaced} if report.replaced else {}) | (
            {"warnings": report.warnings} if report.warnings else {}
        )  # fmt: skip

    def finish(self) -> tuple[Path, Path]:
        """Write the report of this call, as JSON and as text."""
        paths = self.out / "report.json", self.out / "report.txt"
        body = {"v": 1, "t": clock.utc_text(), "replaced": totals(self.runs), "runs": self.runs}
        try:
            files.replace(paths[0], json.dumps(body, indent=1) + "\n")
            files.replace(paths[1], words(self.runs))
        except OSError as error:
            raise StorageError(f"{self.out}: {error.strerror}") from None
        return paths


def totals(runs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How often each kind was replaced in all runs."""
    found: dict[str, int] = {}
    for run in runs:
        for file in run.get("files", {}).values():
            for name, number in file.get("replaced", {}).items():
                found[name] = found.get(name, 0) + number
    return dict(sorted(found.items()))


def words(runs: Iterable[Mapping[str, Any]]) -> str:
    """The report for people."""
    lines: list[str] = []
    counts: dict[str, int] = {}
    for run in runs:
        counts[run["state"]] = counts.get(run["state"], 0) + 1
        lines.append(f"{run['run']}  {run['path']}  {run['state']}")
        for name, file in run.get("files", {}).items():
            replaced, warnings = file.get("replaced", {}), file.get("warnings", [])
            if replaced:
                lines.append(f"    {name}: " + ", ".join(f"{number} x {kind}" for kind, number in replaced.items()))
            lines += [
                f"    {name}:{warning['line']}: still has {warning['found']!r}: look at it" for warning in warnings
            ]
        left = run.get("left_out", {})
        if left:
            lines.append(
                "    left out: " + ", ".join(f"{number} ({reason})" for reason, number in sorted(left.items()))
            )
    head = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "no run"
    return "\n".join((f"{head}", *lines)) + "\n"
