"""The verdicts in force of one run, and the decisions of people about it (E §3.7, §4.3; design §5).

Precedence is `judging.history`'s; here each verdict gets what the protocol makes of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.scores import VerdictSummary
from ptb_tui.core.text import sanitize
from ptb_tui.core.verdict import Effect, Finding, JudgeSpec, VerdictState
from ptb_tui.judging.history import Entry, read_history, standing
from ptb_tui.results.regular import read_record

_WORD = re.compile(r"[a-z0-9_]+")
_MAX_REVIEWS = 1000
LOOKUP_SINCE = 17400000  # runs of the original scripts with a smaller id had no lookup judge (E §5.3)


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """One judge as a run or a protocol uses it. A judge with an effect must have spoken before a score counts."""

    judge: str
    effect: Effect = "none"
    required: bool = False

    @property
    def needed(self) -> bool:
        """Whether the verdict must be there."""
        return self.required or self.effect != "none"


def _spec(output_id: str, order: int, effect: Effect, *flags: str) -> JudgeSpec:
    return JudgeSpec(label=output_id, output_id=output_id, order=order, effect=effect, flags=flags)


KNOWN: Mapping[str, JudgeSpec] = {
    "data_contamination_judge": _spec("gpt5_4", 1, "baseline", "contamination", "disallowed_model"),
    "api_usage_judge": _spec("api", 2, "baseline", "disallowed_api_usage"),
    "ptb_lookup_judge": _spec("ptb_lookup", 3, "quarantine", "disallowed_ptb_lookup"),
    "general_judge": _spec("general", 4, "none", "general_anomaly"),
}


def original_policies(run_id: int) -> tuple[JudgePolicy, ...]:
    """What the original's collector asks of a run of its own (E §5.3)."""
    lookup = JudgePolicy("ptb_lookup_judge", "quarantine", True)
    return (
        JudgePolicy("data_contamination_judge", "baseline", True),
        JudgePolicy("api_usage_judge", "baseline", True),
        *((lookup,) if run_id >= LOOKUP_SINCE else ()),
        JudgePolicy("general_judge"),
    )


def spec_policies(spec: Mapping[str, Any]) -> tuple[JudgePolicy, ...]:
    """The judges that a run's spec names; entries that are not understood are left out."""
    found = []
    plans = spec.get("judges")
    for plan in plans if isinstance(plans, list) else ():
        if isinstance(plan, dict) and isinstance(plan.get("judge"), str):
            effect = plan.get("effect")
            kept: Effect = effect if effect in ("baseline", "quarantine") else "none"
            found.append(JudgePolicy(plan["judge"], kept, plan.get("required") is True))
    return tuple(found)


def _derived(judge: str, history: list[Entry]) -> JudgeSpec:
    """The schema of a judge we have no folder of, from its own last record."""
    for entry in reversed(history):
        flags = tuple(name for name, value in (entry.record.verdict or {}).items() if isinstance(value, bool))
        if flags and _WORD.fullmatch(entry.record.output_id):
            return JudgeSpec(label=judge, output_id=entry.record.output_id, order=99, flags=flags)
    name = re.sub(r"[^a-z0-9_]", "_", judge.lower()) or "unknown"
    return JudgeSpec(label=judge, output_id=name, order=99, flags=(name,))


def _finding_words(finding: Finding) -> str:
    where = f" ({finding.file}{f':{finding.line}' if finding.line else ''})" if finding.file else ""
    item = f": {finding.item}" if finding.item else ""
    excerpt = f", “{finding.excerpt}”" if finding.excerpt else ""
    return sanitize(f"{finding.words}{where}{item}{excerpt}", limit=300, newlines=False)


def _justification(verdict: Mapping[str, object], flagged: tuple[str, ...]) -> str:
    names = flagged or tuple(name for name, value in verdict.items() if isinstance(value, bool))
    parts = [str(verdict.get(f"justification_{name}") or "").strip() for name in names]
    return sanitize(" ".join(part for part in parts if part), limit=2000, newlines=False)


def read_verdicts(
    run: RunFiles, policies: Iterable[JudgePolicy], specs: Mapping[str, JudgeSpec] = KNOWN
) -> tuple[VerdictSummary, ...]:
    """The verdict in force of each judge. `run.ptb` need not exist: runs of others have the public files only."""
    found = []
    for policy in policies:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", policy.judge) or policy.judge.startswith("."):
            continue
        history = read_history(run, policy.judge)
        spec = specs.get(policy.judge) or KNOWN.get(policy.judge) or _derived(policy.judge, history)
        stands = standing(run, policy.judge, spec)
        newest = next((entry.record for entry in reversed(history) if entry.record.verdict), None)
        reason = sanitize(stands.reason, limit=500, newlines=False)
        engine = newest.engine if newest else str((stands.meta or {}).get("judge_model") or "")
        found.append(
            VerdictSummary(
                judge=policy.judge,
                output_id=spec.output_id,
                state=stands.state,
                flagged=stands.flagged,
                justification=_justification(stands.verdict, stands.flagged) if stands.verdict else reason,
                engine=sanitize(engine, limit=60, newlines=False),
                source=stands.source,
                effect=policy.effect,
                required=policy.needed,
                evidence=tuple(_finding_words(finding) for finding in (newest.findings if newest else [])[:20]),
            )
        )
    return tuple(found)


def under(verdicts: Iterable[VerdictSummary], policies: Iterable[JudgePolicy]) -> tuple[VerdictSummary, ...]:
    """The same verdicts as another protocol's judges take them; what it asks for and is not there is missing."""
    by_judge = {verdict.judge: verdict for verdict in verdicts}
    found = []
    for policy in policies:
        spec = KNOWN.get(policy.judge)
        known = by_judge.get(policy.judge) or VerdictSummary(
            judge=policy.judge, output_id=spec.output_id if spec else policy.judge, state=VerdictState.MISSING
        )
        found.append(known.model_copy(update={"effect": policy.effect, "required": policy.needed}))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Decision:
    """What people decided about a run, as far as it is in force."""

    void: str = ""
    problems: tuple[str, ...] = field(default=())


def read_reviews(folder: Path) -> Decision:
    """Fold the review files in the order of their names, which begin with the time.

    A file is {kind: "void" | "undo", reason, operator}: `undo` takes a `void` back. Other kinds are for others.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    except OSError:
        return Decision()
    void, problems = "", []
    for name in names[:_MAX_REVIEWS]:
        review = read_record(folder / name)
        if review is None:
            problems.append(f"review {sanitize(name, limit=80, newlines=False)} cannot be understood")
        elif review.get("kind") == "void":
            who = f" ({review['operator']})" if review.get("operator") else ""
            void = sanitize(f"{review.get('reason') or 'no reason given'}{who}", limit=300, newlines=False)
        elif review.get("kind") in ("undo", "unvoid"):
            void = ""
    return Decision(void, tuple(problems))


def review_folders(root: Root, run: RunFiles, relative: str) -> tuple[Path, ...]:
    """Where decisions about a run may be: with the run, or in the overlay for trees that may only be read."""
    return (run.reviews, root.own("overlay") / relative / "reviews")
