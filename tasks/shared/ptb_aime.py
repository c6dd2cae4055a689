"""What both years of AIME share: the prompt, the dataset, the scorers."""

from pathlib import Path
from typing import Any, Dict, List

import ptb_eval
import ptb_scorers
import ptb_solvers

PROMPT = """\
{question}

Work through this problem one step at a time. The answer is a whole number. Write it on the last line of your reply, \
alone and in this form:

ANSWER: <number>"""


def dataset(items: List[Dict[str, Any]], name: str) -> Any:
    """The samples of inspect."""
    from inspect_ai.dataset import MemoryDataset, Sample

    samples = [Sample(id=item["id"], input=item["question"], target=str(item["target"])) for item in items]
    return MemoryDataset(samples, name=name)


def spec(name: str, description: str, task_dir: Path, final: bool = False, **limits: Any) -> ptb_eval.TaskSpec:
    """A year's script (E §1.5.1); `limits` are those of `TaskSpec`. `final`: the exact value of the last number counts,
    else inspect's numeric match at the end."""

    def build(items: List[Dict[str, Any]], args: Any) -> ptb_eval.Parts:
        from inspect_ai.solver import generate

        scorer = ptb_scorers.last_number_unboxed() if final else ptb_scorers.boxed_match()
        return ptb_eval.Parts(dataset(items, name), scorer, [*ptb_solvers.ask(PROMPT), generate()])

    return ptb_eval.TaskSpec(name=name, description=description, task_dir=task_dir, build=build, final=final, **limits)
