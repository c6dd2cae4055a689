"""States, worth and verdicts as glyph + word + colour, in that order of importance: no meaning by colour alone.

Glyphs are one cell wide; each has an ASCII twin. Names that a newer version may send are shown as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptb_tui.core.causes import cause as cause_row


@dataclass(frozen=True, slots=True)
class Look:
    """How a fact is shown. `colour` is one of the names of `present.output.COLOURS`."""

    glyph: str
    ascii: str
    word: str
    colour: str = ""

    def text(self, *, ascii_only: bool = False) -> str:
        """Glyph and word."""
        return f"{self.ascii if ascii_only else self.glyph} {self.word}"


_STATES = {
    "waiting": Look("◌", ".", "waiting", "grey"),
    "queued": Look("◌", ".", "queued", "grey"),
    "held": Look("‖", "=", "held", "yellow"),
    "submit_unknown": Look("?", "?", "submit unknown", "yellow"),
    "starting": Look("◔", ">", "starting", "cyan"),
    "running": Look("●", "*", "running", "cyan"),
    "done": Look("✓", "+", "done", "green"),
    "failed": Look("✗", "x", "failed", "red"),
    "cancelled": Look("⊘", "k", "cancelled", "grey"),
    "lost": Look("?", "?", "lost", "yellow"),
}
_JUDGING = Look("◆", "J", "judging", "magenta")
_EVALUATING = Look("◈", "V", "evaluating", "magenta")


def state(name: str, step: str = "") -> Look:
    """How a state looks; a running judge or evaluation step says what it does. "" is a run of others: no state."""
    if name == "running" and step.startswith("judge"):
        return _JUDGING
    if name == "running" and step.startswith("evaluate"):
        return _EVALUATING
    if not name:
        return Look("·", "-", "ended", "grey")
    return _STATES.get(name, Look("·", "-", name, ""))


_WORTH = {
    "scored": Look("✓", "+", "scored", "green"),
    "flagged": Look("⚑", "!", "flagged", "red"),
    "quarantined": Look("‖", "=", "quarantined", "yellow"),
    "unjudged": Look("?", "?", "unjudged", "yellow"),
    "no_model": Look("∅", "0", "no model", "red"),
    "invalid_model": Look("✗", "x", "invalid model", "red"),
    "eval_failed": Look("✗", "x", "evaluation failed", "red"),
    "grading_incomplete": Look("?", "?", "grading incomplete", "yellow"),
    "failed": Look("✗", "x", "failed", "red"),
    "running": Look("●", "*", "running", "cyan"),
    "missing": Look("·", "-", "missing", "grey"),
    "void": Look("⊘", "k", "void", "grey"),
}


def worth(name: str) -> Look:
    """How the worth of a run looks."""
    if not name:
        return Look("·", "-", "", "")
    return _WORTH.get(name, Look("·", "-", name.replace("_", " "), ""))


_VERDICTS = {
    "clean": Look("✓", "+", "clean", "green"),
    "flagged": Look("⚑", "!", "flagged", "red"),
    "missing": Look("·", "-", "no verdict", "yellow"),
    "unreadable": Look("?", "?", "unreadable", "yellow"),
    "timed_out": Look("!", "!", "timed out", "yellow"),
    "contradictory": Look("?", "?", "contradictory", "yellow"),
}


def verdict(name: str) -> Look:
    """How a verdict looks; the ways of having no verdict stay apart."""
    return _VERDICTS.get(name, Look("·", "-", name.replace("_", " "), ""))


_CHECKS = {
    "ok": Look("✓", "+", "ok", "green"),
    "bad": Look("✗", "x", "bad", "red"),
    "unknown": Look("?", "?", "cannot tell", "yellow"),
}


def check(name: str) -> Look:
    """How a line of doctor looks."""
    return _CHECKS.get(name, Look("·", "-", name, ""))


_ACTIONS = {
    "submit": Look("+", "+", "submit", "green"),
    "exists": Look("✓", "=", "exists", "grey"),
    "running": Look("●", "*", "running", "cyan"),
    "blocked": Look("✗", "x", "blocked", "red"),
}


def plan_action(name: str) -> Look:
    """How a cell of a plan looks."""
    return _ACTIONS.get(name, Look("·", "-", name, ""))


_REASONS = {
    "scored": "evaluated, and every required verdict is clean",
    "flagged": "a judge flagged it",
    "quarantined": "not to be trusted until a person has looked",
    "unjudged": "a required verdict is missing",
    "running": "not ended yet",
    "missing": "no run yet",
    "void": "taken out by a person",
}


def worth_reason(name: str, flags: str = "") -> str:
    """Why a run is worth what it is, when the site gave no reason of its own."""
    return f"flagged: {letters(flags)}" if flags else _REASONS.get(name, worth(name).word)


_LETTERS = {"M": "disallowed model", "C": "contamination", "A": "disallowed API use"}


def letters(text: str) -> str:
    """The letters of flags spelled out: "MC" → "disallowed model, contamination"."""
    return ", ".join(_LETTERS.get(letter, letter) for letter in text)


def cause(name: str) -> str:
    """A cause of `causes.toml` in words; empty for none."""
    if not name:
        return ""
    row = cause_row(name)
    return row.words if row.name != "unknown" and row.words != cause_row("unknown").words else name.replace("_", " ")


def step(name: str) -> str:
    """A step's name in words: "agent", "data contamination judge", "evaluation"; from the second time on with "#2"."""
    head, _, number = name.partition("#")
    again = f" #{number}" if number not in ("", "1") else ""
    if head.startswith("judge:"):
        return head.removeprefix("judge:").replace("_", " ") + again
    return ("evaluation" if head == "evaluate" else head) + again
