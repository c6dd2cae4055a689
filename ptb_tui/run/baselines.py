"""A model measured as it is, with the final evaluation and no agent: what that takes here, and what was measured so far
(E §6.4).

    <results>/_ptb/baselines/<task>_<org>_<model>/evaluation[_n]/   attempts, record, metrics.json and baseline.json
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ptb_tui.content.datafile import BASELINE
from ptb_tui.content.fingerprint import reference
from ptb_tui.content.items import item_problems
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.content.tasks import Task, load_task
from ptb_tui.core import files, names
from ptb_tui.core.baseline import BaselineOrder, BaselinePlan, BaselineRow
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import NotAllowed, NotFound, PtbError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import Problem, RunSpec
from ptb_tui.evaluation import final, record, seeds, validity
from ptb_tui.run import sandboxes
from ptb_tui.run.dispatch import slot_names
from ptb_tui.run.graders import grader_of, with_endpoint
from ptb_tui.run.steps import base_model_folder
from ptb_tui.sandbox.base import Sandbox
from ptb_tui.supplies import hub

NAME = "baseline.json"
_PUBLISHED = re.compile(r"[0-9]+(\.[0-9]+)*")
_WORD = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Here:
    """Where something is to be measured: `sandbox` is the site's word, `endpoints` its own."""

    root: Root
    content: Content
    settings: Settings
    sandbox: str = "auto"
    endpoints: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, str]:
        """The settings with the grader's address, as `phases_of` reads them."""
        return with_endpoint(self.settings.values, self.endpoints)


@dataclass(frozen=True, slots=True)
class Model:
    """A model to be measured: the name it is recorded under, and its files, which may be links (the hub's cache)."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Ready:
    """An order with everything it names found."""

    order: BaselineOrder
    task: Task
    protocol: Protocol
    model: Model
    spec: RunSpec  # of a run whose evaluation this could be; it decides the sandbox
    seeds: tuple[int, ...]
    limit: int
    whole: bool

    @property
    def answers(self) -> Path:
        """Where baseline answers go."""
        return self.task.store / BASELINE


def find_model(content: Content, values: Mapping[str, str], name: str) -> Model:
    """The model that is meant. NotFound says where it was looked for and what fetches it."""
    if name.startswith(("/", "~")):
        folder = Path(os.path.abspath(os.path.expanduser(name)))
        if not folder.is_dir():
            raise NotFound(f"{folder} is no folder of this site")
        return Model(f"local/{_WORD.sub('_', folder.name)}", folder)
    if name.startswith("."):
        raise NotFound(f"{name}: a folder is named by its whole path", hint="or by local/NAME of containers/models")
    try:
        folder_of_content = base_model_folder(content, name)
    except PtbError as error:
        raise NotFound(error.message) from error
    if folder_of_content is not None:
        return Model(name, folder_of_content)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+", name):
        raise NotFound(f"{name!r} names no model", hint="ORGANISATION/NAME of the hub, local/NAME, or a path")
    cache, repo = hub.home(values), hub.Repo("model", name)
    found = hub.state(cache, repo)
    if found.state != "cached":
        why = f"is there only in part: {found.words}" if found.state == "partial" else "is not there"
        raise NotFound(f"{name} {why} (cache of the hub at {cache})", hint=f"ptb-tui data cache --only {name}")
    return Model(name, cache / "hub" / repo.folder / "snapshots" / found.commit)


def protocol_for(content: Content, task: str, wanted: str) -> Protocol:
    """The protocol wanted, else the newest published one that has the task, else the first that has it. NotFound."""
    if wanted:
        return load_protocol(content, wanted)
    every = sorted({path.stem for base in content.paths for path in (base / "tasks" / "protocols").glob("*.toml")})
    published = [name for name in every if _PUBLISHED.fullmatch(name)]
    order = sorted(published, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    for name in (*order, *(name for name in every if name not in published)):
        protocol = load_protocol(content, name)
        if task in protocol.tasks:
            return protocol
    return load_protocol(content, order[0] if order else "1.2")


def ready(here: Here, order: BaselineOrder) -> Ready:
    """Find everything that an order names. NotFound, NotAllowed or ContentError; nothing is written."""
    if order.limit < 1 and order.limit != -1:
        raise NotAllowed(f"a limit of {order.limit} leaves nothing to evaluate", hint="-1 is all items")
    content, values = here.content, here.settings.values
    task = load_task(content, order.task, data_store(here.root.path))
    takes = any(source.file == BASELINE for source in (task.data.generated if task.data else ()))
    if order.answers and not takes:
        raise NotAllowed(f"task {task.name} compares with no baseline answers", hint="leave --answers out")
    if order.answers and order.limit != -1:
        raise NotAllowed("baseline answers are needed for all items", hint="leave --limit out")
    try:
        model = find_model(content, values, order.model)
    except NotFound as error:
        lacking = [one.remedy for one in item_problems(task) if not (order.answers and BASELINE in one.words)]
        also = f"; {task.name} lacks items, too" if lacking else ""
        hint = "; ".join(dict.fromkeys(filter(None, (error.hint, *lacking))))
        raise NotFound(f"{error.message}{also}", hint=hint) from error
    protocol = protocol_for(content, task.name, order.protocol)
    rule = protocol.seeds.get(task.name) or task.file.final.seeds or seeds.default_seeds(task.name)
    more = (*rule, *(seed for seed in seeds.ALL if seed not in rule))
    only, temperature = task.file.final.seed_only_samples, seeds.default_temperature(model.folder)
    wanted = seeds.needed(rule, seed_only_samples=only, temperature=temperature)
    chosen = more[: order.seeds] if order.seeds else wanted
    limit = task.file.final.limit if order.limit == -1 else order.limit
    whole = limit == task.file.final.limit and len(chosen) >= len(wanted)
    spec = RunSpec(
        agent=next(iter(protocol.process_agents), "baseline"),
        config="baseline",
        benchmark=task.name,
        base_model=model.name,
        hours=1,
        protocol=reference(content, protocol, task),
    )
    spec = sandboxes.pin(here.root, spec, content, here.settings, here.sandbox)
    return Ready(order, task, protocol, model, spec, chosen[:1] if order.answers else chosen, limit, whole)


def _linked(folder: Path) -> bool:
    return any(path.is_symlink() for path in folder.rglob("*"))


def materialise(model: Model, target: Path) -> Path:
    """The model's folder without links: itself when it has none, else `target`, filled with hard links, or with copies
    where the cache is on another disk. OSError."""
    if not _linked(model.folder):
        return model.folder
    for base, _, found in os.walk(model.folder):
        to = target / os.path.relpath(base, model.folder)
        to.mkdir(parents=True, exist_ok=True)
        for name in found:
            real = os.path.realpath(os.path.join(base, name))
            try:
                os.link(real, to / name)
            except OSError:
                shutil.copyfile(real, to / name)
    return target


def sandbox_of(here: Here, found: Ready) -> Sandbox:
    """The sandbox that evaluations of this protocol's runs get here. NotAllowed or StepError when there is none."""
    return sandboxes.for_run(here.root, found.spec, here.content, here.sandbox, role="evaluation")


def plan(here: Here, found: Ready) -> BaselinePlan:
    """What an order would do, and what stands in its way."""
    task, problems, sandbox, grader = found.task, [], "", ""
    lacking = item_problems(task)
    answers = str(found.answers)
    problems += [one for one in lacking if not (found.order.answers and BASELINE in one.words)]
    if found.order.answers and found.answers.exists():
        words = f"{found.answers} is there already; it will be kept beside the new one"
        problems.append(Problem(words=words, blocks=False))
    if not (found.model.folder / "config.json").is_file():
        problems.append(Problem(words=f"{found.model.folder} holds no config.json", remedy="name a model's folder"))
    elif not _linked(found.model.folder) and (wrong := validity.check(found.model.folder).problem):
        words = f"{found.model.folder} {wrong.removeprefix('final_model ')}"
        problems.append(Problem(words=words, remedy="name another model"))
    try:
        sandbox = sandbox_of(here, found).name
    except PtbError as error:
        problems.append(Problem(words=error.message, remedy=error.hint))
    try:
        asked = None if found.order.answers else grader_of(task.info.required_api_keys, here.values)
        grader = asked.url if asked else ""
    except PtbError as error:
        problems.append(Problem(words=error.message, remedy=error.hint))
    every = slot_names(here.root)
    kind = "gpu" if any(name.startswith("gpu:") for name in every) else "cpu"
    return BaselinePlan(
        task=task.name,
        model=found.model.name,
        folder=str(found.model.folder),
        protocol=found.protocol.name,
        sandbox=sandbox,
        slots=f"one of {sum(name.startswith(kind) for name in every)} {kind}",
        seeds=found.seeds,
        limit=found.limit,
        attempts=final.total_attempts(task.file.final.ladder),
        answers=answers if found.order.answers else "",
        grader=grader,
        problems=tuple(problems),
    )


def place_of(root: Root, task: str, model: str) -> Path:
    """The folder of all evaluations of a model on a task."""
    return root.own("baselines") / f"{task}_{names.safe(model)}"


def toml_line(row: Mapping[str, Any]) -> str:
    """What goes below `[baselines."MODEL"]` of a protocol."""
    return f"{row['task']} = {json.dumps(row['accuracy'])}"


def kept(root: Root, task: str = "", model: str = "") -> list[BaselineRow]:
    """What was measured here, newest first; what cannot be read is passed over."""
    rows = []
    try:
        places = sorted(path for path in root.own("baselines").iterdir() if path.is_dir())
    except OSError:
        return []
    for place in places:
        for folder in record.folders(place):
            raw = files.read_object(folder / NAME) or {}
            try:
                row = BaselineRow.model_validate(raw.get("row"))
            except ValidationError:
                continue
            if task in ("", row.task) and model in ("", row.model):
                rows.append(row.model_copy(update={"folder": str(folder)}))
    return sorted(rows, key=lambda row: row.t, reverse=True)
