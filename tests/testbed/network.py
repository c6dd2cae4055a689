"""The networks of the testbed: an outer one that the operator is in, and an inner one behind a jump host.

Everything lives in network namespaces; both ends of every cable are born in theirs, so this machine's own namespace
never has an interface or an address of the testbed, and nothing can leave by its default route.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.testbed.hosts import HOSTS, OPERATOR, Host
from tests.testbed.place import BASE, NAME, Problem, sh

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def namespace(host: str) -> str:
    """The network namespace of a host, or of the operator (`op`), as `ip netns` names it.

    The machine has one list of them, so testbeds in two folders must not have the same names.
    """
    return f"{NAME}-{zlib.crc32(str(BASE).encode()):08x}-{host}"


def exists(host: str) -> bool:
    """Whether the host's network namespace is there."""
    return Path("/run/netns", namespace(host)).exists()


def enter(host: str) -> None:
    """Moves the calling thread into a host's network; sockets made before stay where they were."""
    try:
        there = os.open(f"/run/netns/{namespace(host)}", os.O_RDONLY)
    except FileNotFoundError:
        raise Problem(f"no network of {host}: nothing is up") from None
    try:
        if LIBC.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(there)


def lay() -> None:
    """Makes the operator's namespace with both bridges. The inner one has no address: the operator is not on it."""
    if exists("op"):
        return
    sh("ip", "netns", "add", namespace("op"))
    lines = ["link set lo up"]
    for bridge in ("br0", "br1"):
        lines += [f"link add {bridge} type bridge forward_delay 0 stp_state 0", f"link set {bridge} up"]
    _ip([*lines, f"addr add {OPERATOR}/24 dev br0"], "op")


def plug(name: str, host: Host) -> None:
    """A fresh namespace for the host, with a cable to each bridge that it is on."""
    remove(name)
    sh("ip", "netns", "add", namespace(name))
    _ip(["link set lo up"], name)
    cables = [("eth0", f"v-{name}", host.bridge, host.ip)]
    if host.second:
        cables.append(("eth1", f"w-{name}", "br1", host.second))
    for card, end, bridge, address in cables:
        # The card's address belongs to the IP address for good, or the others' ARP caches would keep sending to the
        # card that the host had before a reboot, for up to half a minute.
        mac = "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        pair = (
            f"link add {end} netns {namespace('op')} type veth peer name {card} address {mac} netns {namespace(name)}"
        )
        _ip([pair], None)
        _ip([f"link set {end} master {bridge}", f"link set {end} up"], "op")
        _ip([f"addr add {address}/24 dev {card}", f"link set {card} up"], name)


def remove(name: str) -> None:
    """Unplugs a host and removes its namespace; by the name `op`, the bridges."""
    if not exists(name):
        return
    if name != "op" and exists("op"):
        # The pair goes at once with its bridge end; the namespace itself goes with its last process.
        for end in (f"v-{name}", f"w-{name}"):
            command = ["ip", "-n", namespace("op"), "link", "del", end]
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=30, check=False)
    sh("ip", "netns", "del", namespace(name))


def end_strays(name: str) -> None:
    """Ends what runs in a host's namespace without a pid on file: a host whose `up` was killed halfway."""
    if not exists(name):
        return
    pids: list[str] = []
    for _ in range(100):
        pids = sh("ip", "netns", "pids", namespace(name)).split()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
    raise Problem(f"{name}: processes {' '.join(pids)} do not end")


def link(name: str, state: str) -> None:
    """Pulls (`down`) or plugs (`up`) the cable of a host's first card, at the bridge's end."""
    sh("ip", "-n", namespace("op"), "link", "set", f"v-{name}", state)


def link_state(name: str) -> str:
    """`up`, `down` or `absent`, as the bridge sees it."""
    command = ["ip", "-n", namespace("op"), "-br", "link", "show", f"v-{name}"]
    words = subprocess.run(command, text=True, capture_output=True, timeout=30, check=False).stdout.split()
    return words[1].lower() if len(words) > 1 else "absent"


def slow(name: str, rate: str) -> None:
    """Limits what a host receives (`256kbit`, as tc has it), or lifts the limit (`off`)."""
    command = ["ip", "netns", "exec", namespace("op"), "tc", "qdisc"]
    here = ("dev", f"v-{name}", "root")
    subprocess.run([*command, "del", *here], stderr=subprocess.DEVNULL, timeout=30, check=False)
    if rate != "off":
        sh(*command, "add", *here, "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")


def sshd_answers(name: str) -> bool:
    """Whether the host's sshd names its version to the operator, or to the host that it is reached by."""
    greeting: list[bytes] = []

    def ask() -> None:
        with contextlib.suppress(OSError, Problem):
            enter(HOSTS[name].via)
            with socket.create_connection((HOSTS[name].ip, 22), timeout=2) as connection:
                greeting.append(connection.recv(8))

    thread = threading.Thread(target=ask)  # a namespace is left by ending the thread that entered it
    thread.start()
    thread.join()
    return greeting == [b"SSH-2.0-"]


def join(address: str, port: int, delay: float = 0.0) -> None:
    """Joins standard input and output with a port as the operator reaches it: a ProxyCommand for ssh.

    With a delay every byte comes that many seconds later, in either direction (the kernels of small machines lack
    netem, which would do it in the network).
    """
    enter("op")
    try:
        connection = socket.create_connection((address, port), timeout=10)
    except OSError as error:
        raise Problem(f"{address} port {port}: {error.strerror or error}") from None
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def to_stdout(data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    def upwards() -> None:
        _pass_on(lambda: os.read(0, 65536), connection.sendall, delay)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=upwards, daemon=True).start()
    _pass_on(lambda: connection.recv(65536), to_stdout, delay)


def _pass_on(read: Callable[[], bytes], write: Callable[[bytes], object], delay: float) -> None:
    """Passes on until the end of what is read, each piece `delay` seconds after it came."""
    late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        while True:
            due, data = late.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                return
            with contextlib.suppress(OSError):
                write(data)

    if not delay:
        while data := read():
            write(data)
        return
    thread = threading.Thread(target=deliver, daemon=True)
    thread.start()
    while True:
        data = read()
        late.put((time.monotonic() + delay, data))
        if not data:
            thread.join()
            return


def _ip(lines: Sequence[str], host: str | None) -> None:
    command = ["ip", *(["-n", namespace(host)] if host else []), "-batch", "-"]
    text = "\n".join(lines) + "\n"
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=30, check=False)
    if done.returncode:
        raise Problem(f"ip: {' '.join(done.stderr.split())} in {list(lines)}")
