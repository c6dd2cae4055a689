"""Eight runs and four judges with the real Codex CLI on one login: their tokens end in the same second, the vendor is
asked once, and what renews is nowhere near a sandbox (design §5, Secrets).

Each run is real from the shim on: launch.json, companion with gateway and broker, bubblewrap, the agent's own solve.sh.
Only the model and the vendor's token endpoint are scripts on this machine's loopback; nothing else can be reached.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.core import files
from ptb_tui.core.credential import TOKEN_URL, CredentialUse
from ptb_tui.core.layout import Root
from ptb_tui.core.spec import ProtocolRef, RunSpec
from ptb_tui.run import processes
from ptb_tui.run.sources import Provision, Ready
from ptb_tui.run.sources.login import Place, hand_over, judge_login
from ptb_tui.sandbox.base import Bind, Request
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.supplies import credentials
from ptb_tui.supplies.logins import PLACEHOLDER, read_login
from tests.realcli.endpoint import Endpoint
from tests.realcli.stage import HOME
from tests.run.brokers import ENTRY, until
from tests.supplies.vendor import Vendor

pytestmark = [pytest.mark.realcli, pytest.mark.bubblewrap]
VERSIONS = ("0.144.5", "0.171.0")  # that of the judges, and the agents'
RUNS, JUDGES = 8, 4
INSIDE = "/opt/codex"


def installed(version: str) -> Path:
    """The folder of a Codex with its `bin`, got from npm once. PTB_CODEX_<VERSION> names one that is there already."""
    given = os.environ.get(f"PTB_CODEX_{version.replace('.', '_')}")
    place = Path(given) if given else HOME / f"codex-{version}"
    if not given:
        HOME.mkdir(parents=True, exist_ok=True)
        with open(HOME / f"codex-{version}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not list(place.glob("node_modules/@openai/*/vendor/*/bin/codex")):
                words = [
                    "npm",
                    "install",
                    "--no-fund",
                    "--no-audit",
                    "--prefix",
                    str(place),
                    f"@openai/codex@{version}",
                ]
                subprocess.run(words, check=True, timeout=600, capture_output=True)
    (program,) = place.glob("node_modules/@openai/*/vendor/*/bin/codex")
    return program.parents[1]


@dataclass
class One:
    """One run or judge from its shim to its end."""

    scratch: Path
    step: Path
    shim: subprocess.Popen[bytes] | None = None
    environment: str = ""

    def companions(self) -> list[int]:
        """The companion that the shim keeps, if it is there right now."""
        if self.shim is None:
            return []
        words = ["companion", str(self.scratch)]
        found = []
        for pid in processes.descendants(self.shim.pid):
            try:
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if [part.decode("utf-8", "replace") for part in argv[-3:-1]] == words:
                found.append(pid)
        return found

    @property
    def said(self) -> str:
        """What it printed."""
        path = self.scratch / "raw"
        return path.read_text(errors="replace") if path.exists() else ""


class Stand:
    """A site's login, the scripted services, and everybody who uses them."""

    def __init__(self, base: Path, vendor: Vendor, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.vendor, self.codex = base, vendor, installed(version)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        self.config = base / "config" / "ptb-tui"
        self.agent = load_agent(Content.of(), "codex_non_api")
        self.use = self.agent.credential
        self.login = credentials.own_place(self.config, self.use)
        credentials.keep(self.config, self.login, vendor.login(-1))
        self.model = Endpoint(0, base / "requests.jsonl")
        self.thread = threading.Thread(target=self.model.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        self.port = self.model.server_port
        self.all: list[One] = []

    def prepare(self, name: str, *, judge: bool) -> One:
        """What the steps that prepare would do, with the login handed over by the real thing."""
        scratch = self.base / "scratch" / name
        home, step = scratch / "home", self.base / "results" / name
        for folder in (home / "task", home / "agent", scratch / "gateway", step):
            folder.mkdir(parents=True, mode=0o700)
        for file in self.agent.files:
            (home / "agent" / file.name).write_bytes(file.read_bytes())
        (home / "agent_solve.sh").write_bytes(self.agent.solve.read_bytes())
        sandbox = Bubblewrap()
        ready, values = Ready(scratch, sandbox), {f"{TOKEN_URL}CODEX": self.vendor.url}
        root, protocol = Root(self.base / "root"), ProtocolRef(name="toy", fingerprint="f")
        spec = RunSpec(agent="x", config="c", benchmark="b", base_model="local/m", hours=1, protocol=protocol, id=7)
        given = self._given(ready, values, root, spec, judge=judge)
        env = {
            "HOME": "/home/ben", "PATH": f"{INSIDE}/bin:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
            "PROMPT": "Write hello into out.txt, then stop.", "AGENT_CONFIG": "gpt-script",
            "PTB_ENDPOINT": f"http://127.0.0.1:{self.port}/ok/v1", **self.agent.env, **given.env,
        }  # fmt: skip
        gateway = scratch / "gateway" / "g.sock"
        request = Request(
            argv=("bash", "/home/ben/agent_solve.sh"),
            home=home,
            workdir="task",
            binds=(Bind(self.codex, INSIDE),),
            env=env,
            network="gateway",
            gateway_socket=gateway,
            reach=(self.port, *given.reach),
        )
        command = sandbox.command(request)
        also = [f"127.0.0.1:{self.port}"]
        said = {"socket": str(gateway), "ledger": str(scratch / "egress.jsonl"), "allow": [], "also": also}
        files.replace(scratch / "companion.json", files.dump({**said, **given.companion}), mode=0o600)
        launch = {
            "argv": list(command.argv),
            "cwd": str(command.cwd),
            "limits": command.limits,
            "runtime": sandbox.runtime,
            "deadline_s": 240,
            "grace_s": 5,
            "companion": [sys.executable, "-I", ENTRY, "companion", str(scratch)],
        }
        files.replace(scratch / "launch.json", files.dump(launch), mode=0o600)
        one = One(scratch, step, environment=json.dumps(command.env))
        self.all.append(one)
        return one

    def _given(self, ready: Ready, values: dict[str, str], root: Root, spec: RunSpec, *, judge: bool) -> Provision:
        if judge:
            shared = CredentialUse.model_validate({**self.use.model_dump()})  # a judge.toml that names the agents'
            return judge_login("general_judge", shared, ready, "gateway", values, root, spec)
        state = credentials.standing(self.use, self.config)
        return hand_over(self.use, state, Place(ready, "gateway", values, root, spec))

    def start(self) -> None:
        """All of them at once."""
        for one in self.all:
            with open(one.scratch / "shim.log", "ab") as log:
                one.shim = subprocess.Popen(
                    [sys.executable, "-I", ENTRY, "shim", str(one.scratch), str(one.step)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                )
            assert one.shim.stdin is not None
            one.shim.stdin.write(one.environment.encode())
            one.shim.stdin.close()

    def close(self) -> None:
        """End what is left, by pid."""
        if self.vendor.hold is not None:
            self.vendor.hold.set()
        for one in self.all:
            if one.shim is not None:
                for pid in processes.descendants(one.shim.pid):
                    processes.send(pid, signal.SIGKILL)
                one.shim.kill()
                one.shim.wait(20)
        self.model.closing.set()
        self.model.shutdown()
        self.model.server_close()

    def traces_of(self, token: str) -> list[str]:
        """Files of runs and results that hold a token in any form that a tool gives it."""
        raw = token.encode()
        forms = {raw, json.dumps(token).encode()[1:-1], quote(token, safe="").encode()}
        forms |= {base64.b64encode(bytes(n) + raw)[4:-4] for n in range(3)}
        found = []
        for folder in (self.base / "scratch", self.base / "results"):
            for path in folder.rglob("*"):
                if path.is_file() and not path.is_symlink() and any(form in path.read_bytes() for form in forms):
                    found.append(str(path))
        return found


@pytest.fixture(params=VERSIONS)
def stand(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    if not Bubblewrap().probe()[0]:
        pytest.fail("bubblewrap does not work here")
    os.chmod(tmp_path, 0o755)
    with Vendor() as vendor:
        found = Stand(tmp_path, vendor, request.param, monkeypatch)
        try:
            yield found
        finally:
            found.close()


def test_eight_runs_and_four_judges_make_one_renewal(stand: Stand) -> None:
    for number in range(RUNS + JUDGES):
        stand.prepare(f"{'run' if number < RUNS else 'judge'}-{number}", judge=number >= RUNS)
    dice = random.Random(7)
    stand.vendor.hold = threading.Event()
    stand.start()
    until(stand.vendor.asked.is_set, "somebody asks the vendor", 120)
    killed = [pid for one in stand.all for pid in one.companions()]
    for pid in killed:  # every companion dies while the vendor thinks about it …
        processes.send(pid, signal.SIGKILL)
    assert killed
    stand.vendor.hold.set()
    until(lambda: stand.vendor.refreshes == 1, "the vendor answers")
    for one in dice.sample(stand.all, 4):  # … and some a second time
        for pid in one.companions():
            processes.send(pid, signal.SIGKILL)
    for one in stand.all:
        assert one.shim is not None
        one.shim.wait(240)

    ends = [files.read_object(one.scratch / "exit.json") or {} for one in stand.all]
    told = "\n".join(f"{one.scratch.name}: {one.said[-1500:]}" for one in stand.all)
    assert [end.get("rc") for end in ends] == [0] * (RUNS + JUDGES), told
    assert all('"turn.completed"' in one.said for one in stand.all), told
    assert stand.vendor.refreshes == 1 and stand.vendor.reused == 0, stand.vendor.requests
    assert len(stand.vendor.requests) == 1

    now = read_login(stand.login.read_bytes())
    assert now is not None and now.refresh == stand.vendor.good
    for token in stand.vendor.given:
        assert stand.traces_of(token) == []
    for one in stand.all:
        auth = json.loads((one.scratch / "home" / ".codex" / "auth.json").read_text())
        assert auth["tokens"]["access_token"] == now.access, "the CLI wrote down what it was given"
        assert auth["tokens"]["refresh_token"].startswith(PLACEHOLDER)
    seen = [json.loads(line) for line in (stand.base / "requests.jsonl").read_text().splitlines()]
    used = {request["headers"].get("authorization", request["headers"].get("Authorization")) for request in seen}
    assert used - {None} == {f"Bearer {now.access}"}, "every model request had the new token"


def test_a_token_that_is_still_good_is_not_renewed(stand: Stand) -> None:
    credentials.keep(stand.config, stand.login, stand.vendor.login(86400, issued_ago=60))
    one = stand.prepare("run-1", judge=False)
    stand.start()
    assert one.shim is not None
    one.shim.wait(240)
    assert (files.read_object(one.scratch / "exit.json") or {}).get("rc") == 0, one.said
    assert not stand.vendor.requests and stand.traces_of(stand.vendor.good) == []
