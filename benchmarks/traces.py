"""MB/s of the trace parsers and of the whole follower, against `json.loads` on every line in the same run.

    python benchmarks/traces.py [MB]

Generates its traces; writes only to a temporary folder. Best of three, in CPU time (user and system), so that a busy
machine or a slow disk does not change the order; the follower's figure includes its system calls.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ptb_tui.run.follow import Follower
from ptb_tui.traces import index, parser_for
from ptb_tui.traces.marks import MarkWriter
from ptb_tui.traces.render import render

BLOCK = 1 << 16
SECRETS = {f"SERVICE{n}_API_KEY": f"key-{n}-" + "aB3dE5gH7jK9mN1p" * 3 for n in range(4)}


def plain_trace(size: int) -> bytes:
    """Lines as a training loop prints them."""
    lines: list[str] = []
    total = 0
    while total < size:
        n = len(lines)
        lines.append(f"step {n:>7} | loss {2.5 / (1 + n % 97):.6f} | lr 2.00e-05 | grad norm {n % 7}.41 | 3.21 it/s | "
                     f"memory 61.2 GiB")  # fmt: skip
        total += len(lines[-1]) + 1
    return "\n".join(lines).encode() + b"\n"


def claude_trace(size: int) -> bytes:
    """Calls, results of 2 kB and texts."""
    lines: list[str] = []
    total = n = 0
    usage = {"input_tokens": 3, "cache_read_input_tokens": 52000, "cache_creation_input_tokens": 900,
             "output_tokens": 210}  # fmt: skip
    while total < size:
        n += 1
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": f"tail -n 40 log{n}.txt"}}
        output = "\n".join(f"epoch {n} step {k} loss {k / 7:.4f}" for k in range(60))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": output, "is_error": False}
        for role, blocks in (("assistant", [{"type": "text", "text": "Now I look at the log. " * 8}]),
                             ("assistant", [call]), ("user", [result])):  # fmt: skip
            message = {"id": f"msg_{n}", "role": role, "content": blocks, "usage": usage}
            lines.append(json.dumps({"type": role, "message": message, "session_id": "s", "uuid": str(n)}))
            total += len(lines[-1]) + 1
    return "\n".join(lines).encode() + b"\n"


def stamped(trace: bytes) -> bytes:
    """The trace with one stamp for all lines."""
    prefix = b"[2026-08-01T09:00:00Z] "
    return prefix + trace[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


def best(work: Callable[[], object], size: int) -> float:
    """MB per second of CPU time, the best of three."""
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return size / 1e6 / min(times)


def parse(family: str, data: bytes, *, write: bool) -> None:
    """Feed in blocks; with `write` also make the text and the rows."""
    parser = parser_for(family)
    for start in range(0, len(data), BLOCK):
        events = parser.feed(data[start : start + BLOCK])
        if write:
            "".join(map(render, events))
            "".join(map(index.encode, events))


def loads(data: bytes) -> None:
    """What any reader has to do at least; a line that is not JSON becomes a string."""
    for line in data.split(b"\n"):
        try:
            json.loads(line)
        except ValueError:
            line.decode()


def follow(family: str, trace: bytes) -> None:
    """From raw to all three outputs, flushed."""
    with tempfile.TemporaryDirectory() as folder:
        scratch, ptb = Path(folder) / "scratch", Path(folder) / "run" / ".ptb"
        scratch.mkdir()
        ptb.mkdir(parents=True)
        (scratch / "raw").write_bytes(trace)
        (scratch / "raw.end").write_text(json.dumps({"size": len(trace)}))
        MarkWriter(scratch / "stamps").look(scratch / "raw")
        follower = Follower(scratch, ptb, family, SECRETS)
        while not (follower.complete and follower.finish()):
            follower.step()


def main() -> None:
    """Print one table."""
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 10) * 1e6)
    print(f"{'MB/s':>12} {'json.loads':>11} {'parser':>8} {'+ text, rows':>13} {'follower':>9}")
    for family, make in (("plain", plain_trace), ("claude", claude_trace)):
        trace = make(size)
        data = stamped(trace)
        figures = (
            best(lambda trace=trace: loads(trace), len(trace)),  # type: ignore[misc]
            best(lambda f=family, d=data: parse(f, d, write=False), len(data)),  # type: ignore[misc]
            best(lambda f=family, d=data: parse(f, d, write=True), len(data)),  # type: ignore[misc]
            best(lambda f=family, t=trace: follow(f, t), len(trace)),  # type: ignore[misc]
        )
        print("{:>12} {:>11.1f} {:>8.1f} {:>13.1f} {:>9.1f}".format(family, *figures))


if __name__ == "__main__":
    main()
