"""Copying a folder that an agent wrote: nothing in it can lead outside, block, fill the disk or stop the copy.

The agent is dead, so the tree does not change while it is read. No link is followed but those that stay within the
root, and only where asked; devices, sockets and FIFOs are left out; folders and files without rights are opened up as
their owner. What is left out is recorded with its reason. Depth and length of paths are bounded, so that ordinary
tools can handle the result.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import shutil
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ptb_tui.core.errors import StepError
from ptb_tui.evaluation.fingerprint import FileEntry, shown

MAX_DEPTH = 100
MAX_PATH = 1500  # bytes below the root
MAX_RECORDS = 5_000  # of things left out; more are only counted
_CHUNK = 4 << 20
_ZEROS = memoryview(bytes(_CHUNK))
_LINKS = 40
_FULL = {errno.ENOSPC: "disk_full", errno.EDQUOT: "quota"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one copy: number of files and bytes (apparent sizes).

    A file of a terabyte costs an agent nothing when it is a hole, and neither does a hundredth name for one file, but
    they would cost us hours and disks: `holes` and `repeats` bound the bytes of both.
    """

    files: int
    bytes: int
    holes: int = 64 << 30
    repeats: int = 16 << 30


@dataclass(slots=True)
class Copied:
    """What was copied and what was not. `left_out` holds path, why and, for links, target."""

    files: list[FileEntry] = field(default_factory=list)
    bytes: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    left_out_count: int = 0
    holes: int = 0
    repeats: int = 0
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def refused(self, info: os.stat_result, limits: Limits) -> str:
        """Why a regular file is over the limits, or "" and it is counted among holes and repeats."""
        if len(self.files) >= limits.files:
            return f"only {limits.files} files are kept"
        if self.bytes + info.st_size > limits.bytes:
            return f"only {limits.bytes} bytes are kept"
        hole = max(0, info.st_size - info.st_blocks * 512)
        if self.holes + hole > limits.holes:
            return f"is a hole of {hole} bytes: only {limits.holes} bytes of holes are kept"
        again = info.st_size if (info.st_dev, info.st_ino) in self._seen else 0
        if self.repeats + again > limits.repeats:
            return f"is a further name of one file: only {limits.repeats} bytes of these are kept"
        self._seen.add((info.st_dev, info.st_ino))
        self.holes += hole
        self.repeats += again
        return ""

    def leave(self, path: str, why: str, target: str | None = None) -> None:
        """Record something that was not copied."""
        self.left_out_count += 1
        if len(self.left_out) < MAX_RECORDS:
            record = {"path": shown(path), "why": why}
            self.left_out.append(record if target is None else record | {"target": shown(target)[:300]})


def refusal(error: OSError, what: str) -> StepError:
    """The step's error for an OSError of our own side."""
    cause = _FULL.get(error.errno or 0, "unknown")
    return StepError(f"{what}: {error.strerror or error}", cause=cause)


def resolve(root: str, path: str, aliases: tuple[str, ...], within: str) -> tuple[str, str]:
    """Where a link below `root` leads, as a path below `root` without links, and "" or why it leads nowhere.

    It must end below the folder `within` of `root`. `aliases` are absolute names under which the agent knew `root`
    (its path inside the sandbox and on the host).
    """
    todo = deque(part for part in path.split("/") if part)
    at: list[str] = []
    links = 0
    while todo:
        part = todo.popleft()
        if part == ".":
            continue
        if part == "..":
            if not at:
                return "", "leads out of the folder"
            at.pop()
            continue
        here = "/".join([*at, part])
        try:
            folder = f"{root}/{'/'.join(at)}"
            open_up(folder, os.lstat(folder), stat.S_IRWXU)  # not a link: every part of `at` was looked at
            info = os.lstat(f"{root}/{here}")
        except OSError:
            return "", "leads nowhere"
        if not stat.S_ISLNK(info.st_mode):
            at.append(part)
            continue
        links += 1
        if links > _LINKS:
            return "", "leads in a circle"
        target = os.readlink(f"{root}/{here}")
        if target.startswith("/"):
            inside = next((name for name in aliases if target == name or target.startswith(name + "/")), None)
            if inside is None:
                return "", "leads out of the folder"
            at, target = [], target[len(inside) :]
        todo.extendleft(reversed([word for word in target.split("/") if word]))
    found = "/".join(at)
    return (found, "") if found == within or found.startswith(within + "/") else ("", "leads out of the folder")


def open_up(path: str, info: os.stat_result, wanted: int) -> None:
    """Give the owner the rights to read what is ours to read; does nothing where that is impossible."""
    if info.st_mode & wanted != wanted:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IMODE(info.st_mode) | wanted)


def listing(folder: str, limit: int) -> list[os.DirEntry[str]]:
    """The entries of a folder in order of their names, at most `limit` (+1 when there are more). OSError."""
    open_up(folder, os.lstat(folder), stat.S_IRWXU)
    with os.scandir(folder) as found:
        return sorted(islice(found, limit + 1), key=lambda entry: entry.name)


def _extents(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of a file that hold data; the whole file where holes cannot be told."""
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
            end = min(size, os.lseek(source, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            start, end = at, size
        if start >= size:
            return
        yield start, end
        at = end


def _stream(source: int, target: int, info: os.stat_result, sha: hashlib._Hash) -> None:
    size = info.st_size
    ranges = _extents(source, size) if info.st_blocks * 512 < size else iter([(0, size)])

    def hole(length: int) -> None:
        while length > 0:
            step = min(length, _CHUNK)
            sha.update(_ZEROS[:step])
            length -= step

    at = 0
    for start, end in ranges:
        if start != at or at:
            hole(start - at)
            os.lseek(target, start, os.SEEK_SET)
        os.lseek(source, start, os.SEEK_SET)
        while start < end:
            block = os.read(source, min(_CHUNK, end - start))
            if not block:
                raise OSError(errno.EIO, "the file became shorter while it was read")
            sha.update(block)
            view = memoryview(block)
            while view:
                view = view[os.write(target, view) :]
            start += len(block)
        at = end
    if at < size:
        hole(size - at)
        os.ftruncate(target, size)


def copy_file(source: str, target: str) -> tuple[int, str]:
    """Copy one regular file with its holes; returns bytes and sha256. StepError when our side refuses, else OSError."""
    open_up(source, os.lstat(source), stat.S_IRUSR)
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        mode = 0o755 if info.st_mode & stat.S_IXUSR else 0o644
        sha = hashlib.sha256()
        try:
            out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            try:
                _stream(fd, out, info, sha)
                if os.fstat(out).st_size != info.st_size:
                    raise OSError(errno.EIO, "the copy has another size")
                with contextlib.suppress(OSError, OverflowError):
                    os.utime(out, ns=(info.st_mtime_ns, info.st_mtime_ns))
            finally:
                os.close(out)
        except OSError as error:
            raise refusal(error, f"copying {shown(source)} to {shown(target)}") from error
        return info.st_size, sha.hexdigest()
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Folder:
    source: str  # real path below the root
    target: str  # path below the target
    above: tuple[str, ...]  # real paths of the folders it lies in, itself included


# Decides about a folder before it is entered: None copies all of it, else the names of its files to copy.
Chooser = Callable[[str, list[os.DirEntry[str]]], set[str] | None]


def copy_tree(
    root: Path,
    start: str,
    target: Path,
    limits: Limits,
    *,
    aliases: tuple[str, ...] = (),
    within: str | None = None,
    skip: frozenset[str] = frozenset(),
    choose: Chooser = lambda _path, _entries: None,
) -> Copied:
    """Copy `root/start` into the new folder `target`, shallow things first.

    `within`: links that end below this folder of `root` are copied as what they lead to; without it all links are left
    out. `skip` are paths below the root to pass over in silence. `root/start` itself must be a folder, not a link.
    StepError (disk_full, quota, unknown) when the copy cannot be written.
    """
    done = Copied()
    base = str(root)
    todo = deque([_Folder(start, "", (start,))])
    made: set[str] = set()

    def make(folder: str) -> None:
        if folder not in made:
            try:
                os.makedirs(f"{target}/{folder}" if folder else target, 0o755, exist_ok=True)
            except OSError as error:
                raise refusal(error, f"making {shown(folder)}") from error
            made.add(folder)

    make("")
    while todo:
        folder = todo.popleft()
        try:
            entries = listing(f"{base}/{folder.source}", limits.files)
        except OSError as error:
            done.leave(folder.target or ".", f"cannot be listed: {error.strerror}")
            continue
        if len(entries) > limits.files:
            done.leave(folder.target or ".", f"holds more than {limits.files} entries")
        chosen = choose(folder.source, entries)
        for entry in entries:
            _copy_entry(base, folder, entry, target, limits, done, todo, made, make, (chosen, skip, aliases, within))
    return done


def _copy_entry(
    base: str,
    folder: _Folder,
    entry: os.DirEntry[str],
    target: Path,
    limits: Limits,
    done: Copied,
    todo: deque[_Folder],
    made: set[str],
    make: Callable[[str], None],
    rules: tuple[set[str] | None, frozenset[str], tuple[str, ...], str | None],
) -> None:
    chosen, skip, aliases, within = rules
    source = f"{folder.source}/{entry.name}" if folder.source else entry.name
    path = f"{folder.target}/{entry.name}" if folder.target else entry.name
    if source in skip:
        return
    try:
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            leads = os.readlink(f"{base}/{source}")
            if within is None:
                done.leave(path, "link", leads)
                return
            source, why = resolve(base, source, aliases, within)
            if why:
                done.leave(path, f"link: {why}", leads)
                return
            info = os.lstat(f"{base}/{source}")
        if stat.S_ISDIR(info.st_mode):
            if len(os.fsencode(path)) > MAX_PATH or path.count("/") >= MAX_DEPTH:
                done.leave(path[:300], f"lies too deep: only {MAX_DEPTH} levels and {MAX_PATH} bytes are kept")
            elif source in folder.above:
                done.leave(path, "leads in a circle")
            elif len(todo) + len(made) >= limits.files:
                done.leave(path, f"only {limits.files} folders are kept")
            else:
                todo.append(_Folder(source, path, (*folder.above, source) if within is not None else ()))
                if chosen is None:
                    make(path)
        elif not stat.S_ISREG(info.st_mode):
            done.leave(path, "not a regular file")
        elif chosen is not None and entry.name not in chosen:
            return  # recorded by whoever chose
        elif why := done.refused(info, limits):
            done.leave(path, why)
        else:
            make(folder.target)
            size, sha = copy_file(f"{base}/{source}", f"{target}/{path}")
            done.files.append(FileEntry(shown(path), size, sha))
            done.bytes += size
    except OSError as error:
        done.leave(path, f"cannot be read: {error.strerror}")


def flush(folder: Path) -> None:
    """Bring everything that was written below a folder to the disk, by one call for its file system. StepError."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        except AttributeError:
            os.sync()
        finally:
            os.close(fd)
    except OSError as error:
        raise refusal(error, f"writing {folder} to disk") from error


def clear(folder: Path) -> None:
    """Remove a folder of ours, or nothing. StepError when it cannot go."""
    try:
        if os.path.lexists(folder):
            shutil.rmtree(folder)
    except OSError as error:
        raise refusal(error, f"removing {folder}") from error


@contextlib.contextmanager
def room_given_back(partial: Path) -> Iterator[None]:
    """Remove an unfinished copy when it fails: on a full disk its room is needed to say so."""
    try:
        yield
    except StepError:
        with contextlib.suppress(StepError):
            clear(partial)
        raise


def put_in_place(partial: Path, final: Path) -> None:
    """Rename a complete copy to its name; a former copy is replaced whole, never merged (case A05). StepError."""
    old = final.with_name(f".{final.name}.old")
    try:
        clear(old)
        if os.path.lexists(final):
            os.rename(final, old)
        os.rename(partial, final)
        fd = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        clear(old)
    except OSError as error:
        raise refusal(error, f"moving {partial} to {final}") from error
