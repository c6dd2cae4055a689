"""What both evaluations of GPQA share. The first of an item's choices is the right one."""

from typing import Any, Dict, List, Optional

import ptb_eval

PROMPT = """\
{question}

{choices}

Exactly one of the choices is right. Think it through step by step, then end your reply with one line that names its \
letter, one of {letters}, in this form:

ANSWER: <letter>"""


def parts(items: List[Dict[str, Any]], seed: Optional[int]) -> ptb_eval.Parts:
    """Dataset with shuffled choices, solver and scorer; without a seed the order differs from run to run."""
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    samples = [
        Sample(id=item["id"], input=item["question"], choices=list(item["choices"]), target="A") for item in items
    ]
    dataset = MemoryDataset(samples, name="gpqamain")
    dataset.shuffle_choices(seed)
    return ptb_eval.Parts(dataset, choice(), [multiple_choice(template=PROMPT)])
