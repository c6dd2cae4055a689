#!/usr/bin/env python3
"""Compare a model's weights with its base model's: `model_weights_check.py --candidate DIR --base DIR [--twin DIR]`.

Reads safetensors, tensor by tensor, on the CPU, and needs numpy. `--twin` is the instruct model of the same base.
stdout: one JSON object with what was measured and `conclusions`. Exit: 0 a model made from the base, 1 "unchanged
base", "equals instruct", "towards instruct" or "unrelated", 2 what could not be compared.
Only "equals instruct" proves something; the thresholds were set on small invented models.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Optional, Sequence

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import numpy  # noqa: F401
except ImportError:
    raise SystemExit("error: model_weights_check.py needs numpy") from None

from weights.distance import compare_weights, conclusions, tokenizer_digest
from weights.tensors import Unreadable

REPORTED = ("unchanged base", "equals instruct", "towards instruct", "unrelated")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], allow_abbrev=False)
    parser.add_argument("--candidate", required=True, metavar="DIR")
    parser.add_argument("--base", required=True, metavar="DIR")
    parser.add_argument("--twin", default="", metavar="DIR")
    options = parser.parse_args(argv)
    try:
        found = compare_weights(options.candidate, options.base, options.twin)
    except Unreadable as error:
        print("error: %s" % error, file=sys.stderr)
        return 2
    said = conclusions(found)
    digests = [tokenizer_digest(options.candidate)]
    digests += [tokenizer_digest(folder, True) if folder else "" for folder in (options.base, options.twin)]
    farthest = sorted(found.tensors.items(), key=lambda pair: -pair[1])[:10]
    report = {
        "conclusions": said, "to_base": found.to_base, "to_twin": found.to_twin, "cosine": found.cosine,
        "rank": found.rank, "covered": found.covered, "tensors": len(found.tensors), "unchanged": found.unchanged,
        "not_compared": found.not_compared[:50], "farthest": dict(farthest),
        "tokenizer": {"as_base": digests[0] == digests[1] != "", "as_twin": digests[0] == digests[2] != ""},
    }  # fmt: skip
    print(json.dumps(report))
    if said == ["nothing compared"]:
        return 2
    return 1 if any(name in REPORTED for name in said) else 0


if __name__ == "__main__":
    sys.exit(main())
