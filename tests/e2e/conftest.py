"""A results root, stand-in content and the real program, driven through its command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import clock, files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.layout import Root
from ptb_tui.run import locks, place, processes
from tests.polling import until as until

REPOSITORY = Path(__file__).parents[2]
CONTENT = Path(__file__).with_name("content")


class Lab:
    """One operator's place: configuration, content, scratch and a results root of its own."""

    def __init__(self, base: Path, *, site: str = "local", sandbox: str = "process") -> None:
        self.base, self.results = base, base / "results"
        self.cwd = base / "content"
        self.site = site
        shutil.copytree(CONTENT, self.cwd)
        config = base / "config" / "ptb-tui"
        config.mkdir(parents=True)
        served = json.dumps([sys.executable, "-m", "ptb_tui", "serve", str(self.results)])
        (config / "config.toml").write_text(
            f'operator = "tester"\n[sites.local]\nsandbox = "{sandbox}"\n'
            f'[sites.served]\ntransport = "command"\ncommand = {served}\n'
        )
        self.env = {
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "HOME": str(base / "home"),
            "XDG_CONFIG_HOME": str(base / "config"),
            "XDG_CACHE_HOME": str(base / "cache"),
            "PTB_SCRATCH": str(base / "scratch"),
            "PYTHONPATH": str(REPOSITORY),
            "POST_TRAIN_BENCH_RESULTS_DIR": str(self.results),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
        }
        for folder in ("home", "scratch"):
            (base / folder).mkdir()

    @property
    def root(self) -> Root:
        return Root(self.results)

    def command(self, *arguments: str) -> list[str]:
        site = ["--site", self.site] if self.site != "local" else []
        return [sys.executable, "-m", "ptb_tui", *arguments, *site]

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            **options,
        )

    def run(self, *arguments: str, rc: int | None = 0, seconds: float = 180.0) -> str:
        """Run a command to its end; asserts its exit code and returns its standard output."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=seconds)
        if rc is not None:
            assert process.returncode == rc, f"{arguments} → {process.returncode}\n{out.decode()}\n{err.decode()}"
        return out.decode()

    def json(self, *arguments: str, rc: int | None = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, "--json", rc=rc).splitlines()]

    def sweep(self, *configs: str, name: str = "toy", **keys: Any) -> str:
        """Write a sweep of stand-in agents and return its path."""
        lines = [f'name = "{name}"', 'tasks = ["toy"]', 'models = ["local/toy-base"]', "gpus = 0"]
        values = {"protocol": "toy", "hours": 0.5, **keys}
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        for config in configs:
            lines += ["[[agents]]", 'agent = "toy"', f"config = {json.dumps(config)}"]
        path = self.cwd / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def run_dirs(self) -> list[Path]:
        return sorted(path.parent for path in self.results.glob("*/*/.ptb"))

    def run_dir(self) -> Path:
        return until(self.run_dirs, "a run directory")[0]  # type: ignore[no-any-return]

    def trace(self) -> list[str]:
        """The stamped trace without its stamps."""
        text = (self.run_dir() / "solve_out.txt").read_text()
        return [line.partition("] ")[2] for line in text.splitlines()]

    def ids(self) -> list[int]:
        return sorted(int(path.name) for path in self.root.own("ids").glob("*"))

    def step_scratch(self) -> Path:
        found = until(lambda: list((self.base / "scratch").glob("*/*/001-agent/shim.json")), "a shim")
        return found[0].parent  # type: ignore[no-any-return]

    def supervisor(self) -> clock.Process:
        """The living supervisor of the only run."""
        folder = next(self.run_dir().glob(".ptb/steps/001-agent"))
        from ptb_tui.core import events

        claims = [event for event in events.read(folder).events if event.kind in ("claimed", "adopted")]
        identity = clock.process_from(claims[-1].data["supervisor"])
        assert identity is not None
        return identity

    def pids(self, *words: str) -> list[int]:
        """Processes of this lab whose command line holds all these words."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if str(self.base) in line and all(word in line for word in words):
                found.append(int(folder.name))
        return found

    def close(self) -> None:
        """End everything this lab started, by pid."""
        for run_id in place.pending(self.root):
            try:
                run = place.find(self.root, run_id)
            except PtbError:  # whatever a failed test left
                continue
            files.create(run.cancel, "{}")
        for _ in range(3):
            for pid in self.pids():
                if pid != os.getpid():
                    processes.send(pid, signal.SIGKILL)
            for pid in processes.marked(b"XDG_CONFIG_HOME=" + str(self.base / "config").encode()):
                processes.send(pid, signal.SIGKILL)
        shutil.rmtree(self.root.state, ignore_errors=True)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    place_of_work = Lab(tmp_path)
    yield place_of_work
    place_of_work.close()


@pytest.fixture(params=["local", "served"])
def any_lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The same site at hand and behind `serve` over a subprocess."""
    place_of_work = Lab(tmp_path, site=request.param)
    yield place_of_work
    place_of_work.close()


__all__ = ["Lab", "any_lab", "lab", "locks", "until"]
