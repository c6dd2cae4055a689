"""What measuring needs of a site besides the model: a paid grader that can be reached, a sandbox for answers.

The final evaluation needs both, hours after the run was planned, so a plan says what is missing. The grader is the same
for what an agent runs itself: an address of `[endpoints]` or `.env` reaches its scripts as PTB_GRADER_URL, which no CLI
reads, and a server on this machine's loopback is found at the same port.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from ptb_tui.content.tasks import Task
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.spec import Problem
from ptb_tui.run.graders import (
    LOOPBACK,
    OPENAI_URL,
    OPENROUTER_URL,
    VARIABLE,
    Grader,
    address,
    grader_of,
    with_endpoint,
)
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.run.steps import answer_box
from ptb_tui.sandbox.process import Process

_USUAL = (OPENAI_URL, OPENROUTER_URL)


def _grader(look: Look) -> Grader | None:
    return grader_of(look.task.info.required_api_keys, with_endpoint(look.settings.values, look.spec.endpoints))


def problems(look: Look) -> list[Problem]:
    """What stands in the way of measuring this run here. A key without a value is said with the agent's keys."""
    if answer_box.wants_box(look.task) and not look.spec.images and (said := answers_refused(look.task)):
        return [Problem(words=said[0], remedy=said[1])]
    try:
        grader = _grader(look)
    except StepError:
        return []
    except PtbError as error:
        return [Problem(words=error.message, remedy=error.hint or "[endpoints] grader of the sweep, or of the site")]
    if grader is None:
        return []
    found = []
    if look.spec.network == "none":
        words = f"the agents of protocol {look.spec.protocol.name} have no network: their own evaluate.py cannot grade"
        found.append(Problem(words=words, remedy="a protocol with agents_network gateway or full", blocks=False))
    if grader.url.startswith("http://") and address(grader.url)[0] not in LOOPBACK:
        words = f"the grader's key crosses the network unencrypted to {grader.url}"
        found.append(Problem(words=words, remedy="https://, or a server on this machine", blocks=False))
    return found


def answers_refused(task: Task) -> tuple[str, str] | None:
    """Why no answer server can be had outside a container, and what would help."""
    return _refused(task.folder)


@functools.cache  # the machine does not change while we look
def _refused(task_folder: Path) -> tuple[str, str] | None:
    with tempfile.TemporaryDirectory(prefix="ptb-answers-", ignore_cleanup_errors=True) as place:
        try:
            with answer_box.beside(task_folder, Path(place), Process()):
                return None
        except StepError as error:
            return error.message, error.hint


def provide(look: Look, ready: Ready) -> Provision:
    """What the agent's own evaluate.py needs to reach the grader. ConfigError for an address that is none."""
    try:
        grader = _grader(look)
    except StepError:
        return Provision()  # the step that reads the keys says so
    if grader is None or look.spec.network == "none":
        return Provision()
    facts = {"url": grader.url, "key": grader.key}
    if grader.url in _USUAL:
        return Provision(facts=facts)
    inside = look.spec.network == "gateway"
    return Provision(env={VARIABLE: grader.url}, reach=grader.reach if inside else (), facts=facts)
