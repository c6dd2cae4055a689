"""Whether a final model can be loaded in principle, before GPU time is spent on it (case A20, E §8.3 no. 27).

Only files are looked at, with bounded reads; no code of the model runs and no weight is read. Weights must be
safetensors: pickled ones run code when they are loaded. Python files beside them are never run and only noted; a model
that cannot be loaded without its own code is refused.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.text import sanitize

_HEADER_LIMIT = 32 << 20
_JSON_LIMIT = 64 << 20
_ENTRIES = 50_000
_DIMENSIONS = 16
_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    "F4": 4,
}
_DTYPES = frozenset(("float32", "float16", "bfloat16", "float64", "float", "half", "auto"))
_FAMILIES = ("qwen", "gemma", "llama", "smollm")  # known to the images, whatever their files say of code
_PART = re.compile(r"(.{1,80})-([0-9]{1,6})-of-([0-9]{1,6})\.safetensors")
_PARTS = 10_000
_NOTED = 5
_TOKENIZERS = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("vocab.json", "merges.txt"),
    ("spiece.model",),
    ("vocab.txt",),
    ("tekken.json",),
)


@dataclass(frozen=True, slots=True)
class Validity:
    """`problem` is "" when the model may be tried, else one sentence. `facts` are for the record."""

    problem: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the model may be tried."""
        return not self.problem


def safetensors_problem(path: Path) -> str:
    """Why a file cannot be read as safetensors, or "". Reads the header only."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    with os.fdopen(fd, "rb") as file:
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return "is not a regular file"
            length = int.from_bytes(file.read(8), "little")
            if info.st_size == 0:
                return "is empty"
            if info.st_size < 10 or length > info.st_size - 8:
                return f"is cut off: {info.st_size} bytes cannot hold its header"
            if length > _HEADER_LIMIT:
                return f"has a header of {length} bytes, more than {_HEADER_LIMIT}"
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return "has a header that is not JSON"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
    if not isinstance(header, dict):
        return "has a header that is no object"
    return _header_problem(header, info.st_size - 8 - length)


def _header_problem(header: dict[str, Any], size: int) -> str:
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        what = f"describes tensor {sanitize(name, limit=80, newlines=False)!r} wrongly"
        try:
            begin, end = entry["data_offsets"]
            shape, kind = entry["shape"], entry["dtype"]
        except (TypeError, KeyError, ValueError):
            return what
        whole = [begin, end, *shape] if isinstance(shape, list) and len(shape) <= _DIMENSIONS else [None]
        if not all(type(value) is int and 0 <= value < 1 << 62 for value in whole) or not isinstance(kind, str):
            return what
        if end < begin or (kind in _BITS and math.prod(shape) * _BITS[kind] != (end - begin) * 8):
            return what
        spans.append((begin, end))
    if not spans:
        return "holds no tensor"
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            return "has tensors that overlap or leave gaps"
        at = end
    if at != size:
        return f"is cut off or too long: its tensors need {at} bytes, it has {size}"
    return ""


def _names(folder: Path) -> dict[str, int] | str:
    """Regular files at the top and Python files below, with sizes; or the problem in words."""
    found: dict[str, int] = {}
    todo, seen = [""], 0
    while todo:
        below = todo.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                seen += 1
                if seen > _ENTRIES:
                    return f"final_model holds more than {_ENTRIES} files"
                path = os.path.join(below, entry.name)
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    todo.append(path)
                elif stat.S_ISREG(info.st_mode) and (not below or path.endswith(".py")):
                    found[path] = info.st_size
    return found


def _weights(folder: Path, names: dict[str, int]) -> tuple[list[str], str]:
    """The weight files, or why there are none."""
    found = sorted(name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_"))
    if not found:
        if "adapter_config.json" in names:
            return [], "final_model is only an adapter: it must be merged into its base model"
        if any(name.endswith(".gguf") for name in names):
            return [], "the weights are GGUF, which is not read; only safetensors are accepted"
        if pickled := sorted(name for name in names if name.endswith(_PICKLED)):
            shown = sanitize(pickled[0], limit=80, newlines=False)
            return [], f"the weights are pickled ({shown}), which runs code when loaded; only safetensors are accepted"
        return [], "final_model holds no *.safetensors file"
    index = "model.safetensors.index.json"
    if index in names:
        content = files.read_object(folder / index, _JSON_LIMIT) or {}
        shards = content.get("weight_map")
        if not isinstance(shards, dict) or not shards or not all(isinstance(name, str) for name in shards.values()):
            return [], f"{index} has no weight map"
        if lacking := sorted(set(shards.values()) - set(found)):
            return [], f"a weight file is missing: {sanitize(lacking[0], limit=80, newlines=False)}"
        return sorted(set(shards.values())), ""  # what else lies there is not loaded
    for name in found:
        if (part := _PART.fullmatch(name)) and int(part[3]) <= _PARTS:
            whole = {f"{part[1]}-{number:0{len(part[2])}d}-of-{part[3]}.safetensors" for number in _upto(part[3])}
            if lacking := sorted(whole - set(found)):
                return [], f"a weight file is missing: {sanitize(lacking[0], limit=80, newlines=False)}"
    return found, ""


def _upto(number: str) -> range:
    return range(1, int(number) + 1)


def _config_problem(config: dict[str, Any]) -> str:
    """Why a model of this `config.json` cannot be loaded, or ""."""
    for key in ("torch_dtype", "dtype"):
        given = config.get(key)
        for value in given.values() if isinstance(given, dict) else (given,):  # one for each part of a model
            if value is not None and (not isinstance(value, str) or value.removeprefix("torch.") not in _DTYPES):
                return f"config.json names no known {key}: {sanitize(repr(value), limit=40, newlines=False)}"
    kind, classes = config.get("model_type"), config.get("architectures")
    if classes is not None and not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        return "config.json has architectures that are no list of names"
    known = f"{kind} {' '.join(classes or ())}".lower()
    if config.get("auto_map") and not any(family in known for family in _FAMILIES):
        return "config.json needs Python code of its own (auto_map), which is never run for a model"
    return ""


def check(model_dir: Path) -> Validity:
    """Look at a model folder that was copied by harvest. Never raises for what an agent can leave there."""
    try:
        names = _names(model_dir)
    except OSError as error:
        return Validity(f"final_model cannot be read: {error.strerror}")
    if isinstance(names, str):
        return Validity(names)
    if "config.json" not in names and "adapter_config.json" not in names:
        return Validity("final_model has no config.json")
    weights, problem = _weights(model_dir, names)
    if problem:
        return Validity(problem)
    config = files.read_object(model_dir / "config.json", 4 << 20)
    if config is None:
        return Validity("config.json is missing or not a JSON object")
    if problem := _config_problem(config):
        return Validity(problem)
    for name in weights:
        if problem := safetensors_problem(model_dir / name):
            return Validity(f"{sanitize(name, limit=80, newlines=False)} {problem}")
    if not any(all(names.get(name, 0) > 0 for name in kit) for kit in _TOKENIZERS):
        return Validity("final_model has no tokenizer (such as tokenizer.json)")
    if "tokenizer.json" in names and files.read_object(model_dir / "tokenizer.json", _JSON_LIMIT) is None:
        return Validity("tokenizer.json is not a JSON object")
    if "tokenizer_config.json" in names and files.read_object(model_dir / "tokenizer_config.json", _JSON_LIMIT) is None:
        return Validity("tokenizer_config.json is not a JSON object")
    first = next(iter(config.get("architectures") or ()), "")
    facts: dict[str, Any] = {
        "architecture": sanitize(str(first), limit=80, newlines=False),
        "weight_files": len(weights),
        "weight_bytes": sum(names[name] for name in weights),
    }
    if code := sorted(name for name in names if name.endswith(".py")):
        facts["python_files"] = [sanitize(name, limit=80, newlines=False) for name in code[:_NOTED]]
    return Validity("", facts)
