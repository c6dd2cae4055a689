"""What measuring judges would do: who would be asked about which cases, what is there already, what it may cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from ptb_tui.content.agents import load_agent
from ptb_tui.content.calibration import Case, load_cases, with_benchmark
from ptb_tui.content.judges import Judge, for_seat, load_judge
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import judge_prompt
from ptb_tui.content.protocols import Protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.core.calibration import CalibrationLine, CalibrationOrder, CalibrationPlan
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import PtbError, StepError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.panel import Seat
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import JudgePlan, Judging, Problem, ProtocolRef, RunSpec
from ptb_tui.judging.calibration import Answer, Kept, Subject, folder_of, read, read_all
from ptb_tui.judging.engines.rules import VERSION, rules_hash
from ptb_tui.judging.prompting import prompt_hash
from ptb_tui.run import judges, sandboxes
from ptb_tui.run.baselines import protocol_for
from ptb_tui.run.plan import judge_plans
from ptb_tui.run.sources import Look, login

GUESS = {"input": 80_000, "output": 6_000}  # tokens of one session, before anything was measured
_GUESSED_S = 120.0


@dataclass(frozen=True, slots=True)
class Line:
    """One engine and model of one judge: the votes it gives on each case, and what of them is still to be asked."""

    judge: Judge
    seat: Seat
    subject: Subject
    votes: int
    cases: tuple[Case, ...]
    ask: tuple[tuple[Case, int], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that an order names. `content` holds the benchmark of the cases too."""

    content: Content
    protocol: Protocol
    plans: tuple[JudgePlan, ...]
    cases: tuple[Case, ...]
    lines: tuple[Line, ...]

    def spec(self, case: Case) -> RunSpec:
        """The case as a run."""
        file = case.file
        return RunSpec(
            id=1,
            agent=file.agent,
            config=file.config,
            benchmark=file.benchmark,
            base_model=file.base_model,
            hours=file.hours,
            protocol=ProtocolRef(name=self.protocol.name, fingerprint="calibration"),
            judges=self.plans,
        )


def words_of(content: Content, protocol: Protocol, judge: Judge, seat: Seat) -> str:
    """Digest of the words that a judge has here today: what a verdict's record names."""
    if seat.engine == "rules":
        return rules_hash(content.paths[0] / "ptb_tui" / "judging" / "engines")
    spec = RunSpec(
        agent="a", config="c", benchmark="b", base_model="m/m", hours=1,
        protocol=ProtocolRef(name=protocol.name, fingerprint=""),
    )  # fmt: skip
    template = judge_prompt(content, spec, judge.prompt, protocol)
    return prompt_hash(template.read_text("utf-8"), judge.spec, seat.engine)


def _checkers(content: Content) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(content.overlay("judges/tools").items()):
        if name.endswith(".py"):
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _version(root: Root, content: Content, settings: Settings, judge: Judge, seat: Seat) -> str:
    """Of the engine; "" where it is not here, which the plan's problems say."""
    if seat.engine == "rules":
        return f"{VERSION}, checkers {_checkers(content)}"
    try:
        if seat.engine == "openai_api":
            return metadata.version("openai")
        return judges.tool_of(for_seat(judge.spec, seat), root, content, settings).version.version
    except (metadata.PackageNotFoundError, StepError):
        return ""


def _meant(word: str, known: Sequence[str]) -> str:
    """The judge that a person means, as `judge --judges` takes it. UsageError."""
    found = [name for name in known if word in (name, name.removesuffix("_judge"))]
    found = found or [name for name in known if word and name.startswith(word)]
    if len(found) != 1:
        raise UsageError(f"no judge {word!r}", hint=f"judges: {', '.join(known)}")
    return found[0]


def find(
    root: Root, content: Content, settings: Settings, order: CalibrationOrder, endpoints: Mapping[str, str]
) -> Found:
    """Everything that an order names, and what of it has no answer yet. PtbError for what is not there."""
    cases = load_cases(content, order.only)
    if not cases:
        raise UsageError("there are no cases: judges/calibration is in no content folder")
    protocol = protocol_for(content, "", order.protocol)
    every = (*(entry.judge for entry in protocol.judges), *content.names("judges"))
    wanted = tuple(_meant(word, tuple(dict.fromkeys(every))) for word in order.judges) or None
    asked = Judging(engine=order.engine, model=order.model or None, votes=order.votes, judges=wanted)
    plans = judge_plans(content, protocol, asked, endpoints)
    lines = []
    for plan in plans:
        judge = load_judge(content, plan.judge)
        mine = tuple(case for case in cases if set(judge.spec.flags) & set(case.file.expect))
        for seat in dict.fromkeys(plan.asked):
            subject = Subject(
                judge=judge.name,
                engine=seat.engine,
                model=seat.model,
                effort=seat.effort,
                endpoint=seat.endpoint,
                version=_version(root, content, settings, judge, seat),
                prompt_hash=words_of(content, protocol, judge, seat),
            )
            votes, there = plan.asked.count(seat), read(folder_of(root, subject))
            every_vote = [(case, vote) for case in mine for vote in range(1, votes + 1)]
            ask = tuple(one for one in every_vote if order.again or not _there(there, *one))
            lines.append(Line(judge, seat, subject, votes, mine, ask))
    return Found(with_benchmark(content), protocol, plans, cases, tuple(lines))


def _there(kept: Kept | None, case: Case, vote: int) -> bool:
    answers = kept.answers if kept is not None else ()
    return any(one.case == case.name and one.vote == vote and one.digest == case.digest and one.said for one in answers)


def _problems(root: Root, settings: Settings, found: Found, configured: str) -> list[Problem]:
    """What stands in the way of those that would be asked."""
    asked = {line.judge.name for line in found.lines if line.ask}
    plans = tuple(plan for plan in found.plans if plan.judge in asked)
    problems = []
    flags = {flag for name in found.content.names("judges") for flag in load_judge(found.content, name).spec.flags}
    for case in found.cases:
        if unknown := sorted(set(case.file.expect) - flags):
            words = f"case {case.name} speaks of {', '.join(unknown)}, which no judge has"
            problems.append(Problem(words=words, remedy=f"{case.folder}/case.toml", blocks=False))
    if not plans:
        return problems
    case = found.cases[0]
    spec = found.spec(case).model_copy(update={"judges": plans})
    try:
        spec = sandboxes.pin(root, spec, found.content, settings, configured)
        task = load_task(found.content, spec.benchmark, data_store(root.path))
        look = Look(root, spec, load_agent(found.content, spec.agent), task, found.protocol, found.content, settings)
        return [*problems, *judges.problems(look, configured), *login.judge_problems(look)]
    except PtbError as error:
        return [*problems, Problem(words=error.message, remedy=error.hint)]


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _estimate(line: Line, earlier: Sequence[Answer]) -> dict[str, object]:
    """What the sessions of a line may cost, by what this model used before, else by a guess."""
    count, seat = len(line.ask), line.seat
    if seat.engine == "rules":
        return {"cost_usd": 0.0, "tokens": 0, "seconds": 0.5 * count, "basis": "no model is asked"}
    cost = _mean(one.record.cost_usd for one in earlier if one.record.cost_usd is not None)
    tokens = _mean(float(sum(one.tokens.values())) for one in earlier if one.tokens)
    seconds = _mean(one.seconds for one in earlier)
    basis = f"what this model used for {len(earlier)} before" if earlier else "a guess: nothing was measured yet"
    if cost is None and seat.prices is not None:
        cost = seat.prices.cost(GUESS["input"], 0, GUESS["output"])
    return {
        "cost_usd": None if cost is None else cost * count,
        "tokens": int((sum(GUESS.values()) if tokens is None else tokens) * count),
        "seconds": (_GUESSED_S if seconds is None else seconds) * count,
        "basis": basis,
    }


def plan(root: Root, settings: Settings, found: Found, configured: str) -> CalibrationPlan:
    """The plan of an order, with what stands in its way."""
    known = read_all(root)
    lines = []
    for line in found.lines:
        same = [
            kept for kept in known if (kept.subject.engine, kept.subject.model) == (line.seat.engine, line.seat.model)
        ]
        earlier = [answer for kept in same for answer in kept.answers if answer.said]
        lines.append(
            CalibrationLine.model_validate(
                {
                    "judge": line.judge.name,
                    "seat": line.seat,
                    "version": line.subject.version,
                    "prompt_hash": line.subject.prompt_hash,
                    "votes": line.votes,
                    "cases": tuple(case.name for case in line.cases),
                    "ask": len(line.ask),
                    "there": len(line.cases) * line.votes - len(line.ask),
                    **_estimate(line, earlier),
                }
            )
        )
    return CalibrationPlan(
        protocol=found.protocol.name,
        sandbox=sandboxes.word(root, configured),
        cases={case.name: case.file.about for case in found.cases},
        lines=tuple(lines),
        problems=tuple(_problems(root, settings, found, configured)),
    )
