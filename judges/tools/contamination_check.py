#!/usr/bin/env python3
"""Find benchmark items inside data: `contamination_check.py -r test_data.json -i train.jsonl` (E §3.9).

`--mode strict` needs only the standard library: every string of every record counts, a copied question is a hit
whatever answer follows it, with other numbers or a few other words too, and what could not be read is said instead of
counted as clean. `--mode compat` is the published n-gram checker; it needs `tiktoken` or `bpe_openai`.
stdout: one JSON line per contaminated document. Exit: 0 none, 1 some (or no reference file), 2 wrong use or a failed
self-test. A hit of kind `copy` is proof of a copy, other kinds are to be looked at; no hit proves nothing.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from contamination.commands import main

DEFAULT_MODE = "strict"  # a protocol may hand its agents a copy that says "compat"

if __name__ == "__main__":
    sys.exit(main(mode=DEFAULT_MODE, words=__doc__.split("\n")[0]))
