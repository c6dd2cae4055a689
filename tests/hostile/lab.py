"""A lab whose agents attack, with things on the host that they must neither read nor change."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.layout import RunFiles
from ptb_tui.results.steps import fold_steps
from ptb_tui.run import processes
from tests.e2e.conftest import REPOSITORY, Lab, until

CONTENT = Path(__file__).with_name("content")
LONG = 480.0  # seconds for all attacks; idle cores need a fifth of it
GIVEN = "canary-GivenToTheAgent0"
SECRETS = {  # what no agent was given, by where it lies
    "content/.env": "canary-OtherKey00000000",
    "outside/secret.txt": "canary-FileOfTheHost000",
    "home/.codex/auth.json": "canary-RefreshToken0000",
    "credentials/codex.json": "canary-Credential000000",
    "results/other_10h/toy_local_toy-base_7/solve_out.txt": "canary-OtherRunsTrace00",
}
_KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}
_SESSION = ctypes.c_int(-3)

State = dict[str, tuple[object, ...]]


def state_of(*folders: Path) -> State:
    """Everything that can be told of some folders: kinds, rights, sizes, times, contents."""
    found: State = {}
    for top in folders:
        for folder, below, names in os.walk(top):
            for name in (".", *below, *names):
                path = Path(folder) / name
                info = path.lstat()
                regular = stat.S_ISREG(info.st_mode)
                content = hashlib.sha256(path.read_bytes()).hexdigest() if regular else ""
                change = info.st_mtime_ns if regular or name == "." else 0
                found[str(path)] = (info.st_mode, info.st_nlink if regular else 0, info.st_size, change, content)
    return found


def unsafe_bytes(data: bytes) -> bytes:
    """The first bytes around something that a terminal would obey, or nothing."""
    text = data.decode("utf-8", "surrogateescape")
    for at, sign in enumerate(text):
        if sign != "\n" and not sign.isprintable():
            return text[max(0, at - 30) : at + 30].encode("utf-8", "surrogateescape")
    return b""


def _keyring(act: str, *arguments: object) -> int:
    add_key, keyctl = _KEYCTL.get(platform.machine(), (-1, -1))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(add_key if act == "add" else keyctl, *arguments))


def session_key(value: str) -> bool:
    """Put a key into the session keyring that everything started from here inherits; False where there is none."""
    secret = value.encode()
    joined = _keyring("join", 1, None) > 0  # a keyring of this process's own, so that nobody else's is changed
    return joined and _keyring("add", b"user", b"ptb-canary", secret, len(secret), _SESSION) > 0


def planted_key() -> bool:
    """Whether an agent could put a key of its own into that keyring."""
    return _keyring("search", 10, _SESSION, b"user", b"ptb-planted", 0) > 0


@dataclass(frozen=True)
class Attack:
    """One run: the words of its agent, its budget, which agent speaks them, and who judges."""

    words: str
    hours: float = 0.1
    agent: str = "hostile"
    protocol: str = "hostile"


class HostileLab(Lab):
    """Attacks run through the real product; `user` are words that change to another account."""

    def __init__(self, base: Path, sandbox: str, user: tuple[str, ...] = ()) -> None:
        base.mkdir()
        base.chmod(0o755)
        super().__init__(base, sandbox=sandbox)
        self.user, self.sandbox = user, sandbox
        shutil.copytree(CONTENT, self.cwd, dirs_exist_ok=True)
        config = base / "config" / "ptb-tui" / "config.toml"
        config.write_text(config.read_text().replace("[sites.local]\n", "[sites.local]\nslots = 2\n"))
        for name, value in SECRETS.items():
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = f"OTHER_API_KEY={value}\nGIVEN_API_KEY={GIVEN}\n" if path.name == ".env" else f"{value}\n"
            path.write_text(text)
            path.chmod(0o600)
        self.model = self.cwd / "containers" / "models" / "toy-base"
        shutil.copytree(self.model, base / "outside" / "model")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        place = self.cwd / "agents" / "hostile" / "place.py"
        place.write_text(
            f'"""Where this is done."""\n\nBASE = {str(base)!r}\nPORT = {self.listener.getsockname()[1]}\n'
        )
        self._copy_program()
        self.use(sys.executable)
        self.env["SHELL_TOKEN"] = "canary-ShellOfOperator0"
        self.watched = [base / name for name in ("outside", "home/.codex", "credentials", "config", "content")]
        self.watched.append(base / "results" / "other_10h")

    def show_image(self, image: Path) -> None:
        """Containers are made from this image."""
        folder = self.base / "containers"
        folder.mkdir()
        shutil.copyfile(image, folder / "standard.sif")
        os.link(folder / "standard.sif", folder / "vllm_debug.sif")
        self.env["POST_TRAIN_BENCH_CONTAINERS_DIR"] = str(folder)

    def use(self, python: str) -> None:
        """Which Python runs the program."""
        self.python = python
        self.env["PYTHONPATH"] = str(self.base / "program")
        self.env["PATH"] = f"{os.path.dirname(python)}:{os.environ['PATH']}"

    def _copy_program(self) -> None:
        """The program with shorter waits: an agent has seconds after its budget, and 2 s from TERM to KILL."""
        copy = self.base / "program"
        for name in ("ptb_tui", "backends"):
            shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("judges", "tasks", "agents", "containers"):
            (copy / name).symlink_to(REPOSITORY / name)
        agent = copy / "ptb_tui" / "run" / "steps" / "agent.py"
        text = agent.read_text()
        for old, new in (("GRACE_S = 300.0", "GRACE_S = 1.0"), ('"grace_s": 30,', '"grace_s": 2,')):
            assert old in text
            text = text.replace(old, new)
        agent.write_text(text)

    def give(self, uid: int) -> None:
        """Make everything here that account's."""
        for folder, below, names in os.walk(self.base):
            for name in (".", *below, *names):
                os.chown(os.path.join(folder, name), uid, uid, follow_symlinks=False)

    def command(self, *arguments: str) -> list[str]:
        return [*self.user, self.python, "-m", "ptb_tui", *arguments]

    def write(self, attacks: Iterable[Attack]) -> str:
        """The sweep of these attacks; its path."""
        lines = ['name = "hostile"', 'tasks = ["toy"]', 'models = ["local/toy-base"]', "gpus = 0"]
        lines += ['protocol = "hostile"', "hours = 0.1"]
        for one in attacks:
            lines += ["[[agents]]", f'agent = "{one.agent}"', f"config = {json.dumps(one.words)}"]
            lines += [f"hours = {one.hours}", f'protocol = "{one.protocol}"']
        path = self.base / "hostile.toml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def attack(self, attacks: Iterable[Attack], seconds: float = LONG) -> bytes:
        """Run all attacks as one sweep to their end; what the operator's terminal got."""
        process = self.start("--batch", self.write(attacks), "--yes", stderr=subprocess.STDOUT)
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"not over in {seconds:.0f} s: {process.communicate()[0][-2000:]!r}") from None
        assert process.returncode in (0, 1, 5), out.decode()[-4000:]
        return out

    def alive(self) -> list[int]:
        """Processes of this lab: by command line or environment, or in another mount namespace over this place.

        Mounts in our own namespace say nothing: every process of the machine shows them.
        """
        mark, found = os.fsencode(self.base.name), set[int]()
        for place in (self.base, *self.base.glob("scratch/*/*/*")):
            found.update(processes.mounted(place))
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                folder = Path("/proc") / name
                if any(mark in (folder / what).read_bytes() for what in ("cmdline", "environ")):
                    found.add(int(name))
        pid = os.getpid()
        while pid > 1:  # never ourselves, nor who started us
            found.discard(pid)
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return sorted(found)

    def connected(self) -> bool:
        """Whether anybody reached the listener on the host's loopback."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        super().close()
        self.listener.close()
        for pid in self.alive():
            processes.send(pid, signal.SIGKILL)
        until(lambda: not self.alive(), "nothing of the lab alive")


class Run:
    """What became of one attack."""

    def __init__(self, lab: HostileLab, attack: Attack, row: dict[str, Any], run_dir: Path) -> None:
        self.lab, self.attack, self.row, self.dir = lab, attack, row, run_dir
        self.files = RunFiles(run_dir / ".ptb")

    @cached_property
    def end(self) -> tuple[str, str]:
        """State and cause of the agent step."""
        step = next(iter(fold_steps(self.files, {})))
        return step.state.state.value, step.state.cause

    @property
    def worth(self) -> str:
        return str(self.row["worth"])

    @cached_property
    def raw_trace(self) -> bytes:
        return (self.dir / "solve_out.txt").read_bytes()

    @cached_property
    def trace(self) -> list[str]:
        """Lines of the trace without their stamps, of a trace that is text."""
        return [line.partition("] ")[2] for line in self.raw_trace.decode("utf-8", "replace").split("\n")]

    def after(self, prefix: str) -> str:
        """The rest of the only line that begins so."""
        (line,) = [line for line in self.trace if line.startswith(prefix)]
        return line.removeprefix(prefix).strip()

    def record(self, name: str) -> dict[str, Any]:
        """One of our files below `.ptb`."""
        return files.read_object(self.files.ptb / name) or {}

    @cached_property
    def verdicts(self) -> dict[str, tuple[object, ...]]:
        """What the judges said, without words and times."""
        found: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.files.verdicts.glob("*/*.json")):
            record = files.read_object(path) or {}
            flags = {key: value for key, value in (record.get("verdict") or {}).items() if isinstance(value, bool)}
            found[path.parent.name] = (record.get("state"), tuple(sorted(flags.items())))
        return found

    def logs(self) -> bytes:
        """What judges and evaluation printed and wrote, beside the agent's own output."""
        found = [path.read_bytes() for path in self.files.steps.rglob("*") if path.is_file()]
        found += [path.read_bytes() for path in self.dir.glob("evaluation*/**/*") if path.is_file()]
        found += [path.read_bytes() for path in self.dir.glob("*.json") if path.is_file()]
        return b"\n".join(found)

    def harvested(self) -> list[Path]:
        """Everything that came out of the agent's home."""
        return [path for name in ("task", "final_model") for path in (self.dir / name).rglob("*")]
