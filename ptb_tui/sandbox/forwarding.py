"""How a command without a network reaches the gateway: the forwarder inside, its socket, the proxy's words."""

from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.sandbox.base import Request, folder, refuse

FORWARDER = Path(__file__).with_name("forwarder.py")
FORWARDER_INSIDE = "/run/ptb/forwarder.py"
GATEWAY_INSIDE = "/run/ptb/gateway"
PORT = 3128


def socket_folder(request: Request) -> Path:
    """The folder that is shown inside at GATEWAY_INSIDE. StepError when it holds more than the companion's socket."""
    socket = request.gateway_socket
    if socket is None:
        raise refuse("network gateway needs the socket of a companion")
    folder(socket.parent, "the directory of the gateway's socket")
    own = (socket.name, f".{socket.name}")  # a companion that was killed may leave the hidden one
    if any(not name.startswith(own) for name in os.listdir(socket.parent)):
        raise refuse(f"{socket.parent} holds more than the gateway's socket, and all of it would be shown inside")
    if len(os.fsencode(socket.name)) > 64:
        raise refuse("the name of the gateway's socket is longer than 64 bytes")
    return socket.parent


def forwarded(python: str, request: Request) -> tuple[str, ...]:
    """The words that start the forwarder inside, which then becomes the command."""
    assert request.gateway_socket is not None  # socket_folder refused it
    socket = f"{GATEWAY_INSIDE}/{request.gateway_socket.name}"
    words = [python, "-I", "-S", FORWARDER_INSIDE, "--socket", socket, "--port", str(PORT)]
    for port in request.reach:
        words += ["--reach", str(port)]
    return (*words, "--", *request.argv)


def proxy_words(port: int) -> dict[str, str]:
    """The environment that sends programs to a proxy on this port of loopback; loopback itself stays direct."""
    proxy, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1"
    words = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return words | {name.lower(): value for name, value in words.items()}
