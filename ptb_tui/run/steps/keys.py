"""Internal verb `step-keys NAME…`: values of keys as JSON on stdout, read when an agent starts (design §5, Secrets)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ptb_tui.core import settings


def main(argv: Sequence[str]) -> int:
    """Print `{name: value}`; exit 1 and name the keys without a value on stderr."""
    values = settings.load(cwd=Path("/")).values
    missing = [name for name in argv if not values.get(name)]
    if missing:
        print(f"no value for {', '.join(missing)}; put it into .env", file=sys.stderr)
        return 1
    print(json.dumps({name: values[name] for name in argv}))
    return 0
