"""From a sweep to its cells: what would be submitted at this site, what exists, what stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ptb_tui.content import fingerprint
from ptb_tui.content.agents import Agent, load_agent
from ptb_tui.content.fingerprint import Print
from ptb_tui.content.frozen import MAX_FILE, large, private
from ptb_tui.content.items import item_problems
from ptb_tui.content.judges import load_judge, panel
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import VARIABLE, is_mock, named_prompt, prompt_of
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core.causes import cause
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotAllowed, PtbError
from ptb_tui.core.keys import OPENAI, OPENROUTER, not_for_agents
from ptb_tui.core.layout import Root
from ptb_tui.core.panel import Seat
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import (
    Cell,
    JudgePlan,
    Judging,
    Plan,
    PlanCell,
    Problem,
    ProtocolRef,
    RunSpec,
    Sweep,
    SweepAgent,
    digest_of,
)
from ptb_tui.core.states import State
from ptb_tui.results.records import RunRecord
from ptb_tui.results.store import scan
from ptb_tui.run import dispatch, graders, judges, place, sandboxes, sources
from ptb_tui.run.sandboxes import for_run
from ptb_tui.run.sources import endpoint, login
from ptb_tui.run.sources.login import agent_keys
from ptb_tui.sandbox.select import OVER_IMAGES


@dataclass(frozen=True, slots=True)
class Existing:
    """The runs of one cell so far: how many began, which one stands, which is under way."""

    attempts: int = 0
    counts: RunRecord | None = None
    active: RunRecord | None = None
    prints: frozenset[str] = frozenset()  # fingerprints of those that count or are under way


def existing_runs(records: Sequence[RunRecord]) -> dict[tuple[str, str, str], Existing]:
    """Runs by cell. A run stands when its agent ended in a way that counts; others leave the cell missing."""
    found: dict[tuple[str, str, str], Existing] = {}
    for record in sorted(records, key=lambda record: record.id):
        key = (record.method, record.benchmark, record.model)
        before = found.get(key, Existing())
        agent = record.agent_step
        counts = agent is not None and agent.state == State.DONE
        if agent is not None and agent.cause:
            counts = counts and cause(agent.cause).counts != "no"
        if record.foreign:
            counts = bool(record.values.get("agent_done"))
        voided = bool(record.values.get("void"))
        under_way = agent is not None and not agent.ended
        found[key] = Existing(
            attempts=before.attempts + (0 if record.foreign else 1),
            counts=record if counts and not voided else before.counts,
            active=record if under_way else before.active,
            prints=before.prints | ({record.fingerprint} if (counts and not voided) or under_way else set()),
        )
    return found


def token_of(spec: RunSpec, attempt: int) -> str:
    """The request token of a cell's n-th attempt: two processes that plan at once ask for the same thing."""
    return digest_of([*spec.cell, attempt])[:32]


def _excluded(cell: Cell, agent: SweepAgent, task: str, model: str) -> bool:
    pairs = ((cell.agent, agent.agent), (cell.config, agent.config), (cell.task, task), (cell.model, model))
    return all(wanted is None or wanted == actual for wanted, actual in pairs)


def judge_plans(
    content: Content, protocol: Protocol, judging: Judging, *endpoints: Mapping[str, str]
) -> tuple[JudgePlan, ...]:
    """Who judges runs of a protocol. `endpoints`: tables in which `openai_api` may name that engine's base URL, the
    first that does counts."""
    url = next((table[judges.API] for table in endpoints if table.get(judges.API)), "")
    wanted = judging.judges if judging.judges is not None else tuple(entry.judge for entry in protocol.judges)
    entries = {entry.judge: entry for entry in protocol.judges}
    plans = []
    for name in wanted:
        spec = load_judge(content, name).spec
        entry = entries.get(name)
        usual = Seat(engine=entry.engine if entry else "codex", votes=entry.votes if entry else spec.votes)
        seats = panel(spec, usual, judging, url)
        plans.append(
            JudgePlan(
                judge=name,
                engine=seats[0].engine,
                votes=len(seats),
                seats=seats,
                effect=entry.effect if entry else spec.effect,
                required=entry.required if entry else spec.required,
            )
        )
    return tuple(plans)


def _key_problems(spec: RunSpec, agent: Agent, task: Task, settings: Settings) -> list[Problem]:
    """Keys that the run may have and that have no value here (H §1.5)."""
    required, where = task.info.required_api_keys, str(settings.env_file or ".env")
    wanted = agent_keys(agent, spec.config, required, settings.values)
    found = []
    for key in wanted.missing(settings.values):
        graded, other = key in required, f" (or {OPENROUTER}=…)" if key == OPENAI else ""
        words = f"{key} has no value" + (f", and the answers to {task.name} are graded with it" if graded else "")
        found.append(Problem(words=words, remedy=f"put {key.partition(' ')[0]}=…{other} into {where}"))
    for key in not_for_agents(agent.keys, required):
        words = f"{key} goes to the graders of tasks that need it, not to agents such as {agent.name}"
        found.append(Problem(words=words, remedy=f"CODEX_API_KEY in {agent.folder / 'api_keys.json'}"))
    return found


_SETTINGS = ("protocol", "prompt", "judges", "judges_when", "network", "keys", "endpoints")


def _remarks(spec: RunSpec, record: RunRecord, apart: str) -> tuple[Problem, ...]:
    """What a person should know about the run that is there already: it was asked for with other settings. `apart`
    says what of the content differs."""
    before, now = record.spec, spec.model_dump(mode="json")
    other = [key for key in _SETTINGS if before is not None and key in before and before[key] != now[key]]
    if not other:
        return ()
    words = f"{spec.method}: what is there was submitted with another {', '.join(other)}"
    remedy = "`experiment` makes it a method of its own"
    if record.fingerprint != spec.protocol.fingerprint and record.protocol == spec.protocol.name:
        remedy += '; `rerun = "changed"` in the sweep runs it again for a row of its own'
    return (Problem(words=f"{words} ({apart})" if apart else words, remedy=remedy, blocks=False),)


def _prompt_problems(content: Content, spec: RunSpec, task: Task, protocol: Protocol) -> list[Problem]:
    """A prompt that cannot be built, and one that is no prompt of the benchmark."""
    try:
        prompt_of(content, spec, task, protocol)
    except PtbError as error:
        return [Problem(words=error.message, remedy=error.hint)]
    if not spec.prompt:
        return []
    nothing = ", which asks agents and judges to do nothing" if is_mock(spec.prompt) else ""
    words = f"{VARIABLE} names the prompt {spec.prompt}{nothing}, not {protocol.prompt} of the protocol"
    return [Problem(words=words, remedy=f"take {VARIABLE} out of the environment and .env", blocks=False)]


def _template_problems(content: Content, spec: RunSpec, protocol: Protocol) -> list[Problem]:
    """A base model to which a protocol with chat templates assigns none, or one that is not there."""
    name, where = protocol.templates.get(spec.base_model, ""), f"[templates] of protocol {protocol.name}"
    if protocol.templates and not name and spec.base_model in protocol.models:
        return [Problem(words=f"{where} names none for {spec.base_model}", remedy=f"add it in {protocol.name}.toml")]
    if name and content.file(f"tasks/templates/{name}") is None:
        return [Problem(words=f"{where}: there is no tasks/templates/{name}", remedy="put it into a content folder")]
    return []


def _refused(sweep: Sweep) -> tuple[Problem, ...]:
    """What a sweep may say but this version does not do: a promise that nobody keeps costs money or a wrong score."""
    asked = {
        "limits.budget_usd": sweep.limits.budget_usd is not None,
        "backend": bool(sweep.backend),
    }
    return tuple(
        Problem(words=f"{name} is not carried out in this version", remedy=f"take {name} out of the sweep")
        for name, is_asked in asked.items()
        if is_asked
    )


@dataclass(frozen=True, slots=True)
class Planner:
    """Everything a plan depends on, read once."""

    root: Root
    content: Content
    settings: Settings
    sandbox: str
    existing: Mapping[tuple[str, str, str], Existing]
    refused: tuple[Problem, ...] = ()  # what the sweep asks and this version would silently not do
    endpoints: Mapping[str, str] = field(default_factory=dict)  # the site's
    rerun: Literal["missing", "changed"] = "missing"
    prints: dict[tuple[str, str], Print] = field(default_factory=dict)  # of a protocol with a prompt
    items: dict[str, str] = field(default_factory=dict)  # task → digest of its items

    def reference(self, protocol: Protocol, prompt: str, task: Task) -> ProtocolRef:
        """Which benchmark exactly; its files are read once for a plan."""
        key = (protocol.name, prompt)
        if key not in self.prints:
            self.prints[key] = fingerprint.take(self.content, protocol, prompt)
        if task.name not in self.items:
            self.items[task.name] = fingerprint.of_data(task)
        return ProtocolRef(name=protocol.name, fingerprint=self.prints[key].fingerprint, data=self.items[task.name])

    def apart(self, record: RunRecord, spec: RunSpec) -> str:
        """What differs between the content of a run that is there and that of this plan, in words."""
        before = fingerprint.recall(self.root, record.fingerprint)
        after = self.prints.get((spec.protocol.name, spec.prompt))
        return fingerprint.difference(before.parts, after.parts).words if before and after else ""

    def spec(self, sweep: Sweep, agent: SweepAgent, task: Task, model: str, protocol: Protocol, n: int) -> RunSpec:
        """The spec of one cell, without id and token."""
        experiment = agent.experiment if agent.experiment is not None else sweep.experiment
        prompt = named_prompt(self.content, protocol, self.settings.values)
        loaded = load_agent(self.content, agent.agent)
        keys = agent_keys(loaded, agent.config, task.info.required_api_keys, self.settings.values).names
        spec = RunSpec(
            agent=agent.agent,
            config=agent.config,
            benchmark=task.name,
            base_model=model,
            hours=agent.hours or sweep.hours,
            gpus=agent.gpus if agent.gpus is not None else sweep.gpus,
            experiment=experiment + (f"_r{n}" if n > 1 else ""),
            priority=agent.priority if agent.priority is not None else sweep.priority,
            protocol=self.reference(protocol, prompt, task),
            prompt=prompt,
            judges=judge_plans(self.content, protocol, sweep.judging, sweep.endpoints, self.endpoints),
            judges_when=sweep.judging.when or "inline",
            network=protocol.agents_network,
            keys=keys,
            endpoints=endpoint.resolve(loaded, sweep.endpoints, self.endpoints)
            | (graders.named(sweep.endpoints, self.endpoints) if task.info.required_api_keys else {}),
            sweep=sweep.digest,
            sweep_name=sweep.name,
            max_parallel=sweep.limits.max_parallel,
            **login.of_spec(loaded, sweep.limits.per_credential),
            scratch_gib=protocol.scratch_gib,
        )
        return sandboxes.pin(self.root, spec, self.content, self.settings, self.sandbox).sealed()

    def _problems(self, spec: RunSpec, task: Task, protocol: Protocol) -> list[Problem]:
        agent = load_agent(self.content, spec.agent)
        problems = [*self.refused, *_key_problems(spec, agent, task, self.settings)]
        look = sources.Look(self.root, spec, agent, task, protocol, self.content, self.settings)
        problems += item_problems(task)
        if task.name not in protocol.tasks:
            problems.append(
                Problem(words=f"task {task.name} is not part of protocol {protocol.name}", remedy=str(protocol.tasks))
            )
        if spec.base_model not in protocol.models:
            problems.append(
                Problem(words=f"{spec.base_model} is not part of protocol {protocol.name}", remedy=str(protocol.models))
            )
        if spec.gpus == 0 and not protocol.allow_no_gpu:
            problems.append(Problem(words=f"protocol {protocol.name} needs a GPU", remedy="gpus = 1"))
        problems += _prompt_problems(self.content, spec, task, protocol)
        problems += _template_problems(self.content, spec, protocol)
        problems += [
            Problem(words=f"{path}: only you may read it, so a run would not get it", remedy=f"chmod go+r {path}")
            for path in (*private(task.folder), *private(agent.folder))
        ]
        problems += [
            Problem(
                words=f"{path} has more than {MAX_FILE >> 20} MiB, so a run would not get it",
                remedy="put test items into the data folder (`ptb-tui data status` names it)",
            )
            for path in (*large(task.folder), *large(agent.folder))
        ]
        try:
            problems += sources.problems(look)
            if sandboxes.word(self.root, self.sandbox) in OVER_IMAGES:
                sandboxes.need_images(spec, self.content, self.settings)
            problems += judges.problems(look, self.sandbox)
            for role in sandboxes.roles(spec):
                for_run(self.root, spec, self.content, self.sandbox, role)
        except PtbError as error:
            problems.append(Problem(words=error.message, remedy=error.hint))
        return problems

    def cell(self, spec: RunSpec, task: Task, protocol: Protocol) -> PlanCell:
        """What would happen to one cell."""
        now = self.existing.get(spec.cell, Existing())
        spec = spec.sealed(token=token_of(spec, now.attempts))
        again = self.rerun == "changed" and bool(now.prints) and spec.protocol.fingerprint not in now.prints
        if now.counts is not None and not again:
            remarks = _remarks(spec, now.counts, self.apart(now.counts, spec))
            return PlanCell(spec=spec, action="exists", run_id=now.counts.id, why="has a result", problems=remarks)
        if now.active is not None and not again:
            remarks = _remarks(spec, now.active, self.apart(now.active, spec))
            return PlanCell(spec=spec, action="running", run_id=now.active.id, why="is under way", problems=remarks)
        problems = self._problems(spec, task, protocol)
        why = f"attempt {now.attempts + 1}: earlier ones do not count" if now.attempts else ""
        if again:
            why = "the content has changed since the runs that are there"
        action: Literal["blocked", "submit"] = "blocked" if any(problem.blocks for problem in problems) else "submit"
        return PlanCell(spec=spec, action=action, why=why, problems=tuple(problems))


def known_agents(content: Content) -> tuple[str, ...]:
    """Agent names for reading method directories."""
    return content.names("agents")


def make_plan(
    sweep: Sweep,
    root: Root,
    content: Content,
    settings: Settings,
    sandbox: str = "auto",
    endpoints: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a sweep at this site. Errors in what the sweep names are raised; what a site lacks is a problem.

    `sandbox` and `endpoints` are the operator's words for this site; what `site.toml` says goes before them.
    """
    of_site = place.site(root).get("endpoints")
    table = {str(key): str(url) for key, url in (of_site if isinstance(of_site, dict) else endpoints or {}).items()}
    refused = (
        *_refused(sweep),
        *endpoint.unknown(sweep.endpoints, content, "[endpoints] of the sweep"),
        *endpoint.unknown(table, content, "[endpoints] of the site"),
    )
    existing = existing_runs(scan(root, known_agents(content)))
    planner = Planner(root, content, settings, sandbox, existing, refused, table, sweep.rerun)
    tasks = {name: load_task(content, name, data_store(root.path)) for name in sweep.tasks}
    cells: list[PlanCell] = []
    for agent in sweep.agents:
        protocol = load_protocol(content, agent.protocol or sweep.protocol)
        for name, task in tasks.items():
            for model in sweep.models:
                if any(_excluded(cell, agent, name, model) for cell in sweep.exclude):
                    continue
                for n in range(1, (agent.repeats or sweep.repeats) + 1):
                    cells.append(planner.cell(planner.spec(sweep, agent, task, model, protocol, n), task, protocol))
    twice = [cell for cell, count in Counter(cell.spec.cell for cell in cells).items() if count > 1]
    if twice:
        raise NotAllowed(
            f"the sweep names {' / '.join(twice[0])} more than once", hint="set `experiment` or `repeats` instead"
        )
    chosen = set()
    for cell in cells:
        try:
            chosen.add(for_run(root, cell.spec, content, sandbox).name)
        except PtbError:
            continue
    return Plan(sweep=sweep, cells=tuple(cells), sandbox=", ".join(sorted(chosen)), problems=_too_few_gpus(cells))


def _too_few_gpus(cells: Sequence[PlanCell]) -> tuple[Problem, ...]:
    """A remark on runs that would wait for more GPUs than this machine has now."""
    wanted = max((cell.spec.gpus for cell in cells if cell.action in ("submit", "blocked")), default=0)
    have = len(dispatch.gpus()) if wanted else 0
    if have >= wanted:
        return ()
    words = f"a run needs {wanted} of this machine's GPUs, nvidia-smi names {have or 'none'}: it would wait"
    return (Problem(words=words, remedy="repair the driver, or `--site` of the machine with GPUs", blocks=False),)
