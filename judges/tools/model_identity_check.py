#!/usr/bin/env python3
"""Compare a model's config.json with that of the assigned base model (E §3.10).

`model_identity_check.py --allowed-model Qwen/Qwen3-4B-Base --candidate final_model`: the reference is
`reference_configs/Qwen_Qwen3-4B-Base.json` beside this script, one folder up or in the working directory, or the file
of `--reference-config`. Exit: 0 MATCH, 1 MISMATCH, 2 a file is missing or unreadable.
A match is no proof: base and instruct models of one family have the same architecture.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

CORE = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "head_dim",
)  # fmt: skip
ADVISORY = ("architectures", "vocab_size")
SAME_TYPE = {"gemma3_text": "gemma3"}  # the text part of Gemma 3, taken out of the multimodal model
MAX_BYTES = 8 << 20


class Row(NamedTuple):
    """One compared field; values are None where absent."""

    name: str
    reference: Any
    candidate: Any
    equal: bool


def read_config(path: str) -> Dict[str, Any]:
    """A config.json, by name or by its folder, `text_config` flattened. ValueError says why it cannot be used."""
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError("%s: %s" % (path, error.strerror)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("%s: not a regular file" % path)
    with os.fdopen(fd, "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError("%s: larger than %d MB" % (path, MAX_BYTES >> 20))
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("%s: not JSON" % path) from error
    if not isinstance(value, dict):
        raise ValueError("%s: not a JSON object" % path)
    return flatten(value)


def flatten(config: Dict[str, Any]) -> Dict[str, Any]:
    """The keys of `text_config` added where the top level has none."""
    inner = config.get("text_config")
    return {**inner, **config} if isinstance(inner, dict) else dict(config)


def compare(reference: Dict[str, Any], candidate: Dict[str, Any]) -> Tuple[List[Row], List[Row]]:
    """(core rows, advisory rows) of two flattened configs."""

    def row(name: str) -> Row:
        left, right = reference.get(name), candidate.get(name)
        pair = [SAME_TYPE.get(x, x) if name == "model_type" and isinstance(x, str) else x for x in (left, right)]
        return Row(name, left, right, type(pair[0]) is type(pair[1]) and pair[0] == pair[1])

    return [row(name) for name in CORE], [row(name) for name in ADVISORY]


def find_reference(model: str) -> Optional[str]:
    """The first reference config of a model id along the three places."""
    name = model.replace("/", "_") + ".json"
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.dirname(here), os.getcwd()):
        path = os.path.join(folder, "reference_configs", name)
        if os.path.isfile(path):
            return path
    return None


def table(title: str, rows: List[Row]) -> str:
    """Rows as text; values are shown in ASCII and cut, since the candidate is not to be trusted."""

    def shown(value: Any) -> str:
        text = json.dumps(value)
        return text if len(text) <= 40 else text[:37] + "..."

    lines = [title, "  %-22s %-42s %-42s" % ("field", "reference", "candidate")]
    for row in rows:
        mark = "" if row.equal else "  differs"
        lines.append("  %-22s %-42s %-42s%s" % (row.name, shown(row.reference), shown(row.candidate), mark))
    return "\n".join(line.rstrip() for line in lines)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--allowed-model", required=True, metavar="ID")
    parser.add_argument("--candidate", required=True, metavar="PATH", help="config.json or the folder that holds it")
    parser.add_argument("--reference-config", metavar="FILE")
    options = parser.parse_args(argv)
    reference = options.reference_config or find_reference(options.allowed_model)
    if reference is None:
        print("error: no reference config for %r" % options.allowed_model, file=sys.stderr)
        return 2
    try:
        core, advisory = compare(read_config(reference), read_config(options.candidate))
    except ValueError as error:
        print("error: %s" % error, file=sys.stderr)
        return 2
    print(table("core fields (must be equal)", core))
    print(table("advisory fields (reported only)", advisory))
    different = [row.name for row in core if not row.equal]
    print("MISMATCH: %s" % ", ".join(different) if different else "MATCH")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
