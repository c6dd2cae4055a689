"""The sandbox of a run's steps: the site's word, the protocol's rule, the agent's trust and the images together
(design §6).

A run that is planned for a sandbox over images pins the file of every role in its spec; with `auto` a run without
pinned images gets bubblewrap, in all its steps.
"""

from __future__ import annotations

from pathlib import Path

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import Protocol, load_protocol
from ptb_tui.core.errors import NotFound, PtbError, StepError
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import RunSpec
from ptb_tui.run import place
from ptb_tui.sandbox import runtime
from ptb_tui.sandbox.base import Sandbox
from ptb_tui.sandbox.select import OVER_IMAGES, choose, isolating
from ptb_tui.sandbox.system import interpreter_prefixes
from ptb_tui.supplies import images

AGENT = "POST_TRAIN_BENCH_CONTAINER_NAME"
_USUAL = {"agent": "standard", "judge": "gpt_5_5", "evaluation": "vllm_debug"}  # H §1.12.3


def root_of(run: RunFiles) -> Root:
    """The results root of a run: `<root>/<method>/<run>/.ptb` or `<root>/_ptb/queue/<id>`."""
    return Root(run.ptb.parents[2])


def word(root: Root, configured: str = "auto") -> str:
    """The site's word for its sandbox; `configured` is the operator's, used until the site has its own."""
    return str(place.site(root).get("sandbox") or configured)


def roles(spec: RunSpec) -> tuple[str, ...]:
    """Which images the steps of a run need."""
    judges = any(judge.engines - {"rules"} for judge in spec.judges)
    return ("agent", *(("judge",) if judges else ()), "evaluation")


def image_names(spec: RunSpec, protocol: Protocol, settings: Settings) -> dict[str, str]:
    """Name of the image by role: the protocol's, else the operator's for agents, else the usual one. Where our scripts
    run by the host's interpreter, all roles use the agent's."""
    named: dict[str, str] = dict(protocol.images.items())
    agent = named.get("agent") or settings.values.get(AGENT) or _USUAL["agent"]
    usual = dict.fromkeys(_USUAL, agent) if protocol.interpreter == "host" else {**_USUAL, "agent": agent}
    return {role: named.get(role) or usual[role] for role in roles(spec)}


def pin(root: Root, spec: RunSpec, content: Content, settings: Settings, configured: str = "auto") -> RunSpec:
    """The spec with the images of its steps, when they will run over images; unchanged otherwise.

    With `auto` that is so where a runtime and every image are there, and the protocol's scripts run by the image's
    Python. An image that is missing stays out: `for_run` says so.
    """
    said, protocol = word(root, configured), load_protocol(content, spec.protocol.name)
    automatic = said == "auto" and protocol.interpreter == "image"
    if said not in OVER_IMAGES and not (automatic and not isinstance(_apptainer(), str)):
        return spec
    folder, found = images.containers_dir(settings.values), dict[str, str]()
    for role, name in image_names(spec, protocol, settings).items():
        try:
            path = images.resolve(folder, name)
            digest = images.pin(path)
        except (PtbError, OSError):
            continue
        file = path.name if path.parent == folder else str(path)
        found[role] = file if digest in path.name else f"{file}@{digest}"
    if automatic and set(found) != set(roles(spec)):
        return spec
    return spec.model_copy(update={"images": found, "containers": str(folder)})


def image_of(spec: RunSpec, role: str) -> Path:
    """The pinned image of a role. StepError with cause `image_missing` when it is not there or another one by now."""
    file, _, digest = spec.images.get(role, "").partition("@")
    path = Path(spec.containers) / file
    if not file or not path.exists():
        what = f"{path} is gone" if file else f"there is no image for the role {role}"
        name = Path(file).name.rsplit("-", 1)[0].removesuffix(".sif") or _USUAL[role]
        raise StepError(what, cause="image_missing", hint=f"ptb-tui container build {name}")
    if digest and images.pin(path) != digest:
        raise StepError(f"{path} is another image than the one the run was planned with", cause="image_missing")
    return path


def need_images(spec: RunSpec, content: Content, settings: Settings) -> None:
    """StepError with cause `image_missing` for an image that the run will need, naming what to build."""
    names = image_names(spec, load_protocol(content, spec.protocol.name), settings)
    for role, name in names.items():
        if role not in spec.images:
            try:
                images.resolve(images.containers_dir(settings.values), name)
            except NotFound as error:
                raise StepError(error.message, cause="image_missing", hint=error.hint) from error


def for_run(root: Root, spec: RunSpec, content: Content, configured: str = "auto", role: str = "agent") -> Sandbox:
    """The sandbox for the steps of a run that have this role. NotAllowed, with what to install, when there is none.

    StepError with cause `image_missing` when its image is not there.
    """
    protocol = load_protocol(content, spec.protocol.name)
    trusted = spec.agent in protocol.process_agents and load_agent(content, spec.agent).trusted
    said = word(root, configured)
    image = image_of(spec, role) if said in OVER_IMAGES or (said == "auto" and spec.images) else None
    prefixes = interpreter_prefixes() if protocol.interpreter == "host" else ()
    known = isolating(image, prefixes, place.scratch_base(root))
    if said == "auto":
        names = ("apptainer",) if image is not None else ("apptainer", "bubblewrap")  # the first says what it lacks
        known = {name: known[name] for name in names}
    return choose(said, protocol=protocol.name, agents_trusted=trusted, isolating=known)


def _apptainer() -> runtime.Runtime | str:
    return runtime.usable("apptainer", runtime.find("apptainer"))
