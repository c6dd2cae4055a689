"""A world with a judge of engine codex: its key or login, its step, and what the stand-in for the CLI saw."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.evaluation.models import model
from tests.judging.stub import install, seen
from tests.run.step_world import World, build

JUDGE = "data_contamination_judge"
PUBLIC = "judgement_gpt5_4.json"
KEY = "opens-nothing-at-all-0123"


def judged(tmp: Path, sandbox: str) -> World:
    """A run that is over and was traced, at a site with a store of CLIs."""
    os.chmod(tmp, 0o755)
    world = build(tmp, sandbox=sandbox)
    site = world.root / "_ptb" / "site.toml"
    site.write_text(f'{site.read_text()}cli_store = "{tmp / "clis"}"\n')
    (world.run_dir / "solve_out.txt").write_text('[2026-08-01T09:00:05Z] {"type":"result","result":"done"}\n')
    (world.run_dir / "solve_parsed.txt").write_text("done\n")
    (world.ptb / "egress.jsonl").write_text('{"host":"huggingface.co"}\n')
    model(world.run_dir / "final_model")
    return world


def config_home(world: World) -> Path:
    return world.scratch / ".config" / "ptb-tui"


def key(world: World) -> None:
    """The judges of this world work with a key."""
    judge_file(world, '[credential]\nkind = "api_key"\n')
    config_home(world).mkdir(parents=True, exist_ok=True)
    (config_home(world) / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")


def judge_file(world: World, more: str) -> None:
    path = world.content / "judges" / JUDGE / "judge.toml"
    path.write_text(f"{path.read_text()}{more}")


def login(world: World, data: bytes) -> Path:
    path = config_home(world) / "credentials" / "codex-judge" / "auth.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def step(world: World, n: int = 1, **spec: Any) -> Path:
    name = f"{n + 1:03d}-judge-{JUDGE}-{n}"
    return world.step(name, **{"kind": "judge", "judge": JUDGE, "engine": "codex", "n": n, **spec})


def ask(world: World, act: str = "verdict()", n: int = 1, **spec: Any) -> tuple[int, dict[str, Any], str]:
    install(world.root.parent / "clis", act)
    return world.run("judge", step(world, n, **spec))


def record(world: World, number: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((world.ptb / "verdicts" / JUDGE / f"{number:03d}.json").read_text())
    return found


def saw(world: World, n: int = 1) -> Any:
    return seen(step(world, n) / "judge_output.json")


def companion_of(scratch: Path) -> int | None:
    """The process id of the companion of the first session."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"companion" in words and os.fsencode(scratch / "try-1") in words:
            return int(path.parent.name)
    return None


class _Here(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        data = b"go" if self.server.go.is_set() else b"wait"
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Host(ThreadingHTTPServer):
    """A host on loopback that answers "wait" until `go` is set, and keeps what was `asked`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Here)
        self.asked, self.go = list[str](), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def host() -> Iterator[Host]:
    """One that serves for the block."""
    with Host() as found:
        threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
        yield found
        found.shutdown()
