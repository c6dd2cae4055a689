"""Building an image: a definition or a folder goes to Apptainer, what comes out gets its name by content (H §5.1)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core import clock, files
from ptb_tui.core.errors import NotFound, PtbError, StorageError, UsageError
from ptb_tui.supplies import claims, images
from ptb_tui.supplies.recipes import digest, folder_definition

# What a person's shell sets for running containers would be mounted into the image while it is built.
_CLEARED = tuple(f"{name}_{what}" for name in ("APPTAINER", "SINGULARITY") for what in ("BIND", "BINDPATH", "MOUNT"))
_QUICK = ("-comp", "zstd", "-Xcompression-level", "1")  # a small root takes 1.3 s where gzip takes 25 s
# Apptainer copies a folder before it packs it, and a normal user cannot copy device nodes.
_PACK = ("-noappend", "-no-progress", "-quiet", "-no-xattrs", "-all-root", *_QUICK)
_EMPTY = ("-wildcards", "-e", "dev/*", "proc/*", "sys/*")
_TAIL = 2000


@dataclass(frozen=True, slots=True)
class Order:
    """What to build. `text` is the definition; with `root`, a folder of this machine is packed as it is instead."""

    name: str
    folder: Path
    text: str = ""
    root: Path | None = None

    @property
    def source(self) -> str:
        """Where the content comes from, in a word."""
        return f"folder {self.root}" if self.root else "recipe"


def from_folder(name: str, folder: Path, root: Path) -> Order:
    """An order for a root folder. UsageError when it is none."""
    if not (root / "bin").is_dir() and not (root / "usr" / "bin").is_dir():
        raise UsageError(f"{root} is not the root folder of a system", hint="it has to hold bin or usr/bin")
    real = Path(os.path.realpath(root))
    return Order(name, folder, folder_definition(real), real)


def commands(order: Order, program: str, packer: str, source: Path, target: Path) -> list[list[str]]:
    """What is run, one after the other; `source` is the definition, or where the packed folder goes."""
    if order.root is None:
        return [[program, "build", str(target), str(source)]]
    pack = [packer, str(order.root), str(source), *_PACK, *_EMPTY]
    return [pack, [program, "build", "--mksquashfs-args", " ".join(_QUICK), str(target), str(source)]]


def packer() -> str:
    """The program that packs a folder; it comes with Apptainer, often out of a user's PATH."""
    return shutil.which("mksquashfs", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or ""


def environment() -> dict[str, str]:
    """Ours, without what would be bound into the image."""
    return {name: value for name, value in os.environ.items() if name not in _CLEARED}


def build(order: Order, say: Callable[[str], None], program: str | None = None) -> Path:
    """Build one image and make it the current one of its name; returns its file.

    `say` gets the program's output line by line. NotFound without Apptainer, NotAllowed while somebody else builds the
    same image, StorageError for the folder, PtbError with the end of the output when the build fails; the image that
    was current stays so.
    """
    images.checked_name(order.name)
    runtime = program if program is not None else images.builder()
    if not runtime:
        raise NotFound("apptainer is not installed here", hint="images are built where it is; see docs/containers.md")
    squash = packer()
    if order.root is not None and not squash:
        raise NotFound("mksquashfs is not installed here", hint="install squashfs-tools, which Apptainer needs, too")
    files.ensure_writable(order.folder, "the folder of images", "POST_TRAIN_BENCH_CONTAINERS_DIR")
    with claims.claimed(images.claim_file(order.folder, order.name), f"image {order.name}"):
        _sweep(order)
        part = order.folder / f".{order.name}.{uuid.uuid4().hex[:8]}.part"
        source = part.with_suffix(".def" if order.root is None else ".sqfs")
        try:
            if order.root is None:
                source.write_text(order.text, "utf-8")
            started = time.monotonic()
            say(f"building {order.name} from its {order.source} into {order.folder}")
            for words in commands(order, runtime, squash, source, part):
                status, tail = _run(words, say)
                if status != 0 or not (part if words[0] == runtime else source).is_file():
                    said = " · ".join(tail[-3:]) or "it said nothing"
                    raise PtbError(f"building {order.name} ended with {status}: {said}", hint="the log has all of it")
            record = {
                "built": clock.utc_text(),
                "recipe": digest(order.text),
                "source": order.source,
                "host": socket.gethostname(),
                "seconds": round(time.monotonic() - started, 1),
                "program": _version(runtime),
            }
            say("computing its digest")
            return images.publish(part, order.folder, order.name, record)
        except OSError as error:
            raise StorageError(f"{order.folder}: {error.strerror}", hint="free space, or repair its rights") from error
        finally:
            source.unlink(missing_ok=True)
            part.unlink(missing_ok=True)


def _sweep(order: Order) -> None:
    """What a killed build left. The claim is ours, so nobody works on these."""
    left = re.compile(rf"\.{re.escape(order.name)}\.[0-9a-f]{{8}}\.(part|def|sqfs)")
    for entry in os.listdir(order.folder):
        if left.fullmatch(entry):
            with contextlib.suppress(OSError):
                (order.folder / entry).unlink()


def _run(words: list[str], say: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run the build to its end; the last lines of its output come back."""
    tail: list[str] = []
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(), cwd="/"
    ) as child:
        try:
            assert child.stdout is not None
            for line in _lines(child.stdout.fileno()):
                say(line)
                tail = [*tail[-19:], line[:_TAIL]] if line.strip() else tail
        except BaseException:
            child.terminate()
            raise
    return child.returncode, tail


def _lines(fd: int) -> Iterator[str]:
    """Lines as they come; a bar that is drawn over itself counts as one line each time."""
    rest = b""
    while data := os.read(fd, 1 << 16):
        *whole, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
        if len(rest) > 1 << 16:
            yield rest.decode("utf-8", "replace")
            rest = b""
    if rest:
        yield rest.decode("utf-8", "replace")


def _version(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return program
    return done.stdout.strip()[:200] or shutil.which(program) or program
