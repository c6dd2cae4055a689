"""Numeric scorers of inspect: its own match, and the exact ones of the final evaluation (E §1.5.1, §1.7.1)."""

import copy
import importlib
from typing import Any, Callable, Tuple

from ptb_numbers import last_number_exact, signed_last_number_exact, unboxed


def _exact(name: str, compare: Callable[[str, str], Tuple[str, bool]]) -> Any:
    scoring = importlib.import_module("inspect_ai.scorer")

    @scoring.scorer(metrics=[scoring.accuracy(), scoring.stderr()], name=name)
    def exact() -> Any:
        async def score(state: Any, target: Any) -> Any:
            completion = state.output.completion
            answer, right = compare(completion, target.text)
            value = scoring.CORRECT if right else scoring.INCORRECT
            return scoring.Score(value=value, answer=answer, explanation=completion)

        return score

    return exact()


def signed_last_number() -> Any:
    """Right when the last number of the reply has the target's value."""
    return _exact("signed_last_number", signed_last_number_exact)


def last_number_unboxed() -> Any:
    r"""Right when the last number of the reply, `\boxed{…}` unwrapped, is the target, a whole number."""
    return _exact("last_number_unboxed", lambda completion, target: last_number_exact(unboxed(completion), target))


def boxed_match() -> Any:
    r"""Inspect's numeric match at the end of the reply, after unwrapping `\boxed{…}`."""
    scoring = importlib.import_module("inspect_ai.scorer")
    plain = scoring.match(location="end", numeric=True)

    @scoring.scorer(metrics=[scoring.accuracy(), scoring.stderr()], name="boxed_match")
    def match_boxed() -> Any:
        async def score(state: Any, target: Any) -> Any:
            shown = copy.copy(state)
            shown.output = state.output.model_copy(deep=True)
            shown.output.completion = unboxed(state.output.completion)
            return await plain(shown, target)

        return score

    return match_boxed()
