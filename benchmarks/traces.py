"""MB/s of the trace parsers and of the whole follower, against `json.loads` on every line in the same run.

    python benchmarks/traces.py [MB [FAMILY …]]      20 MB of every family; `1000 claude` is the figure that must hold

Traces are made as they are read, a megabyte at a time, and each megabyte is measured in turn with `json.loads` and with
the parser (the better of two), and with the parser and everything that is written, in CPU time: so a busy machine slows
all alike. `ratio`
is the speed of the parser over that of `json.loads`; `memory` is what the process grew by after its first 10 MB. Exits
with 1 when the ratio of claude is below 0.8 or memory grew by more than 8 MB. The follower's figure includes its system
calls; it writes to a temporary folder.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ptb_tui.core.trace import TraceParser
from ptb_tui.run.follow import Follower
from ptb_tui.traces import FAMILIES, index, parser_for
from ptb_tui.traces.marks import MarkWriter
from ptb_tui.traces.render import render

BLOCK = 1 << 16
PART = 1 << 20
FOLLOWED = 4 << 20  # bytes that the follower is measured with
WARM = 10 << 20
REPEATS = 2
REQUIRED, GROWTH = 0.8, 8e6
PREFIX = b"[2026-08-01T09:00:00Z] "
SECRETS = {f"SERVICE{n}_API_KEY": f"key-{n}-" + "aB3dE5gH7jK9mN1p" * 3 for n in range(4)}
TEXT = "Now I look at the log. " * 8


def output(n: int) -> str:
    """What a command prints: two kilobytes."""
    return "\n".join(f"epoch {n} step {k} loss {k / 7:.4f}" for k in range(60))


def plain(n: int) -> list[Any]:
    """A line of a training loop."""
    return [f"step {n:>7} | loss {2.5 / (1 + n % 97):.6f} | lr 2.00e-05 | grad norm {n % 7}.41 | 3.21 it/s | 61.2 GiB"]


def claude(n: int) -> list[Any]:
    """A text, a call and its result."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 52000, "cache_creation_input_tokens": 900,
             "output_tokens": 210}  # fmt: skip
    call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Bash", "input": {"command": f"tail -n 40 log{n}.txt"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": output(n), "is_error": False}
    return [
        {"type": role, "message": {"id": f"msg_{n}", "role": role, "content": [block], "usage": usage},
         "session_id": "719081db-602f-4d83-875c-9f7a0e3969d6", "uuid": str(n)}
        for role, block in (("assistant", {"type": "text", "text": TEXT}), ("assistant", call), ("user", result))
    ]  # fmt: skip


def codex(n: int) -> list[Any]:
    """A text, a command and its end."""
    item = {"id": f"item_{n}", "type": "command_execution", "command": f"bash -lc 'tail -n 40 log{n}.txt'",
            "aggregated_output": "", "exit_code": None, "status": "in_progress"}  # fmt: skip
    done = {**item, "aggregated_output": output(n), "exit_code": 0, "status": "completed"}
    text = {"id": f"item_{n}t", "type": "agent_message", "text": TEXT}
    return [{"type": "item.completed", "item": text}, {"type": "item.started", "item": item},
            {"type": "item.completed", "item": done}]  # fmt: skip


def gemini(n: int) -> list[Any]:
    """A text in pieces, a call and its result."""
    when = {"timestamp": "2026-08-01T09:00:00.000Z"}
    pieces = [{"type": "message", **when, "role": "assistant", "content": TEXT[k::3], "delta": True} for k in range(3)]
    call = {"type": "tool_use", **when, "tool_name": "run_shell_command", "tool_id": f"t-{n}",
            "parameters": {"command": f"tail -n 40 log{n}.txt"}}  # fmt: skip
    return [*pieces, call, {"type": "tool_result", **when, "tool_id": f"t-{n}", "status": "success",
                            "output": output(n)}]  # fmt: skip


def opencode(n: int) -> list[Any]:
    """A text, a tool with its result, a step with its counts."""
    ids = {"id": f"prt_{n}", "messageID": f"msg_{n}", "sessionID": "ses_1"}
    state = {"status": "completed", "input": {"command": f"tail -n 40 log{n}.txt"}, "output": output(n),
             "title": "Look", "metadata": {"exit": 0}, "time": {"start": 1, "end": 2}}  # fmt: skip
    tokens = {"input": 3, "output": 210, "reasoning": 0, "cache": {"read": 52000, "write": 900}}
    parts = {
        "text": {**ids, "type": "text", "text": TEXT},
        "tool_use": {**ids, "type": "tool", "callID": f"c{n}", "tool": "bash", "state": state},
        "step_finish": {**ids, "type": "step-finish", "reason": "tool-calls", "cost": 0.01, "tokens": tokens},
    }
    return [{"type": kind, "timestamp": n, "sessionID": "ses_1", "part": part} for kind, part in parts.items()]


def cursor(n: int) -> list[Any]:
    """A text, a call and its result."""
    args = {"command": f"tail -n 40 log{n}.txt"}
    result = {"success": {"stdout": output(n), "exitCode": 0}}
    call = {"type": "tool_call", "call_id": f"c{n}", "session_id": "s"}
    return [
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": TEXT}]}},
        {**call, "subtype": "started", "tool_call": {"shellToolCall": {"args": args}}},
        {**call, "subtype": "completed", "tool_call": {"shellToolCall": {"args": args, "result": result}}},
    ]


def grok(n: int) -> list[Any]:
    """Thoughts and text in pieces."""
    return [{"type": kind, "data": f"{TEXT[:40]}{n}"} for kind in ("thought", "thought", "text", "text", "text")]


MAKERS = {maker.__name__: maker for maker in (claude, codex, gemini, opencode, cursor, grok, plain)}


def parts(family: str, size: int) -> Iterator[list[bytes]]:
    """The lines of a trace of `size` bytes, about a megabyte at a time."""
    lines: list[bytes] = []
    held = total = 0
    for n in count():
        for item in MAKERS[family](n):
            lines.append((item if isinstance(item, str) else json.dumps(item)).encode())
            held += len(lines[-1]) + 1
        if held >= PART or total + held >= size:
            yield lines
            lines, total, held = [], total + held, 0
            if total >= size:
                return


def loads(lines: Iterable[bytes]) -> None:
    """What any reader has to do at least; a line that is not JSON becomes a string."""
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            line.decode()


def spent(*works: Callable[[], object]) -> float:
    """CPU seconds of the same work done several times: the fewest."""
    times = []
    for work in works:
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def feed(parser: TraceParser, blocks: Iterable[bytes]) -> None:
    """What the parser does."""
    for block in blocks:
        parser.feed(block)


def write(parser: TraceParser, blocks: Iterable[bytes]) -> None:
    """The parser, the text and the rows of the index."""
    for block in blocks:
        events = parser.feed(block)
        "".join(map(render, events))
        "".join(map(index.encode, events))


def memory() -> int:
    """Bytes that this process uses now."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(family: str, size: int) -> tuple[int, dict[str, float], int]:
    """Bytes without stamps, seconds by name, growth of memory."""
    seconds, total, before, most = dict.fromkeys(("loads", "parser", "written"), 0.0), 0, 0, 0
    parsers, writer = [parser_for(family) for _ in range(REPEATS)], parser_for(family)
    for lines in parts(family, size):
        data = b"".join(PREFIX + line + b"\n" for line in lines)
        blocks = [data[start : start + BLOCK] for start in range(0, len(data), BLOCK)]
        seconds["loads"] += spent(*[partial(loads, lines)] * REPEATS)
        seconds["parser"] += spent(*(partial(feed, parser, blocks) for parser in parsers))
        seconds["written"] += spent(partial(write, writer, blocks))
        total += sum(map(len, lines)) + len(lines)
        if total >= WARM:
            before = before or memory()
            most = max(most, memory())
    return total, seconds, most - before


def follow(family: str) -> float:
    """MB/s from raw output to all three files, flushed."""
    trace = b"".join(line + b"\n" for lines in parts(family, FOLLOWED) for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        scratch, ptb = Path(folder) / "scratch", Path(folder) / "run" / ".ptb"
        scratch.mkdir()
        ptb.mkdir(parents=True)
        (scratch / "raw").write_bytes(trace)
        (scratch / "raw.end").write_text(json.dumps({"size": len(trace)}))
        MarkWriter(scratch / "stamps").look(scratch / "raw")
        start = time.process_time()
        follower = Follower(scratch, ptb, family, SECRETS)
        while not (follower.complete and follower.finish()):
            follower.step()
        return len(trace) / 1e6 / (time.process_time() - start)


def main(arguments: list[str]) -> int:
    """Print one table."""
    size = int(float(arguments[0] if arguments else 20) * 1e6)
    families = arguments[1:] or list(MAKERS)
    if unknown := [family for family in families if family not in FAMILIES]:
        sys.exit(f"no family {unknown[0]!r}; known: {', '.join(MAKERS)}")
    names = ("MB", "json.loads", "parser", "ratio", "+ text, rows", "follower", "memory")
    print(f"{'MB/s':>9}", *(f"{name:>12}" for name in names))
    good = True
    for family in families:
        total, seconds, growth = measure(family, size)
        mega = total / 1e6
        ratio = seconds["loads"] / seconds["parser"]
        speeds = [mega / seconds[name] for name in ("loads", "parser", "written")]
        figures = (mega, *speeds[:2], ratio, speeds[2], follow(family), growth / 1e6)
        print(f"{family:>9}", *(f"{figure:>12.2f}" for figure in figures), flush=True)
        good &= growth <= GROWTH and (family != "claude" or ratio >= REQUIRED)
    print(f"largest resident set: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
