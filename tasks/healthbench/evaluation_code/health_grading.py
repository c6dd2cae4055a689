"""One question to the grader for every criterion, and the scores that come of them (E §1.5.7)."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import ptb_grading
from ptb_items import InputMissing

PROMPT = """\
Below are a conversation between a person and an assistant, and one criterion with its points. Judge only the \
assistant's last turn, and only by this criterion.

Conversation:
{conversation}

Criterion:
{criterion}

Reply with a JSON object of two fields: "explanation", a short text that says why, and "criteria_met", which is true \
when the last turn does what the criterion describes and false when it does not or only in part.

The sign of the points does not matter for this. A criterion with negative points describes something undesirable: \
when the last turn does that, criteria_met is true all the same. Where the criterion gives examples ("such as", \
"including"), they need not all occur. Reply with the JSON object alone."""
TRIES = 5
_SAMPLES = 1000
_SEED = 42
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)


def read_reply(reply: str) -> Optional[bool]:
    """Whether the criterion is met; None for a reply that is not as asked for."""
    fenced = _FENCE.search(reply)
    try:
        said = json.loads(fenced.group(1) if fenced else reply)
    except (ValueError, RecursionError):
        return None
    met = said.get("criteria_met") if isinstance(said, dict) else None
    return met if isinstance(met, bool) else None


def checked(items: List[Dict[str, Any]], task_dir: Path) -> List[Dict[str, Any]]:
    """The items, if each has a criterion with positive points. InputMissing."""
    for item in items:
        if not any(rubric["points"] > 0 for rubric in item["rubrics"]):
            raise InputMissing("item {} has no criterion with positive points".format(item["id"]))
    return items


def messages(item: Dict[str, Any]) -> List[Dict[str, str]]:
    """What the model is asked: the whole conversation."""
    return [{"role": turn["role"], "content": turn["content"]} for turn in item["messages"]]


def question(item: Dict[str, Any], answer: str, rubric: Dict[str, Any], first_wait: float) -> ptb_grading.Question:
    """One criterion as a question to the grader."""
    turns = [*item["messages"], {"role": "assistant", "content": answer}]
    conversation = "\n\n".join("{}: {}".format(turn["role"], turn["content"]) for turn in turns)
    criterion = "[{}] {}".format(rubric["points"], rubric["criterion"])
    shown = PROMPT.replace("{criterion}", criterion).replace("{conversation}", conversation)
    return ptb_grading.Question(
        messages=[{"role": "user", "content": shown}],
        options=ptb_grading.options_for(ptb_grading.MODEL, {"temperature": 0, "max_tokens": 512}),
        read=read_reply,
        waits=ptb_grading.waits(first_wait, TRIES, double=False),
    )


def clipped(value: float) -> float:
    """The value within 0 and 1."""
    return min(1.0, max(0.0, value))


def share(rubrics: Sequence[Tuple[float, bool]]) -> float:
    """Points of the met criteria over all positive points; not clipped. There must be positive points."""
    return sum(points for points, met in rubrics if met) / sum(points for points, _ in rubrics if points > 0)


def bootstrap(scores: Sequence[float]) -> float:
    """Standard deviation of the clipped means of 1000 samples drawn with replacement."""
    import numpy

    generator = numpy.random.default_rng(_SEED)
    drawn = [clipped(float(numpy.mean(generator.choice(scores, len(scores))))) for _ in range(_SAMPLES)]
    return float(numpy.std(drawn))


def _tags(tags: Sequence[str], kind: str) -> List[str]:
    return [tag[len(kind) + 1 :] for tag in tags if tag.startswith(kind + ":")]


def metrics_of(items: Sequence[Dict[str, Any]], met: Sequence[Sequence[bool]]) -> Dict[str, Any]:
    """All metrics; `met` has a truth value for every criterion of every item."""
    scores: List[float] = []
    themes: Dict[str, List[float]] = defaultdict(list)
    axes: Dict[str, List[Tuple[float, bool]]] = defaultdict(list)
    for item, given in zip(items, met, strict=True):
        rubrics = [(float(rubric["points"]), value) for rubric, value in zip(item["rubrics"], given, strict=True)]
        scores.append(share(rubrics))
        for theme in _tags(item.get("tags", ()), "theme"):
            themes[theme].append(scores[-1])
        for rubric, pair in zip(item["rubrics"], rubrics, strict=True):
            for axis in _tags(rubric.get("tags", ()), "axis"):
                axes[axis].append(pair)
    with_points = {axis: pairs for axis, pairs in axes.items() if any(points > 0 for points, _ in pairs)}
    return {
        "accuracy": clipped(sum(scores) / len(scores)),
        "stderr": bootstrap(scores),
        "n_examples": len(scores),
        "total_grader_calls": sum(len(given) for given in met),
        "by_theme": {theme: clipped(sum(found) / len(found)) for theme, found in sorted(themes.items())},
        "by_axis": {axis: clipped(share(pairs)) for axis, pairs in sorted(with_points.items())},
    }


def grade(items: List[Dict[str, Any]], answers: Dict[str, str], grader: Any, args: Any) -> Dict[str, Any]:
    """The metrics over the conversations of which every criterion has its grade. GradingIncomplete when the grader
    failed, or when these are fewer than `--coverage` asks for."""
    asked = [
        question(item, answers[str(item["id"])], rubric, args.grader_wait)
        for item in items
        for rubric in item["rubrics"]
    ]
    rest = iter(grader.ask_all(asked))
    given = [(item, [next(rest).value for _ in item["rubrics"]]) for item in items]
    whole = [(item, met) for item, met in given if None not in met]
    if not whole or len(whole) < args.coverage * len(items):
        graded = sum(value is not None for _, met in given for value in met)
        raise ptb_grading.incomplete(graded, len(asked), "the grader gave no readable grade for the others")
    if len(whole) < len(items):
        ptb_grading.warn("{} of {} conversations are left out: no grade".format(len(items) - len(whole), len(items)))
    return metrics_of([item for item, _ in whole], [met for _, met in whole])
