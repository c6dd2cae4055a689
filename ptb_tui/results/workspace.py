"""The text files of a run's `task/` that are worth reading elsewhere (H §7.12). Everything in it is hostile: no link is
followed, nothing but regular files is opened, sizes and numbers are bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.results.regular import read_regular

MAX_FILE = 2 << 20
MAX_FILES = 20_000
MAX_BYTES = 512 << 20
HEAD = 4096
PRINTABLE = 0.85  # share of printable ASCII in the head of a text
SKIPPED_FOLDERS = frozenset((
    "final_model", "sft_output", "sft_output_v2", "checkpoints", "__pycache__", ".git", "node_modules", "wandb",
    "huggingface_cache", ".cache",
))  # fmt: skip
SKIPPED_SUFFIXES = frozenset((
    ".bin", ".safetensors", ".pt", ".pth", ".ckpt", ".onnx", ".tar", ".gz", ".zip", ".bz2", ".xz", ".png", ".jpg",
    ".jpeg", ".gif", ".pdf", ".so", ".pyc", ".npy", ".npz", ".parquet", ".arrow", ".feather",
))  # fmt: skip
_TEXT = bytes((*range(32, 127), 9, 10, 13))


@dataclass(slots=True)
class LeftOut:
    """How much was left out, by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, number: int = 1) -> None:
        """Count."""
        self.counts[reason] = self.counts.get(reason, 0) + number


def _is_text(data: bytes) -> str:
    """ "" for a text, else why it is none."""
    head = data[:HEAD]
    if b"\0" in head:
        return "binary"
    if head and len(head) - len(head.translate(None, _TEXT)) < PRINTABLE * len(head):
        return "mostly not ASCII"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def texts(folder: Path, left_out: LeftOut) -> Iterator[tuple[str, bytes]]:
    """Relative names and contents of the text files below a folder, in order; line ends are line feeds."""
    if folder.is_symlink() or not folder.is_dir():
        return
    pending = [""]
    files = total = 0
    while pending:
        below = pending.pop()
        try:
            with os.scandir(folder / below) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            left_out.add("cannot be read")
            continue
        folders = []
        for entry in found:
            name = f"{below}{entry.name}"
            try:
                is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
                size = entry.stat(follow_symlinks=False).st_size if is_file else 0
            except OSError:
                left_out.add("cannot be read")
                continue
            if not entry.name.isprintable():
                left_out.add("name cannot be printed")
            elif is_folder:
                if entry.name in SKIPPED_FOLDERS:
                    left_out.add("folder of models or caches")
                else:
                    folders.append(f"{name}/")
            elif not is_file:
                left_out.add("link or special file")
            elif os.path.splitext(entry.name)[1].lower() in SKIPPED_SUFFIXES:
                left_out.add("kind of file")
            elif size > MAX_FILE:
                left_out.add("larger than 2 MiB")
            elif files >= MAX_FILES or total + size > MAX_BYTES:
                left_out.add("too many")
            elif (data := read_regular(folder / name, MAX_FILE)) is None:
                left_out.add("cannot be read")
            elif reason := _is_text(data):
                left_out.add(reason)
            else:
                files, total = files + 1, total + size
                yield name, data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pending += reversed(folders)
