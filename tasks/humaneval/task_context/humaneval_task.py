"""What both evaluations of HumanEval share, and the scorer of the one that agents run (E §1.5.4)."""

import asyncio
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

PROMPT = """\
Complete the Python function below: it has a signature and a docstring that says what it must do. Reply with the code \
of this function alone.

{prompt}"""
LIMIT_S = 30
_FENCE = re.compile(r"```([^\n`]*)\n(.*?)```", re.DOTALL)
_PYTHON = ("python", "py", "python3")


def dataset(items: List[Dict[str, Any]]) -> Any:
    """The samples of inspect."""
    from inspect_ai.dataset import MemoryDataset, Sample

    samples = [
        Sample(
            id=item["id"],
            input=PROMPT.replace("{prompt}", item["prompt"]),
            target=str(item.get("target", "")),
            metadata={name: item[name] for name in ("prompt", "test", "entry_point")},
        )
        for item in items
    ]
    return MemoryDataset(samples, name="humaneval")


def find_code(completion: str) -> str:
    """The function body in a reply: the first fenced Python block, else the first bare one, from below the first
    signature line; without a fence the reply as it is."""
    blocks = [(tag.strip().lower(), code) for tag, code in _FENCE.findall(completion.replace("\r\n", "\n"))]
    tagged = [code for tag, code in blocks if tag in _PYTHON] or [code for tag, code in blocks if not tag]
    if not tagged:
        return completion
    start = tagged[0].find(":\n    ")
    return str(tagged[0] if start < 0 else tagged[0][start + 2 :])


def program(metadata: Dict[str, Any], answer: str) -> str:
    """Prompt, answer and tests as one program."""
    return "{}{}\n\n{}\ncheck({})\n".format(metadata["prompt"], answer, metadata["test"], metadata["entry_point"])


def runs(code: str, limit_s: float = LIMIT_S) -> bool:
    """Whether a program ends with status 0 in time."""
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return child.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            child.kill()
            child.wait()


def program_scorer() -> Any:
    """Right when prompt, answer and tests run as one program that ends with status 0."""
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()], name="program")
    def program_ends_well() -> Any:
        async def score(state: Any, target: Any) -> Any:
            answer = find_code(state.output.completion)
            right = await asyncio.to_thread(runs, program(state.metadata, answer))
            return Score(value=CORRECT if right else INCORRECT, answer=answer)

        return score

    return program_ends_well()
