"""Two games a prompt against the reference answers, and the win rate that comes of them (E §1.5.6)."""

import math
import re
import statistics
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import ptb_grading
from ptb_items import InputMissing, load_items

SYSTEM = """\
You compare two pieces of creative writing, A and B, that two assistants wrote for the same request.

Decide which of them serves the person better who made the request. Weigh how well it follows what was asked, in form \
and in content; how original and alive it is; whether language, rhythm and imagery suit the piece; whether it holds \
together from beginning to end. Length alone is no merit. The order in which the pieces are shown means nothing.

Before you judge, say in a few sentences what you yourself would expect of a good piece for this request. Then name \
strengths and weaknesses of both. End with exactly one of these verdicts:

[[A>>B]] A is much better
[[A>B]] A is a little better
[[A=B]] they are about equally good
[[B>A]] B is a little better
[[B>>A]] B is much better"""
USER = """\
=== Request ===
{question}

=== A ===
{a}

=== End of A ===

=== B ===
{b}

=== End of B ==="""
TRIES = 3
_DOUBLE = re.compile(r"\[\[([AB<>=]+)\]\]")
_SINGLE = re.compile(r"\[([AB<>=]+)\]")
_FOR_A = {"A>>B": (1.0,) * 3, "A>B": (1.0,), "A=B": (0.5,), "B>A": (0.0,), "B>>A": (0.0,) * 3}
_MIRRORED = {"B<<A": "A>>B", "B<A": "A>B", "B=A": "A=B", "A<B": "B>A", "A<<B": "B>>A"}


def label_of(reply: str) -> Optional[str]:
    """The verdict of a reply in its usual spelling: the last one counts, double brackets before single ones."""
    text = reply.upper()
    found = _DOUBLE.findall(text) or _SINGLE.findall(text)
    label = _MIRRORED.get(found[-1], found[-1]) if found else ""
    return label if label in _FOR_A else None


def scores(first: Optional[str], second: Optional[str]) -> Tuple[float, ...]:
    """The candidate's points of both games; it is B in the first and A in the second. None without both labels."""
    if first is None or second is None:
        return ()
    return tuple(1 - point for point in _FOR_A[first]) + _FOR_A[second]


def win_rate(points: Sequence[float]) -> Dict[str, float]:
    """Mean of all points and its standard error; both 0 without points."""
    if not points:
        return {"accuracy": 0.0, "stderr": 0.0}
    spread = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else 0.0
    return {"accuracy": statistics.fmean(points), "stderr": spread}


def with_baseline(items: List[Dict[str, Any]], task_dir: Path) -> List[Dict[str, Any]]:
    """The items, each with the reference model's answer. InputMissing when one lacks it."""
    rows = load_items(task_dir, "baseline_answers.jsonl", ("id", "answer"))
    answers = {str(row["id"]): str(row["answer"]) for row in rows}
    missing = [str(item["id"]) for item in items if str(item["id"]) not in answers]
    if missing:
        raise InputMissing("baseline_answers.jsonl lacks {} answers, first {}".format(len(missing), missing[0]))
    return [{**item, "baseline": answers[str(item["id"])]} for item in items]


def messages(item: Dict[str, Any]) -> List[Dict[str, str]]:
    """What the model is asked."""
    return [{"role": "user", "content": item["question"]}]


def game(question: str, a: str, b: str, first_wait: float) -> ptb_grading.Question:
    """One comparison as a question to the judge."""
    shown = USER.format(question=question, a=a, b=b)
    return ptb_grading.Question(
        messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": shown}],
        options={"reasoning_effort": "medium", "max_completion_tokens": 49_152},
        read=label_of,
        waits=ptb_grading.waits(first_wait, TRIES, double=True),
    )


def grade(items: List[Dict[str, Any]], answers: Dict[str, str], grader: Any, args: Any) -> Dict[str, Any]:
    """The win rate over all prompts. GradingIncomplete when the judge failed, or gave no verdict for more
    prompts than `--coverage` allows to leave out."""
    games = []
    for item in items:
        pair = (item["baseline"], answers[str(item["id"])])
        for a, b in (pair, pair[::-1]):
            games.append(game(item["question"], a, b, args.grader_wait))
    labels = [grade.value for grade in grader.ask_all(games)]
    given = [scores(labels[place], labels[place + 1]) for place in range(0, len(labels), 2)]
    judged = sum(1 for points in given if points)
    if judged < args.coverage * len(items):
        raise ptb_grading.incomplete(judged, len(items), "the judge gave no verdict for the others")
    if judged < len(items):
        ptb_grading.warn("{} of {} prompts are left out: no verdict".format(len(items) - judged, len(items)))
    return dict(win_rate([point for points in given for point in points]))
