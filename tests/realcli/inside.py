"""In a network namespace of its own: loopback up, the scripted endpoint on it, then a command, whose status is ours.

    unshare --net python -m tests.realcli.inside PORT LOG COMMAND [ARGUMENT …]

Nothing but loopback exists here, so nothing that a CLI tries can leave.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from tests.realcli.endpoint import Endpoint

_GET, _SET, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP


def loopback_up() -> None:
    """Switch the interface `lo` on. OSError without the right to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        flags = struct.unpack("16xh", fcntl.ioctl(handle, _GET, struct.pack("16sh", b"lo", 0))[:18])[0]
        fcntl.ioctl(handle, _SET, struct.pack("16sh", b"lo", flags | _UP))


def main(argv: list[str]) -> int:
    """See above."""
    alone = {name for _, name in socket.if_nameindex()} <= {
        "lo",
        "sit0",
        "tunl0",
        "ip6tnl0",
        "gre0",
        "gretap0",
        "erspan0",
    }
    if not alone:
        print("refusing to run beside a real network interface", file=sys.stderr)
        return 2
    loopback_up()
    server = Endpoint(int(argv[0]), Path(argv[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        return subprocess.run(argv[2:], stdin=subprocess.DEVNULL, check=False).returncode
    finally:
        server.closing.set()
        server.shutdown()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
