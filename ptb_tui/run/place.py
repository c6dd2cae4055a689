"""Where a run is and where its work happens on this machine; shared by supervisor and dispatch.

Standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.errors import NotFound
from ptb_tui.core.layout import Root, RunFiles

GONE = ".gone"  # ends the name of a step's scratch that is being removed
KEEP = (
    *("PTB_ENV_FILE", "PTB_SCRATCH", "PTB_DATA_DIR", "HF_HOME", "LANG", "TZ"),
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    *("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE"),  # a gateway's
)


def find(root: Root, run_id: int) -> RunFiles:
    """Our files of a run that is queued or has steps to do, or that never started. NotFound when there is none."""
    queued = root.queued(run_id)
    if queued.spec.is_file():
        return queued
    pointer = files.read_bytes(root.live(run_id), 4096)
    if pointer:
        live = RunFiles(root.path / pointer.decode("utf-8", "replace").strip())
        if live.spec.is_file():
            return live
    for candidate in (root.queued(run_id), RunFiles(root.own("never_started") / str(run_id))):
        if candidate.spec.is_file():
            return candidate
    raise NotFound(f"no run {run_id} in {root.path}")


def pending(root: Root) -> list[int]:
    """Ids of all runs that may have something to do."""
    found: set[int] = set()
    for folder in ("queue", "live"):
        with contextlib.suppress(OSError):
            found.update(int(name) for name in os.listdir(root.own(folder)) if name.isdigit())
    return sorted(found)


def site(root: Root) -> dict[str, Any]:
    """The site's own part of the configuration, `_ptb/site.toml`; empty when there is none."""
    try:
        return tomllib.loads((root.ptb / "site.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def run_scratch(root: Root, run_id: int) -> Path:
    """Node-local scratch of a run, outside every sandbox: `scratch` of the site, else `PTB_SCRATCH`, else /var/tmp."""
    return root.scratch(scratch_base(root), run_id)


def scratch_base(root: Root) -> Path:
    """Where runs of this site have their scratch on a node."""
    return Path(str(site(root).get("scratch") or os.environ.get("PTB_SCRATCH") or "/var/tmp"))


def program(root: Root, spec: Mapping[str, Any]) -> Path:
    """The `ptb` of the bundle the run was submitted with."""
    return root.own("bundles") / str(spec.get("bundle") or "none") / "ptb"


def slot_gpus(slot: str) -> tuple[str, ...]:
    """UUIDs of the GPUs of a slot such as `gpu:GPU-1,gpu:GPU-2`."""
    return tuple(name.removeprefix("gpu:") for name in slot.split(",") if name.startswith("gpu:"))


def step_environment(slot: str) -> dict[str, str]:
    """Environment of our own step programs: enough to find settings, no keys (those are read from `.env`)."""
    environment = {key: os.environ[key] for key in KEEP if key in os.environ}
    bin_folder = os.path.dirname(sys.executable)
    return {
        **environment,
        "PATH": f"{bin_folder}:{os.environ.get('PATH', os.defpath)}",
        "HOME": os.environ.get("HOME", "/"),
        "LANG": environment.get("LANG", "C.UTF-8"),
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": ",".join(slot_gpus(slot)),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def settle(root: Root, run: RunFiles, run_id: int) -> None:
    """Move a run whose agent never started out of the queue; it displaces nothing from there."""
    if run.ptb.parent == root.own("queue"):
        target = root.own("never_started")
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            os.rename(run.ptb, target / str(run_id))
    scratch = run_scratch(root, run_id)
    with contextlib.suppress(OSError):
        if all(name == "bundle" or name.endswith(GONE) for name in os.listdir(scratch)):
            shutil.rmtree(scratch, ignore_errors=True)


def entry() -> Path:
    """The file that starts this program: `ptb` of a bundle, elsewhere the package's `__main__.py`."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "ptb"
    return beside if beside.is_file() else package / "__main__.py"


def start_dispatch(root: Root) -> None:
    """Look after the queue in a process of its own that outlives the caller."""
    logs = root.own("logs")
    logs.mkdir(parents=True, exist_ok=True)
    with open(logs / "dispatch.log", "ab") as log:
        subprocess.Popen(
            [sys.executable, "-I", str(entry()), "dispatch", str(root.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
