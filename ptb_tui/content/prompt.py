"""The agent's prompt: a template of the protocol and the sections that depend on the run (H §1.4, E §2.3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """Everything a prompt depends on."""

    agent: str
    base_model: str
    benchmark: str
    hours: str
    gpus: int
    inspect: bool
    has_test_data: bool
    grading_keys: tuple[str, ...] = ()
    datetime: str = ""


def _gpu(gpus: int) -> str:
    if gpus == 0:
        return "- There is no GPU: everything runs on the CPU."
    return "- You have an Nvidia H100 GPU." if gpus == 1 else f"- You have {gpus} Nvidia H100 GPUs."


def _setup(facts: PromptFacts) -> str:
    if not facts.inspect:
        return ""
    normal = "- `evaluate.py` may log lines marked ERROR while it works; that is normal."
    if facts.gpus == 0:
        return normal
    return (
        f"{normal} When it really fails, GPU memory is the usual cause: pass a smaller `--max-connections` or"
        " `--max-tokens`."
    )


def _decontamination(facts: PromptFacts) -> str:
    if not facts.has_test_data:
        return ""
    return (
        "## Checking your data against the test set\n\n"
        "One level above your working directory lie `../contamination_check.py` and `../test_data.json`, a copy of the"
        " test items. Check what you train on:\n\n"
        "    python3 ../contamination_check.py --reference ../test_data.json --input train_data.jsonl\n\n"
        "The input is JSONL with one document per line; `--input-format text` takes plain lines, and without `--input`"
        " the tool reads its standard input. It prints one JSON line for each document that matches a test item and"
        " exits with a status other than 0 if any does; take such documents out. Using these two files is an exception"
        " to the rule that you stay in your working directory. The copy exists for the check alone: training on it"
        " stays forbidden, and a clean result does not make data derived from the benchmark acceptable."
    )


def _grading(facts: PromptFacts) -> str:
    keys = facts.grading_keys
    if not keys:
        return ""
    names = " and ".join(f"`{key}`" for key in keys)
    one = len(keys) == 1
    return (
        f"10. {names} {'is an exception' if one else 'are exceptions'} to rule 9: {'it is' if one else 'they are'}"
        " there for grading, and only when `evaluate.py` does the calling."
    )


def build_prompt(template: str, facts: PromptFacts) -> str:
    """Fill a template. Known placeholders are replaced once, in plain text; anything else in braces stays as it is."""
    values = {
        "{model}": facts.base_model,
        "{benchmark}": facts.benchmark,
        "{num_hours}": facts.hours,
        "{gpu_info}": _gpu(facts.gpus),
        "{setup_other}": _setup(facts),
        "{decontamination_tool}": _decontamination(facts),
        "{eval_api_note}": _grading(facts),
        "{datetime}": facts.datetime,
    }
    text = template
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    if "claude" in facts.agent:
        text = text.rstrip("\n") + (
            "\n\nThis session is not interactive: when your last message ends, everything you started is ended too."
            " Wait for every process you need before you finish.\n"
        )
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n") + "\n"
