"""What both evaluations of GSM8K share: worked examples, prompt, dataset.

Items with `"use": "fewshot"` are the ten worked examples, from the training part; all others are the test.
"""

from typing import Any, Dict, List

PROMPT = """\
{question}

Reason step by step. End your reply with one line that holds the final number and nothing else, in this form:

ANSWER: <number>"""
_EXAMPLE = "Problem: {}\n\nReasoning: {}\n\nANSWER: {}"


def system(items: List[Dict[str, Any]]) -> str:
    """The system message: all worked examples in the order of the file; empty without any."""
    return "\n\n\n".join(
        _EXAMPLE.format(item["question"], item["reasoning"], item["target"])
        for item in items
        if item.get("use") == "fewshot"
    )


def dataset(items: List[Dict[str, Any]]) -> Any:
    """The samples of inspect."""
    from inspect_ai.dataset import MemoryDataset, Sample

    test = [item for item in items if item.get("use") != "fewshot"]
    samples = [Sample(id=item["id"], input=item["question"], target=str(item["target"])) for item in test]
    return MemoryDataset(samples, name="gsm8k")
