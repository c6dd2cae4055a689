"""Which chat template a run uses (E §1.6).

The template belongs to the base model that the organiser assigned. PTB_TEMPLATE names its file, as the protocol has it;
without it the base model's id, PTB_BASE_MODEL, tells. The path of the evaluated model never matters: folder names would
decide then. Nor does its `config.json`, which an agent can write: it is looked at only where nobody assigned anything.
"""

import json
import os
from pathlib import Path
from typing import Mapping, Optional

_BY_BASE = {
    "Qwen/Qwen3-1.7B-Base": "qwen3",
    "Qwen/Qwen3-4B-Base": "qwen3",
    "HuggingFaceTB/SmolLM3-3B-Base": "smollm",
    "google/gemma-3-4b-pt": "gemma3",
    "Qwen/Qwen3-1.7B": "qwen3",
    "Qwen/Qwen3-4B": "qwen3",
    "HuggingFaceTB/SmolLM3-3B": "smollm",
    "google/gemma-3-4b-it": "gemma3",
    "local/demo-base": "qwen3",
}
_BY_ARCHITECTURE = (("gemma", "gemma3"), ("llama", "llama3"), ("qwen", "qwen3"), ("smollm", "smollm"))
_FOR_TOOLS = {"gemma3": "gemma3_tool_calling"}
_CONFIG_LIMIT = 1 << 20


class TemplateUnknown(Exception):
    """No template can be chosen, or the chosen one is not in the templates folder."""


def architecture_family(model_dir: str) -> Optional[str]:
    """The family of the architecture named in a model directory's `config.json`; None if there is none."""
    try:
        with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as file:
            config = json.loads(file.read(_CONFIG_LIMIT))
        name = str(config["architectures"][0]).lower()
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return next((family for part, family in _BY_ARCHITECTURE if part in name), None)


def family(model_dir: str, environ: Mapping[str, str]) -> str:
    """The model family: qwen3, gemma3, smollm, llama3, or the name of another template without its ending.

    Looked up in this order: the template's name (PTB_TEMPLATE), the assigned base model's id (PTB_BASE_MODEL), the
    architecture of the assigned base model's files (PTB_BASE_MODEL_PATH). Only when none of the three is given, as when
    somebody tries a script by hand, the architecture of the evaluated model counts. Raises TemplateUnknown.
    """
    named = environ.get("PTB_TEMPLATE", "")
    if named:
        return named[: -len(".jinja")] if named.endswith(".jinja") else named
    base, base_dir = environ.get("PTB_BASE_MODEL", ""), environ.get("PTB_BASE_MODEL_PATH", "")
    if base in _BY_BASE:
        return _BY_BASE[base]
    found = architecture_family(base_dir if base_dir or base else model_dir)
    if found is None:
        raise TemplateUnknown("no chat template is known for {}".format(base or base_dir or model_dir))
    return found


def template_name(model_dir: str, environ: Mapping[str, str], tools: bool = False) -> str:
    """The file name of the template, for a task with or without tools. Raises TemplateUnknown."""
    found = family(model_dir, environ)
    return (_FOR_TOOLS.get(found, found) if tools else found) + ".jinja"


def tool_parser(model_dir: str, environ: Mapping[str, str]) -> str:
    """The name of vLLM's parser that reads a family's tool calls (E §1.5.5). Raises TemplateUnknown."""
    return "llama3_json" if family(model_dir, environ) == "llama3" else "hermes"


def template_path(name: str, templates_dir: str, task_dir: Path) -> Path:
    """The template file in `templates_dir`, else beside the task (sandbox) or beside its folder (repository)."""
    for folder in (Path(templates_dir), task_dir / "templates", task_dir.parent / "templates"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise TemplateUnknown("{} is not in {}".format(name, templates_dir))
