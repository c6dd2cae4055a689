"""Tensors of safetensors files, read in bounded pieces. A model folder is not to be trusted: headers are checked, links
are followed only in folders of ours. Needs numpy."""

from __future__ import annotations

import json
import os
import re
import stat
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

MAX_HEADER = 64 << 20
MAX_SHARDS = 500
PIECE = 1 << 21  # elements in memory of one tensor at a time
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
WRAPPERS = re.compile(r"^(?:(?:base_model|model|language_model|transformer|module)\.)+")


class Unreadable(Exception):
    """A folder whose weights cannot be compared; the text says why."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor's bytes lie."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    path: str
    begin: int
    follow: bool

    @property
    def count(self) -> int:
        """Elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1


def opened(path: str, follow: bool) -> int:
    """A descriptor of a regular file. Raises Unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        raise Unreadable("%s: %s" % (path, error.strerror)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unreadable("%s: not a regular file" % path)
    return fd


def header(path: str, follow: bool) -> Iterator[Tensor]:
    """The tensors of one file. Raises Unreadable."""
    fd = opened(path, follow)
    with os.fdopen(fd, "rb") as file:
        size = os.fstat(fd).st_size
        raw = file.read(8)
        length = struct.unpack("<Q", raw)[0] if len(raw) == 8 else size
        if length > min(MAX_HEADER, size - 8):
            raise Unreadable("%s: no safetensors file, or its header is too long" % path)
        try:
            value = json.loads(file.read(length))
            for name, entry in value.items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                shape = tuple(entry["shape"])
                if not all(type(n) is int and 0 <= n < 1 << 40 for n in (*shape, begin, end)) or len(shape) > 8:
                    raise ValueError
                tensor = Tensor(name, str(entry["dtype"]), shape, path, 8 + length + begin, follow)
                known = SIZES.get(tensor.dtype)
                if not 0 <= begin <= end <= size - 8 - length or (known and end - begin != known * tensor.count):
                    raise ValueError
                yield tensor
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Unreadable("%s: its header is damaged" % path) from error


def tensors_of(folder: str, follow: bool = False) -> Dict[str, Tensor]:
    """All tensors of a model folder by their name without the wrappers' (`model.`, `language_model.` and such)."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
    except OSError as error:
        raise Unreadable("%s: %s" % (folder, error.strerror)) from error
    if not names or len(names) > MAX_SHARDS:
        raise Unreadable("%s: %s" % (folder, "too many shards" if names else "no safetensors files"))
    found: Dict[str, Tensor] = {}
    for name in names:
        for tensor in header(os.path.join(folder, name), follow):
            found[WRAPPERS.sub("", tensor.name)] = tensor
    return found


def piece(tensor: Tensor, fd: int, start: int, count: int) -> Any:
    """`count` elements from `start` as float32 (float64 stays). Raises Unreadable when the file became shorter."""
    size = SIZES[tensor.dtype]
    raw = b""
    while len(raw) < count * size:
        more = os.pread(fd, count * size - len(raw), tensor.begin + start * size + len(raw))
        if not more:
            raise Unreadable("%s: ends too early" % tensor.path)
        raw = raw + more if raw else more
    if tensor.dtype == "BF16":
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    values = np.frombuffer(raw, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[tensor.dtype])
    return values if tensor.dtype == "F64" else values.astype(np.float32)


def rounded(values: Any, dtype: str) -> Any:
    """The values as a tensor of this type would hold them."""
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(np.float32) if dtype == "F32" else values


def together(tensors: List[Optional[Tensor]], limit: Optional[int] = None) -> Iterator[List[Any]]:
    """The same piece of several tensors, piece by piece; None where a tensor is None."""
    sizes = [tensor.count for tensor in tensors if tensor is not None]
    count = min([*sizes, *([limit] if limit is not None else [])])
    fds = [None if tensor is None else opened(tensor.path, tensor.follow) for tensor in tensors]
    try:
        for start in range(0, count, PIECE):
            many = min(PIECE, count - start)
            yield [
                None if tensor is None or fd is None else piece(tensor, fd, start, many)
                for tensor, fd in zip(tensors, fds, strict=True)
            ]
    finally:
        for fd in fds:
            if fd is not None:
                os.close(fd)


def sampled_rows(tensor: Tensor, rows: int, columns: int) -> Any:
    """Evenly spread rows and columns of a matrix, as float32."""
    high, wide = tensor.shape
    fd = opened(tensor.path, tensor.follow)
    try:
        at = np.unique(np.linspace(0, high - 1, min(rows, high)).astype(np.int64))
        across = np.unique(np.linspace(0, wide - 1, min(columns, wide)).astype(np.int64))
        return np.stack([piece(tensor, fd, int(row) * wide, wide)[across] for row in at]).astype(np.float32)
    finally:
        os.close(fd)
