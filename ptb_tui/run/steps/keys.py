"""Internal verb `step-keys WORD…`: values of keys as JSON on stdout, read when an agent starts (design §5, Secrets).

The words are those of `core.keys.KeyPolicy.words`; the values go through a pipe to the supervisor and on to the shim.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ptb_tui.core import settings
from ptb_tui.core.keys import from_words


def main(argv: Sequence[str]) -> int:
    """Print `{name: value}`; exit 1 and name the keys without a value on stderr."""
    policy, values = from_words(argv), settings.load(cwd=Path("/")).values
    if missing := policy.missing(values):
        print(f"no value for {', '.join(missing)}; put it into .env", file=sys.stderr)
        return 1
    print(json.dumps(policy.values(values)))
    return 0
