"""What this machine does when asked, once per token (design §6). Every action is journalled."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ptb_tui.content import fingerprint
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.core import clock, files
from ptb_tui.core.action import (
    Action,
    AgentPin,
    AgentRollback,
    AgentUpdate,
    Baseline,
    BuildImage,
    CacheHub,
    Calibrate,
    Cancel,
    Collect,
    CredentialRelease,
    CredentialRestore,
    Dispatch,
    Evaluate,
    Export,
    FetchData,
    Judge,
    Pin,
    Receipt,
    Retry,
    Review,
    RunRef,
    Submit,
    Undo,
    Void,
)
from ptb_tui.core.backend import Job
from ptb_tui.core.errors import NotAllowed, NotFound, TokenConflict
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.results.records import RunRecord
from ptb_tui.run import locks, submit
from ptb_tui.site import (
    answers,
    baseline,
    bundle,
    calibrating,
    clis,
    credentials,
    evaluating,
    exporting,
    judging,
    judging_aside,
    reviewing,
    scoring,
    supplies,
    taskdata,
)

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite

_LOOKS = 3  # at a run that may move from the queue to where it runs
# Nothing in the queue changes by them.
_ASIDE = (
    Collect,
    Pin,
    Void,
    Undo,
    Review,
    Baseline,
    BuildImage,
    CacheHub,
    Calibrate,
    FetchData,
    AgentUpdate,
    AgentPin,
    AgentRollback,
    CredentialRestore,
)
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Doer:
    """Carries out actions at one site."""

    def __init__(self, site: LocalSite) -> None:
        self.site, self.root, self.content, self.settings = site, site.root, site.content, site.settings

    def do(self, action: Action, token: str) -> Receipt:
        """Do it, or return the receipt of the first time. TokenConflict when the token stands for another action."""
        if not _TOKEN.fullmatch(token):
            raise NotAllowed(f"{token!r} is not a request token")
        if (known := self._known(action, token)) is not None:
            return known
        if isinstance(action, Collect) and self.root.path.is_dir() and not os.access(self.root.path, os.W_OK):
            return scoring.collect(self.site, action).model_copy(update={"token": token})
        if isinstance(action, Export):
            return self._export(action, token)
        if isinstance(action, Review):
            rehearsed = reviewing.rehearse(self.site, action)  # refused before anything is written
            if action.dry_run:
                return rehearsed.model_copy(update={"token": token})
        if isinstance(action, Cancel | Judge | Evaluate | Retry):  # refused before anything is written
            aside = isinstance(action, Judge) and judging_aside.meant(self.site, self.site.record(action.run))
            if not aside:
                self._ours(action.run)
        files.ensure_writable(self.root.path, "the results root")
        files.ensure_writable(self.root.own("journal"), "the journal")
        with locks.waited(locks.state_folder(self.root) / "actions.lock"):  # the same request may come twice at once
            known = self._known(action, token)
            return known if known is not None else self._carry_out(action, token)

    def _known(self, action: Action, token: str) -> Receipt | None:
        with contextlib.suppress(ValidationError):
            if (known := files.read_object(self.root.own("journal") / f"{token}.json")) is not None:
                if known["action"] != action.model_dump(mode="json"):
                    raise TokenConflict(f"request token {token} stands for another action")
                return Receipt.model_validate(known["receipt"])
        return None

    def _carry_out(self, action: Action, token: str) -> Receipt:
        doers: dict[type, Callable[[Any, str], Receipt]] = {
            Submit: self._submit,
            Cancel: self._cancel,
            Judge: self._judge,
            Evaluate: self._evaluate,
            Retry: self._retry,
            Collect: lambda action, token: scoring.collect(self.site, action),
            Dispatch: lambda action, token: Receipt(action="dispatch", words="looked after the queue"),
            AgentUpdate: lambda action, token: clis.update(self.site, action),
            AgentPin: lambda action, token: clis.pin(self.site, action),
            AgentRollback: lambda action, token: clis.roll_back(self.site, action),
            Baseline: lambda action, token: baseline.begin(self.site, action),
            BuildImage: lambda action, token: supplies.build_image(self.site, action),
            CacheHub: lambda action, token: supplies.cache_hub(self.site, action),
            Calibrate: self._calibrate,
            CredentialRelease: lambda action, token: credentials.release(self.content, action.name),
            CredentialRestore: lambda action, token: credentials.restore(self.content, action.name),
            FetchData: lambda action, token: taskdata.fetch(self.site, action),
            Pin: lambda action, token: scoring.decide(self.site, action),
            Void: lambda action, token: scoring.decide(self.site, action),
            Undo: lambda action, token: scoring.decide(self.site, action),
            Review: lambda action, token: reviewing.review(self.site, action),
        }
        receipt = doers[type(action)](action, token).model_copy(update={"token": token})
        self._note(action, token, receipt)
        if not isinstance(action, _ASIDE) and receipt.work is None:
            self.site.backend().submit([Job(ref.id, token, (), 0, 0.0) for ref in receipt.runs])
        return receipt

    def _note(self, action: Action, token: str, receipt: Receipt) -> None:
        operator = action.operator or self.settings.operator
        record = {"v": 1, "t": clock.utc_text(), "operator": operator, "action": action.model_dump(mode="json")}
        done = {**record, "receipt": receipt.model_dump(mode="json")}
        files.create(self.root.own("journal") / f"{token}.json", files.dump(done))

    def _export(self, action: Export, token: str) -> Receipt:
        """Without the lock, because it may take long and changes nothing that others read; a root that may only be
        read, or holds nothing of ours, gets no journal."""
        receipt = exporting.export(self.site, action, token)
        if self.root.ptb.is_dir() and os.access(self.root.ptb, os.W_OK):
            files.ensure_writable(self.root.own("journal"), "the journal")
            self._note(action, token, receipt)
        return receipt

    def _write_site(self) -> None:
        """The site's own part of the configuration, for dispatch, supervisors and steps."""
        import tomli_w

        site, path = self.site.config, self.root.ptb / "site.toml"
        if path.exists():
            return
        named = ("slots", "scratch", "scratch_gib", "sandbox", "max_hours", "cli_store", "data_store", "gpu_name")
        table = {name: getattr(site, name) for name in named}
        if site.cli_updates != "store":
            table["cli_updates"] = site.cli_updates
        files.replace(path, tomli_w.dumps({key: value for key, value in table.items() if value}))

    def _submit(self, action: Submit, token: str) -> Receipt:
        plan = answers.plan(self.site, action.sweep)
        blocked = [cell for cell in plan.cells if cell.action == "blocked"]
        if blocked:
            first = next(problem for problem in blocked[0].problems if problem.blocks)
            raise NotAllowed(
                f"{blocked[0].spec.method}: {first.words} (and {len(blocked) - 1} more)", hint=first.remedy
            )
        files.ensure_writable(self.root.ptb, "our folder")
        self._write_site()
        submit.keep_sweep(self.root, action.sweep)
        digest = bundle.ensure(self.root, self.content)
        frozen = self._frozen(digest)
        operator = action.operator or self.settings.operator
        refs = [
            submit.submit(self.root, cell.spec.model_copy(update={"bundle": digest, "operator": operator}), frozen)
            for cell in plan.to_submit
        ]
        others = [
            RunRef(id=cell.run_id, method=cell.spec.method, created=False, words=cell.why)
            for cell in plan.cells
            if cell.action in ("exists", "running") and cell.run_id is not None
        ]
        return Receipt(action="submit", words=f"{len(refs)} submitted, {len(others)} there", runs=(*refs, *others))

    def _ours(self, run: str) -> tuple[RunRecord, RunFiles, RunSpec]:
        for _ in range(_LOOKS):
            record = self.site.record(run)
            if record.ptb is None:
                raise NotAllowed(f"run {record.id} was made by others; this version only reads it")
            if record.root != self.root.path:
                hint = f"name {record.root} as the results root (--results)"
                raise NotAllowed(f"run {record.id} lies in {record.root}, which is only read here", hint=hint)
            files_of = RunFiles(record.ptb)
            if (spec := files.read_bytes(files_of.spec)) is not None:
                return record, files_of, RunSpec.model_validate_json(spec)
        raise NotFound(f"{files_of.spec} cannot be read")

    def _frozen(self, digest: str) -> Content:
        return Content((self.root.own("bundles") / digest,))

    def bundle_content(self, spec: RunSpec) -> Content:
        """The frozen content of a run; this site's where it is gone."""
        frozen = self._frozen(spec.bundle)
        return frozen if spec.bundle and frozen.paths[0].is_dir() else self.content

    def _cancel(self, action: Cancel, token: str) -> Receipt:
        record, _, spec = self._ours(action.run)
        if not record.active:
            return Receipt(action="cancel", words=f"run {record.id} has ended already", runs=(RunRef(id=record.id),))
        who = action.operator or self.settings.operator
        asked = submit.cancel(self.root, record.id, who, action.reason)
        words = f"run {record.id} will be cancelled" if asked else f"run {record.id} was cancelled before"
        return Receipt(action="cancel", words=words, runs=(RunRef(id=record.id, method=spec.method),))

    def ended_run(self, run: str, what: str, *, change: bool = True) -> tuple[RunRecord, RunFiles, RunSpec]:
        """A run of ours whose agent has ended, its cancel taken aside when something is to `change`. NotAllowed."""
        record, run_files, spec = self._ours(run)
        agent = record.agent_step
        if agent is None or not agent.ended:
            raise NotAllowed(f"run {record.id} cannot be {what} yet: its agent has not ended")
        if change and run_files.cancel.exists() and run_files.started:
            run_files.cancel.rename(run_files.cancel.with_name(f"cancel-{uuid.uuid4().hex[:8]}.json"))
        return record, run_files, spec

    def _judge(self, action: Judge, token: str) -> Receipt:
        who, record = action.operator or self.settings.operator, self.site.record(action.run)
        if judging_aside.meant(self.site, record):
            self._write_site()  # the judges' steps read the sandbox there
            digest = bundle.ensure(self.root, self.content)
            subject = judging_aside.subject_of(self.site, record, action.request, self._frozen(digest))
            return judging.ask(self.site, subject, action, token, who, digest)
        record, run_files, spec = self.ended_run(action.run, "judged")
        own, fresh = self.bundle_content(spec), action.request.fresh
        digest = bundle.ensure(self.root, self.content) if fresh else ""
        today = self._frozen(digest) if fresh else self.content
        wanted = action.request.protocol
        subject = judging.subject_of(self.site, record, run_files, spec, own, fresh=fresh, today=today, wanted=wanted)
        return judging.ask(self.site, subject, action, token, who, digest)

    def _calibrate(self, action: Calibrate, token: str) -> Receipt:
        self._write_site()  # the judges' steps read the sandbox there
        return calibrating.begin(self.site, action)

    def _evaluate(self, action: Evaluate, token: str) -> Receipt:
        record, run_files, spec = self.ended_run(action.run, "evaluated")
        return evaluating.ask(self.site, record, run_files, spec, action, token)

    def _retry(self, action: Retry, token: str) -> Receipt:
        from ptb_tui.run.plan import token_of

        record, _, spec = self._ours(action.run)
        if record.active:
            raise NotAllowed(f"run {record.id} is still under way", hint=f"ptb-tui cancel {record.id}")
        if not action.reason and record.assessment.worth in ("scored", "flagged"):
            raise NotAllowed(f"run {record.id} has a result; say why with --reason", hint="both results stay visible")
        attempts = sum(
            1
            for other in self.site.scan().runs
            if (other.method, other.benchmark, other.model) == spec.cell and not other.foreign
        )
        digest, words = self._for_retry(spec)
        fresh = spec.sealed(token=token_of(spec, attempts), bundle=digest, operator=action.operator)
        return Receipt(action="retry", words=words, runs=(submit.submit(self.root, fresh, self._frozen(digest)),))

    def _for_retry(self, spec: RunSpec) -> tuple[str, str]:
        """The frozen copy for the same benchmark again: a fresh one, or that of the run when content has changed."""
        protocol = load_protocol(self.content, spec.protocol.name)
        if fingerprint.take(self.content, protocol, spec.prompt).fingerprint == spec.protocol.fingerprint:
            return bundle.ensure(self.root, self.content), "submitted"
        if spec.bundle and self._frozen(spec.bundle).paths[0].is_dir():
            return spec.bundle, "submitted with the content of then, which has changed since"
        raise NotAllowed(
            f"the content has changed since run {spec.id} and its frozen copy {spec.bundle or '(none)'} is gone",
            hint="submit the sweep again",
        )
