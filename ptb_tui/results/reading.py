"""Read one run from its folder: record, facts and worth."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from ptb_tui.core import names
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.history import VOTES
from ptb_tui.judging.speech import Layer
from ptb_tui.results.foreign import foreign_model, read_foreign, words
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.records import Place, RunRecord, shown_step
from ptb_tui.results.regular import read_regular
from ptb_tui.results.steps import read_observed, read_steps
from ptb_tui.results.verdicts import KNOWN, decisions
from ptb_tui.results.worth import gather, worth

_SPEC_LIMIT = 1 << 20
_MAX_STAMPS = 500
_JUDGEMENT = re.compile(r"judgement_|\w+_judgement\.txt")
_STATE_WORDS = {"waiting": "waits", "submit_unknown": "not known whether it was submitted"}


def _listed(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def stamp_names(root: Root, relative: str, place: Place, ours: bool, overlay: Overlay | None = None) -> list[str]:
    """Everything whose change may change what we say of a run that has settled: below the root, or absolute.

    What is absent needs no stamp, because making it changes its folder; but for the overlay's own folder.
    """
    ptb = f"{relative}/.ptb" if place == "run" else relative
    found = [relative] if place == "run" else []
    if ours:
        found += [ptb, f"{ptb}/steps"]
        found += [f"{ptb}/steps/{name}" for name in _unproven(root.path / ptb / "steps")]
    if place == "run":
        found += [f"{relative}/{name}" for name in ("metrics.json", "time_taken.txt")]
    if ours:
        found.append(f"{ptb}/reviews")
    found += _judged(root.path, ptb if ours else "", relative if place == "run" else "")
    found = [name for name in found if os.path.lexists(root.path / name)]
    over = overlay or Overlay(root)
    if place == "run" and over.covers(root.path, ours):
        layer = str(over.files(relative).ptb.parent)
        found.append(layer)
        if os.path.lexists(layer):
            above = [f"{layer}/.ptb", f"{layer}/.ptb/reviews", *_judged(Path("/"), f"{layer}/.ptb", layer)]
            found += [name for name in above if os.path.lexists(name)]
    return found[:_MAX_STAMPS]


def _judged(base: Path, ptb: str, run: str) -> list[str]:
    """What judges left below one layer of a run; `ptb` is empty for a run of others, `run` for one without a
    directory."""
    found = [f"{ptb}/verdicts", *(f"{ptb}/verdicts/{name}" for name in _listed(base / ptb / "verdicts"))] if ptb else []
    if run:
        names_ = _listed(base / run)
        found += [f"{run}/{name}" for name in names_ if _JUDGEMENT.match(name)]
        if VOTES in names_:
            found += [f"{run}/{VOTES}/{name}" for name in _listed(base / run / VOTES)]
    return found


def _unproven(steps: Path) -> list[str]:
    """Steps without exit record: one may still come."""
    return [name for name in _listed(steps) if not os.path.lexists(steps / name / "exit.json")]


def _spec(run: RunFiles) -> tuple[dict[str, Any] | None, str]:
    data = read_regular(run.spec, _SPEC_LIMIT)
    if data is None:
        try:
            size = os.lstat(run.spec)
        except OSError as error:
            return None, f"spec.json: {error.strerror}"
        return None, f"spec.json is not a readable file of at most {_SPEC_LIMIT} bytes ({size.st_size})"
    try:
        value = from_json(data)
    except ValueError as error:
        return None, f"spec.json cannot be understood: {sanitize(str(error), limit=120, newlines=False)}"
    return (value, "") if isinstance(value, dict) else (None, "spec.json is not an object")


def _text(spec: Mapping[str, Any], name: str) -> str:
    value = spec.get(name)
    return value if isinstance(value, str) and value.isprintable() else ""


def _method(spec: Mapping[str, Any]) -> str:
    hours, gpus = spec.get("hours"), spec.get("gpus", 1)
    if not isinstance(hours, int | float) or not isinstance(gpus, int) or isinstance(hours, bool):
        return ""
    try:
        return names.method_name(_text(spec, "agent"), _text(spec, "config"), hours, gpus, _text(spec, "experiment"))
    except (ArithmeticError, ValueError):
        return ""


def _progress(record: RunRecord) -> str:
    step = shown_step(record.steps)
    if step is None:
        return "never started" if record.place == "never_started" else ""
    if step.ended:
        return f"never started: {step.why or step.state}" if record.place == "never_started" else ""
    state = _STATE_WORDS.get(step.state, step.state)
    return f"{step.name} {state}{f': {step.phase}' if step.phase else ''}"


def _read_ours(root: Root, relative: str, place: Place, observed: bool) -> RunRecord | None:
    path = root.path / relative
    run = RunFiles(path / ".ptb" if place == "run" else path)
    problems: list[str] = []
    spec, problem = _spec(run)
    if problem:
        if not os.path.isdir(run.ptb):
            return None  # it moved on while we looked
        problems.append(problem)
    given = spec or {}
    steps = read_steps(run, read_observed(root, _id(path, place)) if observed else {})
    problems += steps.problems
    method, _, run_name = relative.rpartition("/") if place == "run" else (_method(given), "", "")
    parsed = names.parse_run(run_name)
    run_id = _id(path, place)
    benchmark, model = _text(given, "benchmark"), _text(given, "base_model")
    if not (benchmark and model) and parsed is not None:
        benchmark, model = parsed.benchmark, parsed.model.replace("_", "/", 1)
    if given and given.get("id") != run_id:
        problems.append(f"spec.json says id {given.get('id')!r}")
    protocol = given.get("protocol")
    protocol = protocol if isinstance(protocol, dict) else {}
    agent = next((step for step in steps.steps if step.kind == "agent"), None)
    return RunRecord(
        id=run_id,
        method=method,
        run_name=run_name or (f"{benchmark}_{names.safe(model)}_{run_id}" if benchmark and model else str(run_id)),
        benchmark=benchmark,
        model=model,
        origin="ptb",
        place=place,
        root=root.path,
        relative=relative,
        protocol=_text(protocol, "name"),
        fingerprint=_text(protocol, "fingerprint"),
        created=_text(given, "created"),
        started=agent.started if agent else "",
        sweep=_text(given, "sweep"),
        sweep_name=_text(given, "sweep_name"),
        spec_text=json.dumps(spec) if spec is not None else "",
        steps=steps.steps,
        problems=tuple(problems),
    )


def _id(path: Path, place: Place) -> int:
    parsed = names.parse_run(path.name) if place == "run" else None
    return parsed.run_id if parsed else int(path.name)


def read_run(
    root: Root,
    relative: str,
    place: Place,
    ours: bool,
    observed: bool = True,
    judges: Mapping[str, JudgeSpec] | None = None,
    now: float | None = None,
    overlay: Overlay | None = None,
) -> RunRecord | None:
    """Read one run; None when its folder is gone. `relative` must name a run (`names.parse_run`) or an id."""
    path = root.path / relative
    specs = {**KNOWN, **judges} if judges is not None else KNOWN
    moment = time.time() if now is None else now
    problems: list[str] = []
    folders = (overlay or Overlay(root)).layers(root.path, relative, ours) if place == "run" else ()
    layers = [Layer.of(folder) for folder in folders]
    decision = decisions(layers)
    problems += decision.problems
    if ours:
        record = _read_ours(root, relative, place, observed)
        if record is None:
            return None
        facts = gather(record, specs=specs, layers=layers, decision=decision)
        said = _progress(record)
    else:
        found = read_foreign(path)
        method, _, run_name = relative.rpartition("/")
        parsed = names.parse_run(run_name)
        assert parsed is not None, "the caller asks for run names alone"
        record = RunRecord(
            id=parsed.run_id,
            method=method,
            run_name=run_name,
            benchmark=parsed.benchmark,
            model=foreign_model(found.arguments, parsed),
            origin=found.origin,
            place="run",
            root=root.path,
            relative=relative,
            created=found.started,
            started=found.started,
            problems=(found.problem,) if found.problem else (),
        )
        facts = gather(record, foreign=found, specs=specs, layers=layers, decision=decision)
        said = words(found, moment)
    step = shown_step(record.steps)
    why = sanitize(step.why, limit=300, newlines=False) if step is not None and step.ended else ""
    assessment = worth(facts, active=record.active, words=said, why=why)
    problems += [text for text in (facts.metrics_problem, facts.time_problem) if text]
    problems += [
        f"judge {verdict.judge}: {verdict.state.value}: {verdict.reason or verdict.justification}"
        for verdict in facts.verdicts
        if verdict.state not in ("clean", "flagged", "missing")
    ]
    return replace(
        record,
        values=facts.model_dump(mode="json", exclude={"verdicts"}),
        verdicts_text=json.dumps(
            [verdict.model_dump(mode="json", exclude_defaults=True) for verdict in facts.verdicts],
            ensure_ascii=False,
            separators=(",", ":"),
        ),
        assessment=assessment._replace(worth=str(assessment.worth)),
        problems=(*record.problems, *problems),
    )
