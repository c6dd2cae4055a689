"""Becomes a sandboxed command: `python -I driver.py REPOSITORY`, the request as JSON on stdin.

A program of its own, so that the same test runs as the present user and as one without any rights.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    from ptb_tui.sandbox.base import Bind, Request, apply_limits
    from ptb_tui.sandbox.bubblewrap import Bubblewrap

    said = json.loads(sys.stdin.buffer.read())
    said["binds"] = tuple(Bind(Path(source), target, writable) for source, target, writable in said.get("binds", []))
    for key in ("home", "tmp", "gateway_socket"):
        if said.get(key) is not None:
            said[key] = Path(said[key])
    for key in ("argv", "reach"):
        said[key] = tuple(said.get(key, ()))
    command = Bubblewrap().command(Request(**said))
    os.chdir(command.cwd)
    apply_limits(command.limits)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, 64)
    os.execve(command.argv[0], command.argv, command.env)


main()
