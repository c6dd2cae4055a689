"""Judges of a run that is not written to: one that others made, or one of a root that is only read (design §5).

Nothing of it is in the queue, so it is asked as work of the site (`run.judging_aside`), and what judges say goes to the
overlay. What the run was is read from its directory's name, as the original does it (E §4.1), but with known agents.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.core import names
from ptb_tui.core.errors import NotAllowed
from ptb_tui.core.judging import JudgingView, Request
from ptb_tui.core.spec import Judging, ProtocolRef, RunSpec
from ptb_tui.core.step import StepSpec
from ptb_tui.results.overlay import Overlay
from ptb_tui.results.records import RunRecord
from ptb_tui.run import judges, sandboxes
from ptb_tui.run.baselines import protocol_for
from ptb_tui.run.plan import judge_plans
from ptb_tui.site import supplies
from ptb_tui.site.judging import endpoint_of
from ptb_tui.site.judging_votes import Subject

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")  # of a name that goes into a prompt
_HERE = ("images", "containers", "endpoints", "credential", "credential_file", "credential_state", "per_credential")


def meant(site: LocalSite, record: RunRecord) -> bool:
    """Whether the run has a directory that we do not write to."""
    return record.place == "run" and Overlay(site.root).covers(record.root, not record.foreign)


def _plain(text: str) -> str:
    return text if _WORD.fullmatch(text) and ".." not in text else "unknown"


def _named(site: LocalSite, record: RunRecord, content: Content, protocol: Protocol) -> dict[str, Any]:
    """What the directory's name says."""
    parsed = names.parse_method(record.method, content.names("agents"))
    return {
        "agent": _plain(parsed.agent if parsed else record.method.partition("_")[0]),
        "config": _plain(parsed.config) if parsed else "unknown",
        "hours": parsed.hours if parsed else 10,
        "gpus": parsed.gpus if parsed else 1,
        "benchmark": record.benchmark,
        "base_model": record.model,
    }


def _spec(site: LocalSite, record: RunRecord, content: Content, wanted: str) -> RunSpec:
    """The run as far as it is known here, with the judges that it gets. NotAllowed for one that cannot be."""
    kept = record.spec or {}
    own = kept.get("protocol")
    name = wanted or (str(own.get("name") or "") if isinstance(own, dict) else "")
    protocol = protocol_for(content, record.benchmark, name)
    fields = {key: value for key, value in kept.items() if key not in _HERE} or _named(site, record, content, protocol)
    try:
        spec = RunSpec.model_validate(
            {**fields, "id": record.id, "protocol": ProtocolRef(name=protocol.name, fingerprint="")}
        )
    except ValidationError as error:
        place, words = error.errors()[0]["loc"], error.errors()[0]["msg"]
        raise NotAllowed(f"run {record.id} cannot be judged: its {place[0] if place else 'spec'}: {words}") from error
    if wanted or not spec.judges:
        table = {judges.API: endpoint_of(site)}
        spec = spec.model_copy(update={"judges": judge_plans(content, protocol, Judging(), table)})
    return sandboxes.pin(site.root, spec, content, site.settings, site.config.sandbox)


def subject_of(site: LocalSite, record: RunRecord, request: Request, content: Content) -> Subject:
    """The run with the content that judges. NotAllowed while its agent works, and where nothing can be written."""
    overlay = Overlay(site.root)
    files = overlay.writes(record)
    if not record.values.get("agent_done"):
        raise NotAllowed(f"run {record.id} cannot be judged: nothing in {record.path} says that its agent has ended")
    spec = _spec(site, record, content, request.protocol)
    protocol = load_protocol(content, spec.protocol.name)
    return Subject(record, files, spec, content, protocol, request.fresh, overlay.layers_of(record), aside=True)


def begin(site: LocalSite, subject: Subject, view: JudgingView, steps: list[StepSpec], said: str) -> int | None:
    """Begin to ask, one vote after the other; the number of the work."""
    record = subject.record
    seconds = record.values.get("seconds")
    request = {
        "root": str(site.root.path),
        "content": [str(path) for path in subject.content.paths],
        "tree": str(record.path),
        "ptb": str(subject.files.ptb),
        "spec": subject.spec.to_file(),
        "agent_seconds": seconds if isinstance(seconds, int | float) else None,
        "steps": [step.model_dump(mode="json") for step in steps],
    }
    return supplies.begin(site, "judging", f"{view.method}/{view.run_name}: {said}", request).work
