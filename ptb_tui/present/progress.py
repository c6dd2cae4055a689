"""Progress of a batch: a live table on a terminal, else one line a change, else NDJSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from ptb_tui.core.clock import monotonic, utc_text
from ptb_tui.present import numbers, words
from ptb_tui.present.runs import phase_words, row_worth, short_model, state_cell, step_words
from ptb_tui.present.table import Span, Table, lay_out

if TYPE_CHECKING:
    from ptb_tui.core.query import RunRow
    from ptb_tui.present.output import Output

ACTIVE = ("starting", "running")
ROOMY = 110  # columns


@dataclass(frozen=True, slots=True)
class Label:
    """Which cell a run belongs to, in words."""

    agent: str
    task: str
    model: str


@dataclass(slots=True)
class Seen:
    """A row and when it was seen, by our own monotonic clock: its time goes on between two answers."""

    row: RunRow
    at: float
    label: Label

    def elapsed(self, now: float) -> float | None:
        """Seconds of the current step."""
        seconds = self.row.seconds
        return seconds + (now - self.at) if seconds is not None and self.row.state in ACTIVE else seconds

    def remaining(self, now: float) -> float | None:
        """Seconds the current step may still take."""
        seconds = self.row.remaining
        return seconds - (now - self.at) if seconds is not None and self.row.state in ACTIVE else None


class Progress(Protocol):
    """Shows how the runs of a batch go on."""

    def changed(self, seen: Seen) -> None:
        """A run changed in a way a person cares about."""
        ...

    def tick(self, runs: Mapping[int, Seen]) -> None:
        """About once a second."""
        ...

    def notice(self, kind: str, text: str) -> None:
        """Something about the batch itself, such as a lost site."""
        ...

    def close(self) -> None:
        """Nothing more will come; the terminal is as before."""
        ...


def describe(out: Output, seen: Seen, now: float) -> str:
    """One run in one line: state, step, time, time left, worth."""
    row = seen.row
    look = words.state(row.state, row.step)
    parts = [look.word]
    if row.cause:
        parts[0] += f" ({words.cause(row.cause)})"
    if row.steps_total and row.steps_ended < row.steps_total:
        parts.append(f"step {row.steps_ended + 1} of {row.steps_total}: {words.step(row.step)}")
        parts.append(phase_words(row))
    elapsed = seen.elapsed(now)
    if elapsed is not None:
        parts.append(numbers.duration(elapsed))
    if remaining := numbers.left(seen.remaining(now)):
        parts.append(remaining)
    parts.extend(row.flags)
    if row.worth and row.worth != "running":
        parts.append(f"{words.worth(row.worth).word} {row.letters}".rstrip())
    return ", ".join(part for part in parts if part)


class Lines:
    """One line a change."""

    def __init__(self, out: Output) -> None:
        self.out = out

    def changed(self, seen: Seen) -> None:
        """Print the change."""
        clock = datetime.fromtimestamp(time.time()).astimezone().strftime("%H:%M:%S")
        label = seen.label
        where = f"run {seen.row.id} {label.agent} {label.task} {label.model}"
        self.out.line(f"{clock} {where}: {describe(self.out, seen, monotonic())}")

    def tick(self, runs: Mapping[int, Seen]) -> None:
        """Nothing: only changes are lines."""

    def notice(self, kind: str, text: str) -> None:
        """To people."""
        self.out.note(text)

    def close(self) -> None:
        """Nothing to restore."""


class Records:
    """NDJSON: every change is an event."""

    def __init__(self, out: Output) -> None:
        self.out = out

    def changed(self, seen: Seen) -> None:
        """Write the change."""
        self.out.record({"event": "run", "t": utc_text(), "run": seen.row.model_dump(mode="json")})

    def tick(self, runs: Mapping[int, Seen]) -> None:
        """Nothing: only changes are events."""

    def notice(self, kind: str, text: str) -> None:
        """An event, and a line for people."""
        self.out.record({"event": kind, "t": utc_text(), "words": text})
        self.out.note(text)

    def close(self) -> None:
        """Nothing to restore."""


class Live:
    """A table that is drawn over itself once a second. Rich is imported only here."""

    def __init__(self, out: Output) -> None:
        from ptb_tui.present.live import Canvas

        self.out = out
        self.canvas: Any = Canvas(out)
        self.notices: list[str] = []

    def changed(self, seen: Seen) -> None:
        """Nothing: the next tick shows it."""

    def notice(self, kind: str, text: str) -> None:
        """Shown under the table, and left in the terminal afterwards."""
        self.notices.append(text)

    def tick(self, runs: Mapping[int, Seen]) -> None:
        """Draw."""
        self.canvas.draw(frame(self.out, runs.values(), self.notices[-1:], monotonic()))

    def close(self) -> None:
        """Leave the last table standing and give the terminal back."""
        self.canvas.close()
        for text in dict.fromkeys(self.notices):
            self.out.note(text)


def frame(out: Output, runs: Iterable[Seen], notices: Iterable[str], now: float) -> list[list[Span]]:
    """The lines of one picture: at most the terminal's height, running ones before waiting ones before ended ones."""

    def order(seen: Seen) -> tuple[int, int]:
        row = seen.row
        rank = 0 if row.state in ACTIVE else 2 if row.steps_total and row.steps_ended >= row.steps_total else 1
        return (rank, row.id)

    rows = sorted(runs, key=order)
    room = max(3, out.height - 5)
    shown = rows if len(rows) <= room else rows[: room - 1]
    # What is the same for all runs need not be said again and again in a narrow terminal.
    narrow = (out.width or ROOMY) < ROOMY
    said = [
        name
        for name in ("TASK", "MODEL")
        if not narrow or len({seen.label.task if name == "TASK" else seen.label.model for seen in rows}) > 1
    ]
    columns = ("RUN", "AGENT", *said, "STATE", "STEP", "TIME", "LEFT", "WORTH")
    place = {name: number for number, name in enumerate(columns)}
    table = Table(
        columns,
        right=frozenset(place[name] for name in ("RUN", "TIME", "LEFT")),
        rigid=frozenset(place[name] for name in ("RUN", "STATE", "TIME", "LEFT", "WORTH")),
    )
    for seen in shown:
        row = seen.row
        table.add(
            str(row.id),
            seen.label.agent,
            *(seen.label.task if name == "TASK" else short_model(seen.label.model) for name in said),
            state_cell(out, row),
            step_words(row),
            numbers.duration(seen.elapsed(now)),
            numbers.duration(seen.remaining(now)),
            row_worth(out, row),
        )
    lines = lay_out(table, out.width)
    if len(shown) < len(rows):
        lines.append([Span(f"… and {len(rows) - len(shown)} more", "grey")])
    ended = sum(1 for seen in rows if seen.row.steps_total and seen.row.steps_ended >= seen.row.steps_total)
    footer = f"{ended} of {numbers.count(len(rows), 'run')} ended"
    lines.append([Span(footer if ended == len(rows) else f"{footer} · Ctrl-C detaches, runs go on", "grey")])
    lines.extend([Span(text, "yellow")] for text in notices)
    return lines


def choose(out: Output) -> Progress:
    """The way that fits the output."""
    if out.as_json:
        return Records(out)
    return Live(out) if out.controls else Lines(out)
