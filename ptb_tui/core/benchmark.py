"""Questions about the benchmark itself, and their answers: protocols, what differs between two, prompts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from ptb_tui.core.spec import Sweep


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProtocolsQuery(_Model):
    """The protocols that are known here."""

    kind: Literal["protocols"] = "protocols"


class ProtocolRow(_Model):
    """One protocol. `problem` says why it cannot be used; then the rest is empty."""

    name: str
    label: str = ""
    file: str
    prompt: str = ""
    tasks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    fingerprint: str = ""
    problem: str = ""


class ProtocolsView(_Model):
    """Answer to `ProtocolsQuery`."""

    kind: Literal["protocols"] = "protocols"
    protocols: tuple[ProtocolRow, ...] = ()


class DiffQuery(_Model):
    """What differs between two benchmarks: each a run, a fingerprint, or a protocol as it is now."""

    kind: Literal["protocol_diff"] = "protocol_diff"
    before: str
    after: str
    text: bool = False


class BenchmarkRef(_Model):
    """One side of a comparison: how it was asked for, and what it is."""

    asked: str
    protocol: str = ""
    fingerprint: str = ""
    items: str = ""  # digest of the test items, where a run was asked for


class FileDiff(_Model):
    """One file that differs. `text`: a unified diff, where both sides can still be read."""

    file: str
    how: Literal["changed", "added", "removed"]
    text: str = ""


class DiffView(_Model):
    """Answer to `DiffQuery`. `note` says what could not be compared."""

    kind: Literal["protocol_diff"] = "protocol_diff"
    before: BenchmarkRef
    after: BenchmarkRef
    files: tuple[FileDiff, ...] = ()
    note: str = ""


class PromptQuery(_Model):
    """The prompt of a run, or of the first cell of a sweep that agent, config, task and model describe."""

    kind: Literal["prompt"] = "prompt"
    run: str = ""
    sweep: Sweep | None = None
    agent: str = ""
    config: str = ""
    task: str = ""
    model: str = ""


class PromptView(_Model):
    """Answer to `PromptQuery`. `sent`: the run's agent was given exactly this."""

    kind: Literal["prompt"] = "prompt"
    method: str
    benchmark: str
    model: str
    file: str
    fingerprint: str
    sent: bool = False
    text: str
