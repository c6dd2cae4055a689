"""Command line of the testbed: `python -m tests.testbed --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from tests.testbed import lifecycle, network, processes, rootfs
from tests.testbed.hosts import DEFAULT, HOSTS, known
from tests.testbed.place import Problem, locked


def arguments() -> argparse.ArgumentParser:
    """The verbs and what each takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description="Real hosts for the tests.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("build", help="make root file system, image and runtime, as far as they are missing")
    verb.add_argument("--force", action="store_true", help="make root file system and image anew")
    verb = verbs.add_parser("up", help=f"bring hosts up (default: {' '.join(DEFAULT)}; there are {' '.join(HOSTS)})")
    verb.add_argument("hosts", nargs="*")
    verb = verbs.add_parser("status", help="what is up, and whether it answers; exit 3 when nothing is")
    verb.add_argument("--json", action="store_true")
    verb = verbs.add_parser("exec", help="run a command in a host, without ssh")
    verb.add_argument("-u", "--user", default="root")
    verb.add_argument("host")
    verb.add_argument("command", nargs="+")
    verb = verbs.add_parser("op", help="run a command where the operator is: in the hosts' network, with no way out")
    verb.add_argument("command", nargs="+")
    verb = verbs.add_parser("nc", help="join standard input and output with a port, for ssh's ProxyCommand")
    verb.add_argument("host")
    verb.add_argument("port", type=int)
    verb.add_argument("--delay", type=float, default=0.0, help="seconds, in either direction")
    verb = verbs.add_parser("link", help="pull or plug a host's network cable")
    verb.add_argument("host")
    verb.add_argument("state", choices=["up", "down"])
    verb = verbs.add_parser("slow", help="limit what a host receives (256kbit), or lift the limit (off)")
    verb.add_argument("host")
    verb.add_argument("rate")
    verbs.add_parser("crash", help="cut a host's power; its disk stays").add_argument("host")
    verbs.add_parser("stop", help="shut a host down in order; its disk stays").add_argument("host")
    verbs.add_parser("down", help="end all hosts and throw their disks away")
    verbs.add_parser("clean", help="down, and remove what build made")
    return parser


def main(words: list[str] | None = None) -> int:
    """Does one verb. Problem says what went wrong."""
    given = arguments().parse_args(words)
    if os.geteuid() != 0:
        raise Problem("needs root")
    match given.verb:
        case "exec":
            inside = processes.words_inside(given.host, given.command, given.user)
            os.execvp(inside[0], inside)
        case "op":
            network.enter("op")
            os.execvp(given.command[0], given.command)
        case "nc":
            network.join(HOSTS[given.host].ip if given.host in HOSTS else given.host, given.port, given.delay)
        case "link":
            known(given.host)
            network.link(given.host, given.state)
        case "slow":
            known(given.host)
            network.slow(given.host, given.rate)
        case "build":
            lifecycle.build(given.force)
        case "status":
            return _status(given.json)
        case _:
            with locked():
                _change(given)
    return 0


def _change(given: argparse.Namespace) -> None:
    match given.verb:
        case "up":
            lifecycle.up(tuple(given.hosts) or DEFAULT)
        case "crash" | "stop":
            lifecycle.halt(given.host, graceful=given.verb == "stop")
        case "down":
            lifecycle.down()
        case "clean":
            lifecycle.clean()


def _status(as_json: bool) -> int:
    hosts = lifecycle.status()
    if as_json:
        print(json.dumps({"built": rootfs.built(), "hosts": hosts}, indent=1))
    else:
        print("built" if rootfs.built() else "not built")
        for name, facts in hosts.items():
            print(f"{name:7}" + " ".join(f"{key}={value}" for key, value in facts.items()))
    return 0 if any(facts["up"] for facts in hosts.values()) else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        sys.exit(f"testbed: {problem}")
