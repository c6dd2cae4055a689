"""What an image and this machine give together, found by starting it once: programs, private network, how it mounts.

Standard library alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox.base import refuse
from ptb_tui.sandbox.runtime import Runtime, call
from ptb_tui.sandbox.userns import advice

CONTAINED = ("--contain", "--no-mount", "hostfs", "--pid", "--ipc")  # a site's `mount hostfs` is not part of --contain
PRIVATE = ("--net", "--network", "none")
_START_S = 600.0  # a large image on a busy file system, or one that has to be unpacked
_AGAIN_S = 30.0  # before a start that failed is tried again
_failed: dict[tuple[Runtime, Path, Path], tuple[float, str, str]] = {}
_LOOK = 'printf "%s\\n" "$PATH"; command -v python3 || echo; command -v bash || echo; exec cat /proc/self/mountinfo'
_OWN = re.compile(  # the machine's part of a container: kernel, names, time, what --nv and --rocm bring
    r"/|/(dev|proc|sys|\.singularity\.d)(/.*)?|(/var)?/tmp|/usr/share/zoneinfo/.*|.*/[^/]*(nvidia|rocm)[^/]*"
    r"|/etc/(passwd|group|hosts|hostname|localtime|resolv\.conf|mtab)|/run/.*resolv\.conf"
)
_MADE = ("/dev", "/etc/passwd", "/etc/group")


@dataclass(frozen=True, slots=True)
class Facts:
    """`place` is the image as it can be started here, the file or its unpacked folder; `python` and `bash` are paths
    inside, empty where the image has none; `private` says that a network of its own can be had."""

    place: Path
    path: tuple[str, ...]
    python: str
    bash: str
    private: bool
    notes: tuple[str, ...] = ()


def unpacked(image: Path) -> Path:
    """Where an image lies as a folder, for machines without FUSE: beside it, without `.sif`."""
    return image.with_suffix("") if image.suffix == ".sif" else image


def examine(runtime: Runtime, image: Path, scratch: Path | None = None) -> Facts:
    """Start the image once in every way until one works, with its changes below `scratch`, and remember what it took.

    StepError with cause `image_missing` or `sandbox`; a failure is remembered for half a minute.
    """
    if not image.exists():
        raise StepError(f"the image {image} is missing", cause="image_missing", hint="`ptb-tui container build`")
    wanted = (runtime, image, scratch or Path("/var/tmp"))
    since, words, hint = _failed.get(wanted, (-_AGAIN_S, "", ""))
    if time.monotonic() - since < _AGAIN_S:
        raise refuse(words, hint=hint)
    try:
        return _tried(*wanted)
    except StepError as error:
        _failed[wanted] = (time.monotonic(), error.message, error.hint)
        raise


@functools.cache
def _tried(runtime: Runtime, image: Path, scratch: Path) -> Facts:
    folder, said, slow = unpacked(image), "", None
    for place in dict.fromkeys((image, folder) if folder.is_dir() else (image,)):
        for private in (True, False):
            code, out, said_now = _start(runtime, place, private, scratch)
            if code == 0:
                facts = _facts(place, out, private)
                if shown := _of_the_host(out):
                    words = f"{runtime.flavour} shows folders of this machine inside: {', '.join(shown[:5])}"
                    raise refuse(words, hint="the site's configuration mounts them into every container")
                if "onverting SIF" not in said_now:
                    return (
                        facts
                        if place == image
                        else _with(facts, f"{image} cannot be mounted: it runs from {place}{_owned(place)}")
                    )
                slow = slow or facts
                break
            said += said_now if private else ""
    unpack = f"{runtime.flavour} build --sandbox {folder} {image}"
    if slow is not None:
        return _with(slow, f"squashfuse is missing: every start unpacks the image; `{unpack}` does it once")
    words = " ".join(" ".join(line for line in said.splitlines() if not line.startswith("INFO")).split())[-600:]
    fuse = "fuse" in words.lower() and not folder.is_dir()
    hint = f"without FUSE the image runs from a folder: {unpack}" if fuse else ""
    raise refuse(f"{runtime.flavour} cannot start {image}: {words or 'it says nothing'}{advice(said)}", hint=hint)


def _owned(folder: Path) -> str:
    return "" if folder.stat().st_uid == os.getuid() else ", which belongs to another user: it cannot be changed inside"


def _with(facts: Facts, note: str) -> Facts:
    return replace(facts, notes=(note,))


def _facts(place: Path, out: str, private: bool) -> Facts:
    path, python, bash = ([line.strip() for line in out.splitlines()] + [""] * 3)[:3]
    return Facts(place, tuple(part for part in path.split(":") if part), python, bash, private)


def _of_the_host(out: str) -> list[str]:
    """Mounts that no command asked for, from the lines of mountinfo. The runtime's own folders, an empty home among
    them, are of the file system that holds its small /dev and /etc/passwd."""
    mounts = [words for line in out.splitlines()[3:] if len(words := line.split(" ")) > 6]
    session = {device for _, _, device, root, point, *_ in mounts if point in _MADE and root != "/"}
    return sorted(point for _, _, device, _, point, *_ in mounts if device not in session and not _OWN.fullmatch(point))


def _start(runtime: Runtime, place: Path, private: bool, scratch: Path) -> tuple[int, str, str]:
    with _changes(scratch) as overlay:
        words = [runtime.path, "exec", "--cleanenv", *CONTAINED, *(PRIVATE if private else ())]
        words += ["--overlay", str(overlay), "--pwd", "/", str(place), "/bin/sh", "-c", _LOOK]
        return call(words, _START_S)


@contextlib.contextmanager
def _changes(base: Path) -> Iterator[Path]:
    """A folder for the changes of one start. The kernel leaves one in it that nobody may enter."""
    place = Path(tempfile.mkdtemp(prefix="ptb-image-", dir=base if os.access(base, os.W_OK) else None))

    def open_up(_: Callable[..., object], path: str, __: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
            shutil.rmtree(path)

    try:
        yield place
    finally:
        shutil.rmtree(place, onerror=open_up)
        shutil.rmtree(place, ignore_errors=True)
