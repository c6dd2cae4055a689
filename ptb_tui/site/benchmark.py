"""Answers about the benchmark itself: protocols, what differs between two fingerprints, prompts."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.content import fingerprint
from ptb_tui.content.fingerprint import Print
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import PROMPTS, named_prompt, prompt_file, prompt_of
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.reading import known_as
from ptb_tui.content.tasks import load_task
from ptb_tui.core import files
from ptb_tui.core.benchmark import (
    BenchmarkRef,
    DiffQuery,
    DiffView,
    FileDiff,
    PromptQuery,
    PromptView,
    ProtocolRow,
    ProtocolsView,
)
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotFound, PtbError, UsageError
from ptb_tui.core.spec import RunSpec, Sweep

if TYPE_CHECKING:
    from ptb_tui.results.records import RunRecord
    from ptb_tui.site.local import LocalSite

MAX_TEXT = 1 << 18  # of one file that is compared, and of a prompt
MAX_FILES = 40  # that are compared as text
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def protocols(site: LocalSite) -> ProtocolsView:
    """All protocols, each with where it comes from and its fingerprint as things are now."""
    rows = []
    for name, path in sorted(site.content.overlay("tasks/protocols").items()):
        if not name.endswith(".toml") or "/" in name:
            continue
        found = name.removesuffix(".toml")
        try:
            protocol = load_protocol(site.content, found)
            prompt = named_prompt(site.content, protocol, site.settings.values)
            rows.append(
                ProtocolRow(
                    name=found,
                    label=protocol.label,
                    file=str(path),
                    prompt=prompt_file(protocol, prompt),
                    tasks=protocol.tasks,
                    models=protocol.models,
                    fingerprint=fingerprint.take(site.content, protocol, prompt).fingerprint,
                )
            )
        except PtbError as error:
            rows.append(ProtocolRow(name=found, file=str(path), problem=error.message))
    return ProtocolsView(protocols=tuple(rows))


class _Side:
    """One side of a comparison: what it is made of, and where its bytes may still be."""

    def __init__(self, site: LocalSite, asked: str) -> None:
        self.ref, self._places = BenchmarkRef(asked=asked), Content(())
        self.print: Print | None = None
        if _FINGERPRINT.fullmatch(asked) and (found := fingerprint.recall(site.root, asked)) is not None:
            self._kept(site, asked, found)
        elif "/" not in asked and site.content.file(f"tasks/protocols/{asked}.toml") is not None:
            protocol = load_protocol(site.content, asked)
            prompt = named_prompt(site.content, protocol, site.settings.values)
            self.print, self._places = fingerprint.take(site.content, protocol, prompt), site.content
            self.ref = BenchmarkRef(asked=asked, protocol=asked, fingerprint=self.print.fingerprint)
        else:
            self._run(site, asked)

    def _kept(self, site: LocalSite, asked: str, found: Print | None) -> None:
        self.print = found
        if found is not None:
            self.ref = BenchmarkRef(asked=asked, protocol=found.protocol, fingerprint=found.fingerprint)
            if found.bundle:
                self._places = Content((site.root.own("bundles") / found.bundle,))

    def _run(self, site: LocalSite, asked: str) -> None:
        try:
            record = site.record(asked)
        except NotFound as error:
            protocols = ", ".join(sorted(Path(name).stem for name in site.content.overlay("tasks/protocols")))
            raise NotFound(
                f"{asked!r} is no protocol, no fingerprint that was kept, and {error.message}",
                hint=f"protocols: {protocols}; `ptb-tui runs` lists the runs",
            ) from error
        if not record.fingerprint:
            raise UsageError(f"run {record.id} was made by others and has no fingerprint")
        self._kept(site, asked, fingerprint.recall(site.root, record.fingerprint))
        spec = record.spec or {}
        protocol = spec.get("protocol") or {}
        self.ref = BenchmarkRef(
            asked=asked,
            protocol=record.protocol,
            fingerprint=record.fingerprint,
            items=str(protocol.get("data") or "") if isinstance(protocol, dict) else "",
        )

    def lines(self, name: str) -> list[str] | None:
        """The text of a file as it was; None where it is gone, changed since, or no text."""
        path = self._places.file(name)
        if path is None or self.print is None or fingerprint.digest_of(path) != self.print.parts.get(name):
            return None
        data = files.read_bytes(path, MAX_TEXT)
        try:
            return None if data is None else data.decode("utf-8").splitlines(keepends=True)
        except UnicodeDecodeError:
            return None


def _text(name: str, before: _Side, after: _Side) -> str:
    old, new = before.lines(name), after.lines(name)
    if old is None or new is None:
        return ""
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def diff(site: LocalSite, query: DiffQuery) -> DiffView:
    """What differs. NotFound when a side is neither a fingerprint, a protocol nor a run."""
    before, after = _Side(site, query.before), _Side(site, query.after)
    view = DiffView(before=before.ref, after=after.ref)
    notes = []
    if before.ref.items and after.ref.items and before.ref.items != after.ref.items:
        notes.append("the test items differ, or these are runs of two tasks")
    for side in (before, after):
        if side.print is None and before.ref.fingerprint != after.ref.fingerprint:
            notes.append(f"what {side.ref.fingerprint} is made of was not kept")
    if before.print is None or after.print is None:
        return view.model_copy(update={"note": "; ".join(notes)})
    found = fingerprint.difference(before.print.parts, after.print.parts)
    rows = [FileDiff(file=name, how="removed") for name in found.removed]
    rows += [FileDiff(file=name, how="added") for name in found.added]
    for number, name in enumerate(found.changed):
        wanted = query.text and number < MAX_FILES
        rows.append(FileDiff(file=name, how="changed", text=_text(name, before, after) if wanted else ""))
    rows.sort(key=lambda row: row.file)
    if query.text and any(row.how == "changed" and not row.text for row in rows):
        notes.append("some files cannot be read any more, or are no text")
    return view.model_copy(update={"files": tuple(rows), "note": "; ".join(notes)})


def _of_sweep(site: LocalSite, sweep: Sweep, query: PromptQuery) -> RunSpec:
    from ptb_tui.site.answers import plan

    wanted = {"agent": query.agent, "config": query.config, "benchmark": query.task, "base_model": query.model}
    specs = [cell.spec for cell in plan(site, sweep).cells]
    for spec in specs:
        if all(not value or getattr(spec, name) == value for name, value in wanted.items()):
            return spec
    cells = ", ".join(f"{spec.agent} {spec.config} / {spec.benchmark} / {spec.base_model}" for spec in specs[:5])
    raise NotFound(
        f"the sweep {sweep.name} has no such cell", hint=f"it has {cells}" + (" …" if len(specs) > 5 else "")
    )


def _sent(record: RunRecord) -> str | None:
    if record.place != "run":
        return None
    data = files.read_bytes(record.path / "prompt.txt", MAX_TEXT)
    return None if data is None else data.decode("utf-8", "replace")


def prompt(site: LocalSite, query: PromptQuery) -> PromptView:
    """What an agent gets: of a run that began what it got, else what it would get. NotFound for another cell."""
    content, sent = site.content, None
    if query.sweep is not None:
        spec = _of_sweep(site, query.sweep, query)
    else:
        record = site.record(query.run)
        sent = _sent(record)
        if record.spec is None:
            if sent is None:
                raise NotFound(f"run {record.id} has no prompt.txt")
            return PromptView(
                method=record.method,
                benchmark=record.benchmark,
                model=record.model,
                file=str(record.path / "prompt.txt"),
                fingerprint="",
                sent=True,
                text=sent,
            )
        spec = RunSpec.model_validate(record.spec)
        frozen = site.root.own("bundles") / (spec.bundle or "none")
        content = Content((frozen,)) if frozen.is_dir() else content
        if sent is not None:
            return _view(spec, str(record.path / "prompt.txt"), sent, True)
    task = load_task(content, spec.benchmark, data_store(site.root.path))
    protocol = load_protocol(content, spec.protocol.name)
    path: Path | None = content.file(f"{PROMPTS}/{prompt_file(protocol, spec.prompt)}")
    return _view(spec, known_as(path) if path else "", prompt_of(content, spec, task, protocol), False)


def _view(spec: RunSpec, file: str, text: str, sent: bool) -> PromptView:
    return PromptView(
        method=spec.method,
        benchmark=spec.benchmark,
        model=spec.base_model,
        file=file,
        fingerprint=spec.protocol.fingerprint,
        sent=sent,
        text=text,
    )
