"""An agent that ends while its work goes on: the CLI's children die with it, and the work is lost (case D02).

Two signs: a task that the CLI's own fields say was still running at the end, and the agent's last words.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

from ptb_tui.traces.refusals import BACKGROUND

_OPEN = 256  # tasks that are remembered
_TAIL = 1200  # characters of the last words that are read
_WORK = r"(?:training|evaluation|script|process|job|run|download|fine-?tuning|sweep|it)"
_SAID = re.compile(
    r"\bI(?:'ll| will| shall|'m going to| am going to) (?:now |then |just )?"
    r"(?:wait|check back|check again|come back|be notified|report back|monitor|continue (?:once|when|after|as soon))"
    r"|\bwaiting (?:for|on|until) (?:the |my )?(?:\w+ ){0,2}" + _WORK + r"\b"
    r"|\b" + _WORK + r" (?:is|are) (?:now |still |currently )+(?:running|in progress|going)"
    r"|\b(?:running|continues?|continuing|runs|going on) in the background"
    r"|\bonce (?:the |my )?(?:\w+ ){0,2}(?:finishes|completes|is done|ends), I",
    re.I,
)


class Background:
    """What is still open, and what was said last."""

    __slots__ = ("_last", "_tasks")

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, None] = OrderedDict()
        self._last = ""

    def begin(self, task: str) -> None:
        """A task runs on its own from now on."""
        if task:
            self._tasks[task] = None
            if len(self._tasks) > _OPEN:
                self._tasks.popitem(last=False)

    def end(self, task: str) -> None:
        """A task is over."""
        if self._tasks:
            self._tasks.pop(task, None)

    def said(self, text: str) -> None:
        """The agent's latest words."""
        self._last = text

    def at_end(self) -> dict[str, Any]:
        """The facts of a session that ends now; none when it leaves nothing behind. Forgets everything."""
        tasks, last = len(self._tasks), self._last
        self._tasks.clear()
        self._last = ""
        said = bool(_SAID.search(last[-_TAIL:].replace("’", "'")))
        if not tasks and not said:
            return {}
        return {"trouble": BACKGROUND, **({"open_tasks": tasks} if tasks else {}), **({"said": True} if said else {})}


def words(facts: dict[str, Any]) -> str:
    """The facts as a title."""
    tasks = facts.get("open_tasks")
    if tasks:
        return f"ended while {tasks} background {'task was' if tasks == 1 else 'tasks were'} running"
    return "ended while it said that work goes on"
