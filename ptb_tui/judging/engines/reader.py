"""Reads evidence for a judge that has tools instead of a shell. Runs inside the sandbox, where there is no network and
nothing but the evidence; standard library alone, Python 3.10.

    python -I -S reader.py ROOT         one JSON object a line on stdin, one on stdout for each

    {"id": 1, "tool": "read", "arguments": {"path": "task/train.py"}, "bytes": 24576, "seconds": 60}
    {"id": 1, "ok": true, "text": "…"}

Paths are below ROOT; no link is followed, only regular files are opened, every result is bounded. The tools and their
arguments are described in `desk.py`, from which the model learns them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

MAX_ENTRIES = 400
MAX_DEPTH = 6
MAX_LINE = 4000  # characters of one line that are shown
MAX_MATCHES = 60
MAX_SCAN = 2 << 30
CHUNK = 1 << 20
BINARY = 8192  # bytes looked at to tell text from other files


class Refused(Exception):
    """What the model asked for cannot be done; the words are for the model."""


def parts_of(path: str) -> list[str]:
    """The names of a path below the root. Refused for one that leads elsewhere."""
    names = [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")]
    if names[:1] == ["evidence"] and path.startswith("/"):
        names = names[1:]
    if ".." in names or any("\0" in name for name in names):
        raise Refused("a path is below the evidence, without `..`")
    return names


def opened(root: str, path: str) -> tuple[int, os.stat_result]:
    """A descriptor of the file or folder, and what it is. Refused for a link on the way, or what is neither."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in parts_of(path):
            inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        info = os.fstat(fd)
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            raise Refused("neither a file nor a folder")
    except OSError as error:
        os.close(fd)
        raise Refused(f"{path[:300]}: {'a link' if error.errno == errno.ELOOP else error.strerror}") from error
    except Refused:
        os.close(fd)
        raise
    return fd, info


def file_of(root: str, path: str) -> tuple[BinaryIO, int]:
    """The file and its size. Refused when it is none."""
    fd, info = opened(root, path)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise Refused(f"{path[:300]} is a folder; `list` shows it")
    return os.fdopen(fd, "rb"), info.st_size


def number(given: dict[str, Any], name: str, usual: int, least: int, most: int) -> int:
    """A whole number among the arguments, brought within its bounds."""
    value = given.get(name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Refused(f"{name} is a whole number")
    try:
        return max(least, min(most, int(value)))
    except (ValueError, OverflowError) as error:
        raise Refused(f"{name} is a whole number") from error


def word(given: dict[str, Any], name: str, usual: str | None = None) -> str:
    """A text among the arguments."""
    value = given.get(name, usual)
    if not isinstance(value, str):
        raise Refused(f"{name} is needed and is a text")
    return value


def kind_of(mode: int) -> str:
    """What an entry of a folder is."""
    for test, kind in ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link")):
        if test(mode):
            return kind
    return "special"


def walk(root: str, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder, by name, links not followed: (path below the root, what it is)."""
    fd, info = opened(root, path)
    prefix = "/".join(parts_of(path))
    if stat.S_ISREG(info.st_mode):
        os.close(fd)
        yield prefix, info
        return
    try:
        names = sorted(os.listdir(fd))
        for name in names:
            try:
                inner = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            below = f"{prefix}/{name}" if prefix else name
            yield below, inner
            if stat.S_ISDIR(inner.st_mode) and depth > 1:
                try:
                    yield from walk(root, below, depth - 1)
                except Refused:
                    continue
    finally:
        os.close(fd)


def shown(text: str) -> str:
    """A name or a piece of text on one line."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\n", "\\n").replace("\r", "\\r")


def do_list(root: str, given: dict[str, Any], room: int, ends: float) -> str:
    """`list`: the entries of a folder."""
    path, depth = word(given, "path", ""), number(given, "depth", 1, 1, MAX_DEPTH)
    lines: list[str] = []
    size, more = 0, 0
    for name, info in walk(root, path, depth):
        kind = kind_of(info.st_mode)
        line = f"{kind} {shown(name)}" + (f" {info.st_size} bytes" if kind == "file" else "")
        if len(lines) >= MAX_ENTRIES or size > room or time.monotonic() > ends:
            more += 1
            if more > 100_000:
                break
            continue
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines + ([f"… {more} more"] if more else [])) or "empty"


def cut(line: bytes) -> str:
    """A line as it is shown."""
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} … ({len(text) - MAX_LINE} more characters)"


def do_read(root: str, given: dict[str, Any], room: int, ends: float) -> str:
    """`read`: lines of a file from a number on, or bytes from an offset on."""
    file, size = file_of(root, word(given, "path"))
    with file:
        if given.get("offset") is not None:
            start = number(given, "offset", 0, 0, size)
            file.seek(start)
            data = file.read(number(given, "length", room, 1, room))
            return f"bytes {start} to {start + len(data)} of {size}\n" + data.decode("utf-8", "replace")
        first, count = number(given, "line", 1, 1, 1 << 40), number(given, "lines", 400, 1, 100_000)
        lines: list[str] = []
        used, at, whole = 0, 0, True
        while line := file.readline(CHUNK):
            if time.monotonic() > ends:
                lines.append(f"… the time was up after line {at}; read bytes from an offset instead")
                break
            at += whole
            begins, whole = whole, line.endswith(b"\n")
            if at < first or not begins:
                continue
            text = f"{at}: {cut(line)}"
            if len(lines) >= count or used + len(text.encode("utf-8", "replace")) > room:
                lines.append(f"… goes on at line {at}")
                break
            lines.append(text)
            used += len(text.encode("utf-8", "replace")) + 1
    return "\n".join(lines) or f"nothing at line {first}; the file has {at} lines and {size} bytes"


def do_grep(root: str, given: dict[str, Any], room: int, ends: float) -> str:
    """`grep`: lines that hold a text or match a regular expression."""
    pattern, path = word(given, "pattern"), word(given, "path", "")
    if not pattern:
        raise Refused("pattern is empty")
    flags = re.IGNORECASE if given.get("ignore_case") is True else 0
    try:
        sought = re.compile((pattern if given.get("regex") is True else re.escape(pattern)).encode(), flags)
    except (re.error, OverflowError) as error:
        raise Refused(f"no regular expression: {error}") from error
    found: list[str] = []
    used, scanned, other = 0, 0, 0
    for name, info in walk(root, path, 40):
        if not stat.S_ISREG(info.st_mode):
            continue
        try:
            file, _ = file_of(root, name)
        except Refused:
            continue
        with file:
            if b"\0" in file.read(BINARY):
                other += 1
                continue
            file.seek(0)
            at, whole = 0, True
            while line := file.readline(CHUNK):
                at += whole
                whole = line.endswith(b"\n")
                scanned += len(line)
                if scanned > MAX_SCAN or time.monotonic() > ends:
                    return "\n".join([*found, "… not everything was searched: it is too much for one search"])
                match = sought.search(line)
                if match is None:
                    continue
                piece = line[max(0, match.start() - 200) : match.end() + 300].strip(b"\r\n").decode("utf-8", "replace")
                text = f"{shown(name)}:{at}: {piece[:800]}"
                used += len(text.encode("utf-8", "replace")) + 1
                if len(found) >= MAX_MATCHES or used > room:
                    return "\n".join([*found, "… there are more matches"])
                found.append(text)
    skipped = f"\n({other} files that are no text were left out)" if other else ""
    return ("\n".join(found) or "no match") + skipped


def tool(root: str, name: str, words: list[str], room: int, ends: float) -> str:
    """What one of the checkers prints: the end of it when it is long."""
    script = os.path.join(root, "tools", name)
    argv = [sys.executable, "-I", script, *words]
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd="/")
        except OSError as error:
            raise Refused(f"the checker cannot be started: {error.strerror}") from error
        assert child.stdout is not None
        timer = threading.Timer(max(1.0, ends - time.monotonic()), child.kill)
        timer.start()
        with child.stdout as stream:
            out = stream.read(room)
            more = 0
            while piece := stream.read(CHUNK):
                more += len(piece)
        status = child.wait()
        timer.cancel()
        errors.seek(max(0, errors.tell() - 2000))
        said = errors.read(2000)
    if status < 0:
        raise Refused(f"the checker was ended by signal {-status}: it took too long or too much; give it less")
    text = out.decode("utf-8", "replace") + (f"\n… {more} bytes more" if more else "")
    return f"exit status {status}\n{text.strip()}\n" + said.decode("utf-8", "replace").strip()


def do_contamination(root: str, given: dict[str, Any], room: int, ends: float) -> str:
    """`check_contamination`: overlap of files with the benchmark's items."""
    reference = os.path.join(root, "test_data.json")
    if not os.path.isfile(reference):
        raise Refused("this run has no file with the benchmark's items")
    path = word(given, "path", "task")
    fd, _ = opened(root, path)
    os.close(fd)
    place = os.path.join(root, *parts_of(path))
    mode = "compat" if given.get("mode") == "compat" else "strict"
    return tool(root, "contamination_check.py", ["-r", reference, "-i", place, "--mode", mode], room, ends)


def do_identity(root: str, given: dict[str, Any], room: int, ends: float) -> str:
    """`check_identity`: the submitted model's config against that of the base model."""
    candidate, model = os.path.join(root, "final_model_config.json"), word(given, "model")
    if not os.path.isfile(candidate):
        raise Refused("this run has no readable config of a submitted model")
    reference = os.path.join(root, "reference_configs", model.replace("/", "_") + ".json")
    words = ["--allowed-model", model, "--candidate", candidate, "--reference-config", reference]
    return tool(root, "model_identity_check.py", words, room, ends)


TOOLS = {
    "list": do_list,
    "read": do_read,
    "grep": do_grep,
    "check_contamination": do_contamination,
    "check_identity": do_identity,
}


def answer(root: str, asked: Any) -> dict[str, Any]:
    """The answer to one request; total."""
    if not isinstance(asked, dict):
        return {"id": None, "ok": False, "text": "no request"}
    given = asked.get("arguments")
    room = max(256, int(asked.get("bytes") or 0))
    ends = time.monotonic() + float(asked.get("seconds") or 60.0)
    try:
        done = TOOLS.get(str(asked.get("tool")))
        if done is None or not isinstance(given, dict):
            raise Refused(f"there are the tools {', '.join(TOOLS)}")
        text, ok = done(root, given, room, ends), True
    except Refused as error:
        text, ok = str(error), False
    except (OSError, RecursionError, MemoryError, ValueError) as error:
        text, ok = f"{type(error).__name__}: {error}", False
    data = text.encode("utf-8", "replace")
    if len(data) > room + 4096:
        text = data[:room].decode("utf-8", "ignore") + "\n… cut"
    return {"id": asked.get("id"), "ok": ok, "text": text}


def main(root: str) -> int:
    """Answer until stdin ends."""
    for line in sys.stdin.buffer:
        try:
            asked = json.loads(line)
        except ValueError:
            asked = None
        sys.stdout.write(json.dumps(answer(root, asked)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
