"""What a person may decide about a judge's verdict: clear it, flag it, confirm it (E §3.8, case A23). Pure.

The decision holds all fields of the judge's schema, so that it can be read without the verdicts that it was made on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ptb_tui.core.errors import NotAllowed, UsageError
from ptb_tui.core.review import Decision
from ptb_tui.core.verdict import JudgeSpec
from ptb_tui.judging.reviews import Review

KIND = "verdict"  # of a review


def decided(
    decision: Decision, field: str, reason: str, spec: JudgeSpec, now: Mapping[str, bool | str] | None
) -> dict[str, bool | str]:
    """The verdict that a decision makes of the one in force, `now`; None when there is none that can be read.

    `field` restricts it to one flag, the others stay as they are. UsageError for what is no flag of the judge or not
    said which; NotAllowed when what would stay is not known.
    """
    if field and field not in spec.flags:
        raise UsageError(f"{field!r} is no flag of this judge", hint=f"--field {' or '.join(spec.flags)}")
    if decision == "flag" and not field and len(spec.flags) > 1:
        raise UsageError("this judge has several flags", hint=f"--field {' or '.join(spec.flags)}")
    if decision == "confirm" and now is None:
        raise NotAllowed("there is no verdict that can be read, so none to confirm", hint="decide: clear or flag")
    verdict: dict[str, bool | str] = {}
    for flag in spec.flags:
        mine = not field or flag == field
        if decision == "confirm" or not mine:
            if now is None:
                raise NotAllowed(f"{flag} has no verdict that could stay", hint="clear decides all flags at once")
            verdict[flag] = now[flag] is True
        else:
            verdict[flag] = decision == "flag"
        before = str((now or {}).get(f"justification_{flag}") or "")
        words = (reason, before) if decision == "confirm" and mine else (reason if mine else before or reason,)
        verdict[f"justification_{flag}"] = "\n\n".join(part for part in words if part)
    return verdict


def verdict_in(review: Review, spec: JudgeSpec) -> dict[str, bool | str] | None:
    """The verdict of a review, or None when it does not hold all flags of the judge as booleans."""
    given = review.body.get("verdict")
    if not isinstance(given, dict) or any(not isinstance(given.get(flag), bool) for flag in spec.flags):
        return None
    return {name: given[name] for name in spec.fields() if isinstance(given.get(name), bool | str)}


def manual_form(review: Review, spec: JudgeSpec) -> str:
    """The text of `judgement_<id>_manual.json`: the original's readers take it before all judges (E §3.8)."""
    meta = {
        "judge_model": "a person",
        "judge_codex_version": "",
        "slot": 1,
        "timestamp": review.body.get("t", ""),
        "operator": review.body.get("operator", ""),
        "decision": review.body.get("decision", ""),
        "review": review.name,
    }
    return json.dumps({**(verdict_in(review, spec) or {}), "_meta": meta}, indent=2, ensure_ascii=False) + "\n"
