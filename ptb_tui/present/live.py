"""A picture that is drawn over itself in a terminal. The only module that imports Rich, and only when it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ptb_tui.core.text import sanitize
from ptb_tui.present.table import Span

if TYPE_CHECKING:
    from ptb_tui.present.output import Output

_STYLES = {"grey": "dim"}


def _text(lines: Sequence[Sequence[Span]], colour: bool) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for span in line:
            style = _STYLES.get(span.colour, span.colour) if colour else ""
            text.append(sanitize(span.text, newlines=False), style=style)
    return text


class Canvas:
    """Draws lines of coloured pieces; never interprets them as markup."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._console = Console(
            file=out.stdout,
            force_terminal=True,
            no_color=not out.colour,
            width=out.width,
            height=out.height,
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._live: Live | None = None

    def draw(self, lines: Sequence[Sequence[Span]]) -> None:
        """Replace the picture. A terminal that went away is not our concern here."""
        text = _text(lines, self._out.colour)
        self._console.size = (self._out.width or 80, self._out.height)
        with contextlib.suppress(OSError):
            if self._live is None:
                self._live = Live(
                    text,
                    console=self._console,
                    auto_refresh=False,
                    redirect_stdout=False,
                    redirect_stderr=False,
                    vertical_overflow="crop",
                )
                self._live.start(refresh=True)
            else:
                self._live.update(text, refresh=True)

    def close(self) -> None:
        """Leave the last picture standing and show the cursor."""
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError):
                live.stop()
