"""The end of a trace, once or for as long as it grows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from ptb_tui.core.text import sanitize

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from ptb_tui.core.query import TraceChunk, TraceQuery
    from ptb_tui.present.output import Output

_HELD = 65_536  # characters of an unfinished line that are kept back so that no escape sequence is cut in two


class _Printer:
    """Prints whole lines, made safe."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self.held = ""

    def take(self, chunk: TraceChunk) -> None:
        if self.out.as_json:
            if chunk.text or chunk.ended:
                self.out.record(chunk.model_dump(mode="json"))
            return
        whole, _, rest = (self.held + chunk.text).rpartition("\n")
        if len(rest) > _HELD:
            whole, rest = f"{whole}\n{rest}" if whole else rest, ""
        self.held = rest
        if whole:
            self.out.write(sanitize(whole) + "\n")

    def close(self) -> None:
        held, self.held = self.held, ""
        if held:
            self.out.write(sanitize(held) + "\n")


async def tail(
    out: Output,
    ask: Callable[[TraceQuery], Awaitable[TraceChunk]],
    watch: Callable[[TraceQuery], AsyncIterator[TraceChunk]] | None,
    query: TraceQuery,
) -> None:
    """Print a trace from the query's offset to its end; with `watch` until nothing more will be written."""
    printer = _Printer(out)
    try:
        if watch is not None:
            async with contextlib.aclosing(cast("AsyncGenerator[TraceChunk, None]", watch(query))) as chunks:
                async for chunk in chunks:
                    printer.take(chunk)
            return
        while True:
            chunk = await ask(query)
            printer.take(chunk)
            if chunk.next >= chunk.size or chunk.next <= chunk.offset:
                return
            query = query.model_copy(update={"offset": chunk.next})
    finally:
        printer.close()
