"""The companion: gateway and credential broker of one sandbox, outside the supervisor (design §5, "The trace's way").

    companion SCRATCH [FD]

`FD` is a listening socket for the broker that whoever started us holds open. Reads `SCRATCH/companion.json`, which
nobody else may read:

    {"socket": PATH | null, "ledger": PATH, "allow": null | [RULE, …], "also": [RULE, …], "broker": {…}}

`socket` needs a directory of its own, which is made when it is absent; null: no gateway, only a broker. `allow` null
lets every host through; `also` (may be absent) opens ports of the host's loopback besides. Rules:
`sandbox.egress.rule`. The ledger is appended to. `broker` (may be absent): `run.renewing.Broker`.
Goes through the site's proxy when HTTPS_PROXY is set. Ends with the process that started it, when SCRATCH goes, or on
SIGTERM. Whoever started it starts it again when it dies: the same socket path works on. Standard library alone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import ptb_tui
from ptb_tui.core.errors import ConfigError, PtbError, UsageError
from ptb_tui.core.files import read_object
from ptb_tui.run.broker import CredentialBroker
from ptb_tui.run.renewing import Broker, broker_of
from ptb_tui.sandbox.egress import Policy, Rule, rule
from ptb_tui.sandbox.gateway import Chain, Gateway
from ptb_tui.sandbox.ledger import Ledger
from ptb_tui.sandbox.proxying import site_proxies

PARENT_S = 0.5
DESCRIPTORS = 4096


@dataclass(frozen=True, slots=True)
class Settings:
    """What `companion.json` says."""

    socket: Path | None
    ledger: Path
    policy: Policy
    broker: Broker | None = None


def settings(path: Path) -> Settings:
    """Read the file. ConfigError naming what is wrong."""
    found = read_object(path)
    if found is None:
        raise ConfigError(f"{path} is not a readable JSON object")
    places = []
    broker = broker_of(found.get("broker"), path)
    without = broker is not None and "socket" in found and found["socket"] is None
    for key in ("ledger",) if without else ("ledger", "socket"):
        value = found.get(key)
        if not isinstance(value, str) or not os.path.isabs(value):
            raise ConfigError(f"{path}: {key} must be an absolute path")
        places.append(Path(value))
    allow, also = found.get("allow"), _rules(path, "also", found.get("also", []))
    policy = Policy(None if allow is None else _rules(path, "allow", allow), also)
    return Settings(None if without else places[1], places[0], policy, broker)


def _rules(path: Path, key: str, value: object) -> tuple[Rule, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{path}: {key} must be a list of texts")
    return tuple(rule(item) for item in value)


async def run(wanted: Settings, chain: Chain, scratch: Path, fd: int | None = None) -> None:
    """Serve until the parent is gone, the scratch is gone, or SIGTERM."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    broker = CredentialBroker(wanted.broker, scratch, _renewal(scratch)) if wanted.broker else None
    services = {wanted.broker.port: broker.handle} if wanted.broker and broker else {}
    most, gateway = _connections(), None  # without a gateway no ledger either: an empty one would be a statement
    try:
        if wanted.socket is not None:
            gateway = Gateway(wanted.policy, Ledger(wanted.ledger), chain, connections=most, services=services)
            await gateway.serve(wanted.socket)
        if broker is not None:
            await broker.serve(fd)
        while not over.is_set() and os.getppid() == parent and scratch.is_dir():
            try:
                await asyncio.wait_for(over.wait(), PARENT_S)
            except TimeoutError:
                continue
    finally:
        if broker is not None:
            await broker.close()
        if gateway is not None:
            await gateway.close()


def _renewal(scratch: Path) -> list[str]:
    return [sys.executable, "-I", str(Path(ptb_tui.__file__).with_name("__main__.py")), "renew-login", str(scratch)]


def _connections() -> int:
    """Raise the limit of open files as far as allowed; two for each connection, some for us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(16, min(512, (most - 64) // 3))


def main(argv: list[str]) -> int:
    """The internal verb. 0 when it ended as told, else the exit code of the error, which is said on stderr."""
    try:
        if len(argv) not in (1, 2) or not all(part.isdigit() for part in argv[1:]):
            raise UsageError("companion takes the scratch of a step, and a descriptor if there is one")
        fd = int(argv[1]) if argv[1:] else None
        scratch = Path(argv[0]).absolute()
        wanted = settings(scratch / "companion.json")
        connect, plain, past = site_proxies(os.environ)
        os.umask(0o077)
        if wanted.socket is not None:
            wanted.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(run(wanted, Chain(connect, plain, past), scratch, fd))
    except PtbError as error:
        print(f"companion: {error.message}", file=sys.stderr, flush=True)
        return error.exit_code
    except OSError as error:
        print(f"companion: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
