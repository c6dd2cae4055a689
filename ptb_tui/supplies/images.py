"""Images as a site keeps them: `<name>-<digest12>.sif` never changes, the link `<name>.sif` names the current one.

A plain `<name>.sif`, as the original's script leaves it, and an unpacked folder `<name>` are found too. Nothing here
deletes an image: a run that is queued or under way has pinned its file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ptb_tui.core import files
from ptb_tui.core.errors import ConfigError, NotFound
from ptb_tui.supplies import claims
from ptb_tui.supplies.recipes import NAME

FOLDER = "POST_TRAIN_BENCH_CONTAINERS_DIR"
_STORED = re.compile(r"(?P<name>.+)-(?P<digest>[0-9a-f]{12})\.sif")
_CHUNK = 8 << 20


def containers_dir(values: Mapping[str, str]) -> Path:
    """Where images are kept: POST_TRAIN_BENCH_CONTAINERS_DIR, or a folder of this user's data."""
    if value := values.get(FOLDER, ""):
        return Path(os.path.abspath(os.path.expanduser(value)))
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(data) / "ptb-tui" / "containers"


def checked_name(name: str) -> str:
    """A name that can be a file's; ConfigError otherwise."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of an image", hint="letters, digits, . _ - and no / in it")
    return name


def stored(folder: Path, name: str, digest: str) -> Path:
    """Where an image with this content lies."""
    return folder / f"{name}-{digest[:12]}.sif"


def resolve(folder: Path, name: str) -> Path:
    """The image that is current under a name: the file the link names, a plain `<name>.sif`, a folder `<name>`; a name
    that is a file of the store already stands for itself. NotFound with what to do.
    """
    wanted = name.removesuffix(".sif")
    checked_name(wanted)
    pointer = folder / f"{wanted}.sif"
    with contextlib.suppress(OSError):
        if pointer.is_symlink():
            target = pointer.parent / os.readlink(pointer)
            if _STORED.fullmatch(target.name) and target.is_file():
                return target
        found = pointer.resolve(strict=True)
        if found.is_file() or found.is_dir():
            return found
    unpacked = folder / wanted
    if (unpacked / "usr").is_dir():
        return unpacked.resolve()
    raise NotFound(f"no image {wanted!r} in {folder}", hint=f"ptb-tui container build {wanted}")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read once in pieces."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            found.update(piece)
    return found.hexdigest()


def pin(image: Path) -> str:
    """Twelve digits that identify an image's content; the file's own name says them where we built it.

    For a plain file they are computed once and remembered with its size and time beside it (or again, where the folder
    may only be read). A folder has no digest: "folder".
    """
    if match := _STORED.fullmatch(image.name):
        return match["digest"]
    if image.is_dir():
        return "folder"
    info = image.stat()
    key = [info.st_size, info.st_mtime_ns]
    note = image.with_name(f".{image.name}.digest.json")
    known = files.read_object(note)
    if known is not None and known.get("of") == key:
        return str(known.get("digest"))[:12]
    digest = file_digest(image)
    with contextlib.suppress(OSError):
        files.replace(note, files.dump({"v": 1, "of": key, "digest": digest}))
    return digest[:12]


def publish(built: Path, folder: Path, name: str, record: Mapping[str, object]) -> Path:
    """Give a built file its name by content and make it the current one; the one before stays.

    A plain `<name>.sif` keeps its content under a name of its own first. OSError when the folder cannot be written.
    """
    digest = file_digest(built)
    target, pointer = stored(folder, name, digest), folder / f"{name}.sif"
    note = {"v": 1, "name": name, "digest": digest, "size": built.stat().st_size, **record}
    files.replace(target.with_suffix(".json"), files.dump(note))
    os.chmod(built, 0o755)
    os.replace(built, target)
    if pointer.is_file() and not pointer.is_symlink():
        with contextlib.suppress(FileExistsError):
            os.link(pointer, stored(folder, name, file_digest(pointer)))
    link = folder / f".{name}.{os.getpid()}.link"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    os.replace(link, pointer)
    return target


def claim_file(folder: Path, name: str) -> Path:
    """Held by whoever builds this image."""
    return folder / f".{name}.building.json"


@dataclass(frozen=True, slots=True)
class Image:
    """One image file. `recipe` is the digest of the definition it was built from, empty when that is not known."""

    name: str
    file: str
    digest: str
    size: int
    current: bool
    built: str = ""
    recipe: str = ""
    source: str = ""


def images(folder: Path) -> list[Image]:
    """All images of a folder, by name, the current one of a name first. Never computes a digest of a large file."""
    try:
        entries = sorted(entry for entry in os.listdir(folder) if entry.endswith(".sif") and entry[0] != ".")
    except OSError:
        return []
    found: list[Image] = []
    for entry in entries:
        path = folder / entry
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(info.st_mode):
            continue
        match = _STORED.fullmatch(entry)
        name = match["name"] if match else entry.removesuffix(".sif")
        note = (files.read_object(path.with_suffix(".json")) if match else None) or {}
        known = files.read_object(path.with_name(f".{entry}.digest.json")) or {}
        current = not match or _current(folder, name) == entry
        digest = match["digest"] if match else str(known.get("digest", ""))[:12]
        words = {key: str(note.get(key, "")) for key in ("built", "recipe", "source")}
        found.append(Image(name, entry, digest, info.st_size, current, **words))
    return sorted(found, key=lambda image: (image.name, not image.current, image.built))


def _current(folder: Path, name: str) -> str:
    try:
        return os.readlink(folder / f"{name}.sif")
    except OSError:
        return ""


def being_built(folder: Path) -> dict[str, str]:
    """Names of images that somebody builds now, and who."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return {}
    names = [entry[1 : -len(".building.json")] for entry in entries if entry.endswith(".building.json")]
    held = {name: claims.holder(claim_file(folder, name)) for name in names}
    return {name: who for name, who in held.items() if who}


def builder() -> str:
    """The program that builds images; empty when there is none."""
    return shutil.which("apptainer") or shutil.which("singularity") or ""
