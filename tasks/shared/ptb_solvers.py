"""Solvers of inspect that the tasks share: a prompt around the question, and a seed for every generate call."""

import importlib
from typing import Any, List, Optional

from ptb_seeds import sample_seed


def ask(template: str, system: str = "") -> List[Any]:
    """Put the item's question where `{question}` stands in `template`, after an optional system message."""
    solver = importlib.import_module("inspect_ai.solver")
    model = importlib.import_module("inspect_ai.model")

    @solver.solver
    def ask_question() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.user_prompt.text = template.replace("{question}", state.user_prompt.text)
            if system:
                state.messages.insert(0, model.ChatMessageSystem(content=system))
            return state

        return solve

    return [ask_question()]


def seeded(solvers: List[Any], run_seed: Optional[int]) -> Any:
    """The solvers as one; with a run seed every generate call gets its own seed (E §1.7.2).

    The number of the call counts up within a sample. A solver that sets a seed itself raises ValueError.
    """
    solver = importlib.import_module("inspect_ai.solver")
    whole = solver.chain(*solvers)
    if run_seed is None:
        return whole

    @solver.solver
    def with_sample_seeds() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            calls = 0

            async def generate_seeded(state: Any, *positional: Any, **options: Any) -> Any:
                nonlocal calls
                if options.get("seed") is not None:
                    raise ValueError("a solver sets the seed of a request itself")
                options["seed"] = sample_seed(run_seed, state.sample_id, state.epoch, calls)
                calls += 1
                return await generate(state, *positional, **options)

            return await whole(state, generate_seeded)

        return solve

    return with_sample_seeds()
