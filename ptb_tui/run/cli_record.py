"""`cli_version.txt`: which CLI an agent ran with (H §2.3). Pure; standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptb_tui.core.text import sanitize

LIMIT = 65_536  # bytes of an agent's own file
BY_AGENT = "recorded_by: agent"  # below what nobody else can know


def version_file(facts: Mapping[str, Any], left: bytes | None, now: str) -> bytes:
    """Content for the run directory. `facts` are what *prepare* recorded about the CLI, `left` what `solve.sh` wrote.

    A CLI from the store is told from the facts: the agent can write the file that it leaves. Another one is known to
    `solve.sh` alone, and its last line says that the agent wrote it. A run whose agent left nothing gets what the
    harness knows. `now` is UTC text of `core.clock`.
    """
    from_store = facts.get("from") == "store"
    if left is not None and not from_store:
        return f"{sanitize(left, limit=LIMIT).rstrip()}\n{BY_AGENT}\n".lstrip().encode("utf-8", "replace")
    lines = {
        "binary": facts.get("binary") or "<none>",
        "package": facts.get("source") or "<none>",
        "path": facts.get("path") or "<not found>",
        "version": facts.get("said") or "<not recorded>",
        "update": "skipped",
        "recorded_at": f"{str(facts.get('recorded_at') or now)[:19]}+00:00",
    }
    if from_store:
        lines["store"] = facts.get("digest") or "<not recorded>"
    text = "".join(f"{name}: {sanitize(str(value), limit=500, newlines=False)}\n" for name, value in lines.items())
    return text.encode("utf-8", "replace")


def version_block(content: bytes) -> str:
    """The lines of `output.log` (H §1.9)."""
    return f"--- AGENT CLI VERSION ---\n{sanitize(content[:LIMIT].strip(), limit=2000)}\n--- AGENT CLI VERSION ---\n"
