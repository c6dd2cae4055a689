"""The work `baseline`: wait for a slot, measure a model as it is, keep what came of it (E §6.4)."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptb_tui.content.datafile import BASELINE, ITEMS
from ptb_tui.content.lookup import Content
from ptb_tui.core import clock, files, settings
from ptb_tui.core.baseline import BaselineOrder, BaselineRow
from ptb_tui.core.errors import NotAllowed, StepError
from ptb_tui.core.layout import Root
from ptb_tui.evaluation import final, fingerprint, record, seeds, validity
from ptb_tui.run import baselines, locks, place, processes
from ptb_tui.run.baselines import Here, Ready
from ptb_tui.run.dispatch import slot_names
from ptb_tui.run.erasing import erase
from ptb_tui.run.steps import provenance, template_of
from ptb_tui.run.steps.attempt import Attempts
from ptb_tui.run.steps.phases import ANSWERS, Phase, phases_of
from ptb_tui.run.work import Report
from ptb_tui.sandbox.select import OVER_IMAGES

_LOOK_S = 2.0
_GENERATE = Phase("generate", ("--generate-only",), keep=(ANSWERS,), once=True)


@contextlib.contextmanager
def slot(root: Root, report: Report) -> Iterator[str]:
    """A free slot like that of a run, a GPU where there is one; waits for it. The queue is looked after at the end."""
    state, said = locks.state_folder(root), False
    every = slot_names(root)
    kind = "gpu" if any(name.startswith("gpu:") for name in every) else "cpu"
    fd = None
    while fd is None:
        for name in (name for name in every if name.startswith(kind)):
            if (fd := locks.take_slot(root, name)) is not None:
                break
        else:
            if not said:
                report.line(f"waits for a {kind} slot; all {sum(n.startswith(kind) for n in every)} are taken")
                said = True
            report.now(f"waits for a {kind} slot")
            time.sleep(_LOOK_S)
    kind, _, rest = name.partition(":")
    with contextlib.suppress(OSError):
        files.replace(state / f"slot-{kind}-{rest}.txt", f"a baseline since {clock.utc_text()}")
    try:
        yield name
    finally:
        os.close(fd)
        if place.pending(root):
            place.start_dispatch(root)


def measure(here: Here, order: BaselineOrder, operator: str, report: Report) -> str:
    """Do what the order says; returns how it went, in words. PtbError with what failed."""
    processes.become_subreaper()
    found = baselines.ready(here, order)
    blocking = [one for one in baselines.plan(here, found).problems if one.blocks]
    if blocking:
        raise NotAllowed(blocking[0].words, hint=blocking[0].remedy)
    base = place.scratch_base(here.root)
    base.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="ptb-baseline-", dir=base))
    try:
        with slot(here.root, report) as name:
            return _measure(here, found, operator, report, scratch, place.slot_gpus(name))
    finally:
        erase(scratch)


def _measure(here: Here, found: Ready, operator: str, report: Report, scratch: Path, gpus: tuple[str, ...]) -> str:
    task, protocol, content = found.task, found.protocol, here.content
    model_dir = baselines.materialise(found.model, scratch / "model")
    if problem := validity.check(model_dir).problem:
        raise StepError(f"{found.model.name} {problem.removeprefix('final_model ')}", cause="invalid_model")
    sandbox = baselines.sandbox_of(here, found)
    if found.order.answers:
        task = replace(task, beside={**task.beside, BASELINE: _nothing_to_compare(task.beside[ITEMS], scratch)})
        phases: tuple[Phase, ...] = (_GENERATE, Phase())  # the second is never begun
    else:
        phases = phases_of(task, here.values)
    image = found.spec.images.get("evaluation", "") if sandbox.name in OVER_IMAGES else ""
    report.now("reads the model", force=True)
    digest, _ = fingerprint.of_folder(model_dir)
    made_with = provenance.of_evaluation(content, protocol, task, found.model.name, image)
    planned = {
        "task": task.name,
        "model": digest,
        "base_model": found.model.name,
        "protocol": found.spec.protocol.model_dump(),
        "seeds": list(found.seeds),
        "limit": found.limit,
        "answers": found.order.answers,
        "sandbox": sandbox.name,
        **made_with,
    }
    folder = baselines.place_of(here.root, task.name, found.model.name)
    folder.mkdir(parents=True, exist_ok=True)
    kept = record.open_record(folder, planned, f"baseline-{os.getpid()}", lambda step: False)
    attempts = Attempts(
        task=task,
        content=content,
        sandbox=sandbox,
        model_dir=model_dir,
        base_model=found.model.name,
        base_dir=model_dir,
        scratch=scratch,
        out_dir=kept.folder,
        timeout_s=task.file.final.attempt_timeout_s,
        limit=found.limit,
        gpus=gpus,
        template=template_of(protocol, found.model.name),
        phases=phases,
        values=here.values,
    )
    names = provenance.gpus(scratch, gpus)

    def attempted(attempt: final.Attempt) -> final.AttemptResult:
        if (known := kept.known(attempt)) is not None:
            return known
        result = _generated(attempts, attempt) if found.order.answers else attempts(attempt)
        kept.note(replace(attempt, result=result))
        return result

    start = clock.monotonic()
    outcome = final.run_final(
        found.seeds,
        task.file.final.ladder,
        attempted,
        identical_failures=task.file.final.identical_failures,
        eases=len(attempts.eases),
        report=lambda attempt: _tell(report, attempt, len(found.seeds)),
    )
    kept.more["provenance"] = made_with | {
        "versions": provenance.versions(sandbox, scratch),
        "gpus": names,
        "graders": provenance.graders(kept.folder),
        "sandbox": sandbox.name,
        "sandbox_notes": attempts.notes,
        "model_digest": digest,
        "operator": operator,
        "seconds": round(clock.monotonic() - start, 3),
    }
    kept.conclude(outcome)
    if outcome.cause:
        raise StepError(outcome.why, cause=outcome.cause, hint=f"the logs are in {kept.folder}")
    row = _row(found, kept, outcome)
    if found.order.answers:
        row = _keep_answers(found, kept.folder, row)
    else:
        metrics = seeds.aggregate(outcome.measured, len(found.seeds))
        files.replace(kept.folder / "metrics.json", files.dump(metrics))
        row = row.model_copy(update={"accuracy": metrics["accuracy"], "stderr": metrics.get("stderr")})
        row = row.model_copy(update={"line": baselines.toml_line(row.model_dump())})
    files.replace(kept.folder / baselines.NAME, files.dump({"v": 1, "row": row.model_dump(mode="json")}))
    return _words(row, outcome)


def _tell(report: Report, attempt: final.Attempt, of: int) -> None:
    where = f"seed {attempt.seed}, attempt {attempt.n}, stage {attempt.stage}"
    if attempt.result is None:
        report.line(where)
        report.now(f"{where}; {of} seed{'' if of == 1 else 's'} in all", force=True)
    elif attempt.result.metrics is None:
        report.line(f"{where}: failed after {attempt.result.seconds:.0f} s: {attempt.result.words}")
    else:
        accuracy = attempt.result.metrics.get("accuracy")
        said = "" if accuracy is None else f"accuracy {accuracy:.4f} "
        report.line(f"{where}: {said}after {attempt.result.seconds:.0f} s")


def _row(found: Ready, kept: record.Record, outcome: final.Outcome) -> BaselineRow:
    accuracies = [float(one.metrics["accuracy"]) for one in outcome.measured.values() if "accuracy" in one.metrics]
    return BaselineRow(
        task=found.task.name,
        model=found.model.name,
        protocol=found.protocol.name,
        fingerprint=found.spec.protocol.fingerprint,
        spread=statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        seeds=tuple(outcome.measured),
        limit=found.limit,
        whole=found.whole and len(outcome.measured) == len(found.seeds) and not found.order.answers,
        t=clock.utc_text(),
        folder=str(kept.folder),
    )


def _words(row: BaselineRow, outcome: final.Outcome) -> str:
    if row.answers:
        return f"{row.count} answers of {row.model} are in {row.answers}"
    error = f" ± {row.stderr:.4f}" if row.stderr is not None else ""
    part = "" if row.whole else "; in part, so not for a protocol"
    why = f"; {outcome.why}" if outcome.why else ""
    many = f"{len(row.seeds)} seed{'' if len(row.seeds) == 1 else 's'}"
    return f"{row.model} on {row.task}: accuracy {row.accuracy:.4f}{error}, {many}{part}{why}"


def _nothing_to_compare(items: Path, scratch: Path) -> Path:
    """A file of empty baseline answers, for a script that looks whether there are any."""
    target = scratch / BASELINE
    found = [json.loads(line) for line in items.read_text("utf-8").splitlines() if line.strip()]
    files.replace(target, "".join(json.dumps({"id": item["id"], "answer": ""}) + "\n" for item in found))
    return target


def _generated(attempts: Attempts, attempt: final.Attempt) -> final.AttemptResult:
    """The first phase alone: the answers, which nobody grades."""
    log = attempts.out_dir / f"generate_seed{attempt.seed}_{attempt.n}.txt"
    start = clock.monotonic()
    with open(log, "wb", buffering=0) as out:
        result = attempts._phase(attempt, _GENERATE, log, out, attempts.timeout_s)
    return replace(result, seconds=clock.monotonic() - start)


def _keep_answers(found: Ready, folder: Path, row: BaselineRow) -> BaselineRow:
    """Put the answers where evaluations find them; those that were there stay beside them."""
    made = sorted(folder.glob(f"kept/*/keep/{ANSWERS}"))
    text = files.read_bytes(made[-1], 1 << 30) if made else None
    if not text:
        raise StepError(f"no answers were left in {folder}", cause="eval_failed")
    target = found.answers
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.rename(target, target.with_name(f"{target.stem}-{clock.utc_text().replace(':', '')}.jsonl"))
    files.replace(target, text)
    return row.model_copy(update={"answers": str(target), "count": text.count(b"\n")})


def baseline(request: Mapping[str, Any], report: Report) -> str:
    """Request: root, content (the content path), order, operator, sandbox and endpoints (of the configuration)."""
    content = Content(tuple(Path(str(path)) for path in request["content"]))
    here = Here(
        Root(Path(str(request["root"]))),
        content,
        settings.load(cwd=Path("/")),
        str(request["sandbox"]),
        dict(request["endpoints"]),
    )
    return measure(here, BaselineOrder.model_validate(request["order"]), str(request["operator"]), report)
