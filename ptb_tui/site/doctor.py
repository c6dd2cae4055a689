"""Everything that could stand in the way of a run here: ok, bad, or cannot tell, each with its remedy."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.tasks import load_task
from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root
from ptb_tui.core.query import Check, DoctorReport
from ptb_tui.core.settings import RESULTS, Settings, is_secret
from ptb_tui.run import place
from ptb_tui.run.dispatch import gpus
from ptb_tui.sandbox import runtime
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.site import credentials

LOW_DISK = 20 << 30
NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph")


def file_system(path: Path) -> str:
    """Type of the file system a path is on; empty when it cannot be told."""
    best, kind = "", ""
    try:
        lines = Path("/proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    for line in lines:
        parts = line.split()
        if len(parts) > 2 and (real + "/").startswith(parts[1].rstrip("/") + "/") and len(parts[1]) >= len(best):
            best, kind = parts[1], parts[2]
    return kind


def _disk(name: str, path: Path) -> Check:
    existing = path
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    words = f"{free / (1 << 30):.0f} GiB free at {path}"
    state = "ok" if free >= LOW_DISK else "bad"
    return Check(name=name, state=state, words=words, remedy="" if state == "ok" else "free space, or another disk")


def _results(root: Root, settings: Settings) -> Iterator[Check]:
    origin = settings.origins.get(RESULTS, "")
    try:
        if not root.path.exists():
            yield Check(name="results", state="unknown", words=f"{root.path} does not exist yet (from {origin})")
        else:
            files.ensure_writable(root.path, "the results root")
            yield Check(name="results", state="ok", words=f"{root.path} can be written (from {origin})")
    except PtbError as error:
        yield Check(name="results", state="bad", words=error.message, remedy=error.hint)
    kind = file_system(root.path if root.path.exists() else root.path.parent)
    shared = kind.startswith(NETWORK_FILE_SYSTEMS)
    words = f"{kind or 'unknown file system'}: {'a shared tree' if shared else 'a disk of this machine'}"
    yield Check(name="kind of site", state="ok" if kind else "unknown", words=words)
    yield _disk("results disk", root.path)
    yield _disk("scratch", place.run_scratch(root, 0).parent)


def _content(content: Content) -> Iterator[Check]:
    for kind, load in (("agents", load_agent), ("tasks", load_task)):
        broken = []
        names = content.names(kind)
        for name in names:
            try:
                load(content, name)
            except PtbError as error:
                broken.append(error.message)
        if broken:
            yield Check(name=kind, state="bad", words="; ".join(broken), remedy="repair the named file")
        else:
            yield Check(name=kind, state="ok", words=f"{len(names)}: {', '.join(names)}")


def _sandboxes() -> Check:
    """What isolates here: Apptainer, which needs images besides, and bubblewrap, which does not."""
    works, words = Bubblewrap().probe()
    over_images = runtime.usable("apptainer", runtime.find("apptainer"))
    said = over_images if isinstance(over_images, str) else f"{over_images.path} {over_images.version}"
    words = f"apptainer: {said}; bubblewrap: {words}"
    if works:
        return Check(name="sandbox", state="ok", words=words)
    if not isinstance(over_images, str):
        remedy = "`ptb-tui container status` shows the images that apptainer needs"
        return Check(name="sandbox", state="unknown", words=words, remedy=remedy)
    remedy = "install the package `apptainer` or `bubblewrap`; without one only the demo's own agents run"
    return Check(name="sandbox", state="bad", words=words, remedy=remedy)


def report(settings: Settings, root: Root, content: Content) -> DoctorReport:
    """All checks. Values of keys are never part of it."""
    checks = [
        Check(name="python", state="ok", words=f"{platform.python_version()} at {sys.executable}"),
        Check(
            name=".env",
            state="ok" if settings.env_file else "unknown",
            words=str(settings.env_file or "none found"),
            remedy="" if settings.env_file else "copy example.env to .env",
        ),
        *_results(root, settings),
    ]
    checks.append(_sandboxes())
    cards = gpus()
    checks.append(Check(name="gpus", state="ok" if cards else "unknown", words=", ".join(cards) or "none found"))
    keys = sorted(name for name in settings.values if is_secret(name) and settings.values[name])
    set_from = ", ".join(f"{name} ({settings.origins[name]})" for name in keys)
    need = "" if keys else "put those that your agents need into .env; `ptb-tui credentials` lists them"
    checks.append(Check(name="keys", state="ok" if keys else "unknown", words=set_from or "none set", remedy=need))
    checks += credentials.checks(content)
    checks += _content(content)
    return DoctorReport(checks=tuple(checks))
