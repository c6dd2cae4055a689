"""Judges and verdicts: the words shared by judging, results and the front ends (E §3, design §6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ptb_tui.core.credential import CODEX_JUDGE, CredentialUse
from ptb_tui.core.panel import ApiUse, Seat


class VerdictState(StrEnum):
    """What is known from one judge about one run; these never collapse into each other."""

    CLEAN = "clean"
    FLAGGED = "flagged"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    TIMED_OUT = "timed_out"
    CONTRADICTORY = "contradictory"


Effect = Literal["baseline", "quarantine", "none"]
EVIDENCE = "evidence"  # source of what the rules say where models judge: kept and shown, and no vote


class JudgeSpec(BaseModel):
    """One judge folder: `judge.toml` (E §3.2)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    v: Literal[1] = 1
    label: str
    output_id: str = Field(pattern=r"^[a-z0-9_]+$")
    order: int
    model: str = "gpt-5.6-terra"
    effort: str = "xhigh"
    cli_version: str = "0.144.5"
    votes: int = Field(default=1, ge=1, le=9)
    effect: Effect = "none"
    required: bool = False
    flags: tuple[str, ...] = Field(min_length=1)
    needs: tuple[str, ...] = ()
    timeout_s: float = Field(default=3000, gt=0)
    credential: CredentialUse = CODEX_JUDGE  # of engine codex; the agents' login only where the file says so
    hosts: tuple[str, ...] = ("api.openai.com:443", "chatgpt.com:443")  # all that engine codex can reach
    endpoint: str = ""  # base URL of a Responses API to be asked instead of the vendor; then it alone can be reached
    tries: int = Field(default=2, ge=1, le=5)  # sessions for one vote, when the first leaves no verdict
    openai_api: ApiUse = ApiUse()
    panel: tuple[Seat, ...] = ()  # who judges, where that is more than one engine or model; else `votes` of one

    def fields(self) -> dict[str, type]:
        """The verdict's schema (E §3.4): every flag is a bool, its reason `justification_<flag>` a text."""
        return {**{flag: bool for flag in self.flags}, **{f"justification_{flag}": str for flag in self.flags}}


class VerdictRecord(BaseModel):
    """One verdict of the append-only history, `.ptb/verdicts/<judge>/<nnn>.json`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    v: Literal[1] = 1
    judge: str
    output_id: str
    state: VerdictState
    verdict: dict[str, bool | str] | None = None
    reason: str = ""
    findings: list[Finding] = Field(default_factory=list)
    engine: str
    model: str | None = None
    engine_version: str = ""
    prompt_hash: str = ""
    evidence_hash: str = ""
    step: str = ""
    started: str = ""
    ended: str = ""
    cost_usd: float | None = None
    source: str = "judge"

    @property
    def flagged(self) -> tuple[str, ...]:
        """Names of the fields that are true."""
        return tuple(name for name, value in (self.verdict or {}).items() if value is True)


class Finding(BaseModel):
    """One piece of evidence: what was found and exactly where."""

    model_config = ConfigDict(frozen=True)

    rule: str
    weight: Literal["flag", "hint"]
    words: str
    file: str = ""
    line: int | None = None
    item: str = ""
    excerpt: str = ""


VerdictRecord.model_rebuild()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a judge may look at. Every path is read-only and its content hostile; None means the run has none."""

    run_dir: Path
    task_dir: Path | None
    solve_out: Path | None
    solve_parsed: Path | None
    test_data: Path | None
    model_config: Path | None  # config.json of the final model
    base_config: Path | None  # config.json of the assigned base model
    tools: Path  # judges/tools of the bundle
    benchmark: str = ""
    base_model: str = ""
    agent: str = ""
    agent_config: str = ""
    hours: float | None = None
    agent_seconds: float | None = None
    allowed_data: tuple[str, ...] = ()
    disallowed_data: tuple[str, ...] = ()
    egress: Path | None = None  # ledger of the gateway
    model_folders: Path | None = None  # what the harvest left out of the task folder
    base_weights: Path | None = None  # folder of the base model, if the site has its weights
    twin_weights: Path | None = None  # the same of the instruct model made from it
    given: frozenset[str] = frozenset()  # sha256 of files that came with the task: they are not the agent's


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine returns: the verdict's fields, or why there are none."""

    state: VerdictState
    verdict: dict[str, bool | str] | None = None
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    engine: str = ""
    model: str | None = None
    engine_version: str = ""
    prompt_hash: str = ""
    cost_usd: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class JudgeEngine(Protocol):
    """One way to judge: `rules`, `codex`, `openai_api`."""

    name: str

    def judge(self, judge: str, spec: JudgeSpec, evidence: Evidence) -> EngineResult:
        """Judge one run. Never raises for anything the agent wrote; StepError for what is ours."""
        ...
