"""Prepare: everything an agent step needs before its agent starts (H §1.3–1.6, design §5).

Internal verb `step-prepare PTB STEP SCRATCH SLOT`. Writes `<scratch>/home` (the sandbox's home), `<scratch>/public`
(what becomes visible in the run directory when the agent starts) and `<scratch>/launch.json`; on a mistake
`<step>/result.json` with cause and words. May be repeated: the supervisor hands over an empty scratch.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ptb_tui.content.agents import load_agent
from ptb_tui.content.datafile import TEST_DATA
from ptb_tui.content.items import check, data_facts
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import prompt_of
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.tasks import load_task
from ptb_tui.content.tools import single_file
from ptb_tui.core import clock, files, names, settings
from ptb_tui.core.datastore import data_store
from ptb_tui.core.errors import PtbError, StepError
from ptb_tui.core.layout import RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.run import place
from ptb_tui.run.sandboxes import for_run, root_of
from ptb_tui.run.site_words import site_word
from ptb_tui.run.sources import Look, Provision, Ready, gather
from ptb_tui.run.sources.login import agent_keys, for_network, listen_port
from ptb_tui.run.steps import base_model_folder, lay_out_task, same_benchmark, template_of
from ptb_tui.sandbox.base import Request
from ptb_tui.sandbox.select import OVER_IMAGES

GRACE_S = 300.0  # the agent is ended this long after the budget it was told (H §1.8)
RESERVE_FACTOR = 1.2
STARTERS = ("agent_start.sh", "check_cuda.py", "system_monitor.sh")  # of agents/_shared, run before the agent


def timer_script(hours: float, start: int | None = None) -> str:
    """`timer.sh` (H §1.6): prints the time left as H:MM, or that it has run out.

    Without `start`, a second of the epoch, the line `start=` gets the second in which the agent is executed from
    whoever executes it (`agent_start.sh`); until then the time counts from when the file was written.
    """
    return (
        "#!/bin/bash\n"
        f"start={'' if start is None else start}\n"
        f'left=$(( ${{start:-$(stat -c %Y "$0")}} + {round(hours * 3600)} - $(date +%s) ))\n'
        'if [ "$left" -le 0 ]; then\n'
        "    echo 'Timer expired!'\n"
        "else\n"
        "    echo 'Remaining time (hours:minutes):'\n"
        "    printf '%d:%02d\\n' $(( left / 3600 )) $(( left % 3600 / 60 ))\n"
        "fi\n"
    )


def populate(plan: Look, home: Path) -> None:
    """Fill the sandbox's home. StepError names a file that is missing."""
    task, content = plan.task, plan.content
    check(task)
    lay_out_task(home / "task", task, content, task.folder / "evaluate.py")
    for name, path in task.beside.items():
        if name != TEST_DATA or TEST_DATA in plan.protocol.kit or task.data is None:
            shutil.copyfile(path, home / name)
    if task.checked(plan.protocol.kit):
        tool = content.file("judges/tools/contamination_check.py")
        if tool is None:
            raise StepError("judges/tools/contamination_check.py is in no content folder", cause="prepare_failed")
        text = single_file(tool)
        default = f'DEFAULT_MODE = "{plan.protocol.checker_mode}"'
        (home / tool.name).write_text(text.replace('DEFAULT_MODE = "strict"', default, 1), "utf-8")
    (home / "agent").mkdir()
    for file in plan.agent.files:
        shutil.copy(file, home / "agent" / file.name)
    for target, file in plan.agent.home.items():
        (home / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, home / target)
    shutil.copy(plan.agent.solve, home / "agent_solve.sh")
    for name in STARTERS:
        shared = content.file(f"agents/_shared/{name}")
        if shared is None:
            raise StepError(f"agents/_shared/{name} is missing", cause="prepare_failed")
        shutil.copy(shared, home / "agent" / name)
    (home / "hf_cache").mkdir()


def _reserve(run: RunFiles, model: Path | None) -> None:
    """Really allocate the harvest's space, so that a quota fails now and not after the agent's hours."""
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) if model else 16 << 30
    try:
        with open(run.ptb / "reserve", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, int(size * RESERVE_FACTOR)))
    except OSError as error:
        (run.ptb / "reserve").unlink(missing_ok=True)
        cause = "quota" if error.errno == 122 else "disk_full"
        raise StepError(
            f"{run.ptb}: no room for the model that the agent will leave: {error.strerror}", cause=cause
        ) from error


def _stage(scratch: Path) -> Path:
    """Copy the code that runs this to the run's scratch, and import every phase from there."""
    source, target = Path(place.__file__).resolve().parents[2], scratch.parent / "bundle"
    if (source / "ptb").is_file() and source != target and not target.exists():
        temporary = target.with_name("bundle.part")
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(source, temporary, symlinks=True)
        temporary.rename(target)
    phases = ["harvest", "follow", "companion", "shim", "steps.judge", "steps.evaluate"]
    code = f"import sys; sys.path.insert(0, {str(target if target.exists() else source)!r});" + "".join(
        f"import ptb_tui.run.{phase};" for phase in phases
    )
    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False, cwd="/")
    if answer.returncode != 0:
        words = answer.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise StepError(f"the staged program cannot be imported: {' '.join(words)}", cause="prepare_failed")
    return target if target.exists() else source


def _launch(plan: Look, ready: Ready, given: Provision, bundle: Path, gpus: tuple[str, ...]) -> dict[str, object]:
    """Content of launch.json: the sandboxed command, its environment without secrets, its limits."""
    spec, sandbox, home, scratch = plan.spec, ready.sandbox, ready.home, ready.scratch
    inside = ready.home_inside
    path = (*given.path, f"{inside}/.local/bin", *sandbox.path())
    env = {
        "PATH": ":".join(dict.fromkeys(path)),
        "HOME": inside,
        "LANG": "C.UTF-8",
        "PROMPT": prompt_of(plan.content, spec, plan.task, plan.protocol),
        "AGENT_CONFIG": spec.config,
        "NUM_GPUS": str(spec.gpus),
        "PTB_GPU_NAME": site_word(plan.root, plan.settings, "gpu_name"),
        "HF_HOME": f"{inside}/hf_cache",
        "PTB_BASE_MODEL": spec.base_model,
        **template_of(plan.protocol, spec.base_model),
        "VLLM_API_KEY": "inspectai",
        "PYTHONNOUSERSITE": "1",
        **plan.agent.env,
        **given.env,
    }
    gateway = scratch / "gateway" / "gateway.sock"
    request = Request(
        argv=("bash", f"{inside}/agent/agent_start.sh"),
        home=home,
        workdir="task",
        binds=given.binds,
        env=env,
        gpus=gpus,
        network=spec.network,
        gateway_socket=gateway if spec.network == "gateway" else None,
        tmp_bytes=int(plan.protocol.tmp_gib * (1 << 30)),
        reach=given.reach if spec.network == "gateway" else (),
        scratch=scratch / "sandbox",
        open_network=spec.network == "gateway",  # design §4: `full`, marked, where namespaces are refused
    )
    (scratch / "gateway").mkdir(mode=0o700)
    command = sandbox.command(request)
    companion: list[str] | None = None
    listen = 0
    if spec.network == "gateway" or given.companion:
        companion = [sys.executable, "-I", str(bundle / "ptb"), "companion", str(scratch)]
        also = [f"127.0.0.1:{port}" for port in given.reach]
        ledger = str(scratch / "egress.jsonl")
        socket_path = str(gateway) if spec.network == "gateway" else None
        config = {"socket": socket_path, "ledger": ledger, "allow": None, "also": also, **given.companion}
        config = for_network(config, command.network)
        listen = listen_port(config)
        files.replace(scratch / "companion.json", files.dump(config), mode=0o600)
    return {
        "argv": list(command.argv),
        "env": command.env,
        "prefix": command.prefix,
        "encoded": command.encoded,
        "began": str(command.began or ""),
        "prompt": env["PROMPT"],
        "keys": agent_keys(plan.agent, spec.config, plan.task.info.required_api_keys, plan.settings.values).words(),
        "cwd": str(command.cwd),
        "limits": command.limits,
        "runtime": sandbox.runtime,
        "deadline_s": spec.hours * 3600 + GRACE_S,
        "starter": STARTERS[0] if spec.gpus else "",  # its check of the GPUs is no time of the agent's
        "grace_s": 30,
        "companion": companion,
        "listen": listen,
        "trace": plan.agent.trace,
        "sandbox": sandbox.name,
        "network": command.network or spec.network,
        "notes": [*command.notes, *given.notes],
    }


def prepare(run: RunFiles, scratch: Path, gpus: tuple[str, ...]) -> None:
    """Prepare one agent step. StepError or another PtbError; nothing outside scratch and the queue folder changes."""
    spec = RunSpec.model_validate_json(run.spec.read_bytes())
    content = Content.of()
    root = root_of(run)
    task = load_task(content, spec.benchmark, data_store(root.path))
    protocol = load_protocol(content, spec.protocol.name)
    same_benchmark(spec, content, protocol, task)
    agent = load_agent(content, spec.agent)
    plan = Look(root, spec, agent, task, protocol, content, settings.load(cwd=Path("/")))
    ready = Ready(scratch, for_run(root, spec, content))
    host = {
        "t": clock.utc_text(),
        "host": socket.gethostname(),
        "python": sys.version.split()[0],
        "sandbox": ready.sandbox.name,
        "scratch_free": shutil.disk_usage(scratch).free,
    }
    root.own("nodes").mkdir(parents=True, exist_ok=True)
    files.replace(root.own("nodes") / f"{socket.gethostname()}.json", files.dump(host))
    bundle = _stage(scratch)
    populate(plan, ready.home)
    given, facts = gather(replace(plan, content=Content.of((bundle,))), ready)  # what is bound is the node's own copy
    _reserve(run, base_model_folder(content, spec.base_model))
    launch = _launch(plan, ready, given, bundle, gpus)
    image = spec.images.get("agent", "") if ready.sandbox.name in OVER_IMAGES else ""
    seen = {"sandbox": launch["sandbox"], "network": launch["network"], **({"image": image} if image else {})}
    files.replace(run.ptb / "provenance.json", files.dump({"v": 1, **seen, **facts, "data": data_facts(task)}))
    public = scratch / "public"
    public.mkdir()
    hours = names.format_hours(spec.hours)
    arguments = (spec.benchmark, spec.agent, spec.base_model, spec.id, hours, spec.config, spec.gpus)
    lines = (" ".join(map(str, arguments)), f"sandbox: {seen['sandbox']}; network: {seen['network']}", *launch["notes"])  # type: ignore[misc]
    (public / "output.log").write_text("\n".join(map(str, lines)) + "\n", "utf-8")
    (public / "error.log").write_text("", "utf-8")
    (public / "prompt.txt").write_text(str(launch["prompt"]), "utf-8")
    timer = scratch / "home" / "task" / "timer.sh"
    began = int(time.time()) if protocol.timer == "prepare" else None  # as in the original, whose preparation counts
    timer.write_text(timer_script(spec.hours, began), "utf-8")
    timer.chmod(timer.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    files.replace(scratch / "launch.json", files.dump(launch), mode=0o600)


def main(argv: Sequence[str]) -> int:
    """Internal verb; exit 1 with `<step>/result.json` when the step cannot be prepared."""
    ptb, step, scratch = (Path(part) for part in argv[:3])
    try:
        prepare(RunFiles(ptb), scratch, place.slot_gpus(argv[3]))
    except (PtbError, OSError, ValueError) as error:
        cause = error.cause if isinstance(error, StepError) else "prepare_failed"
        result = {"outcome": "failed", "cause": cause, "why": str(error)}
        files.replace(step / "result.json", files.dump(result))
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    return 0
