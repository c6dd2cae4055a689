"""The only question ever asked: yes or no, on a terminal, before something that costs."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from ptb_tui.present.output import is_terminal

if TYPE_CHECKING:
    from ptb_tui.present.output import Output


def can_ask(out: Output) -> bool:
    """Whether there is a person at a terminal who could answer."""
    return not out.as_json and sys.stdin is not None and is_terminal(sys.stdin) and is_terminal(out.stderr)


async def confirmed(out: Output, question: str) -> bool:
    """Ask and wait without blocking the loop, so that Ctrl-C works meanwhile. Only "y" and "yes" are yes."""
    out.stderr.write(f"{question} [y/N] ")
    out.stderr.flush()
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    answer: asyncio.Future[bytes] = loop.create_future()

    def ready() -> None:
        if not answer.done():
            answer.set_result(os.read(fd, 1024))

    loop.add_reader(fd, ready)
    try:
        return (await answer).decode("utf-8", "replace").strip().lower() in ("y", "yes")
    finally:
        loop.remove_reader(fd)
