"""What both years of AIME share: the prompt and the dataset."""

from typing import Any, Dict, List

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
