"""Treat the gateway badly: garbage, half requests, hundreds of connections, its folder; ask for what is the host's."""

import contextlib
import glob
import os
import socket
import time

from place import PORT


def find() -> list[str]:
    return glob.glob("/run/ptb/gateway/*") or glob.glob("/run/ptb/**/*.sock", recursive=True)


late = time.monotonic() + 15  # as long as the forwarder is patient: an attack may be faster than the companion
while not (sockets := find()) and time.monotonic() < late:
    time.sleep(0.05)
print("sockets:", len(sockets))
changed = []
for path in (*sockets, "/run/ptb/gateway/planted"):
    with contextlib.suppress(OSError):
        os.rename(path, path + ".old")
        changed.append(path)
    with contextlib.suppress(OSError):
        os.chmod(path, 0)
        changed.append(path)
    with contextlib.suppress(OSError):
        os.unlink(path)
        changed.append(path)
    with contextlib.suppress(OSError):
        os.close(os.open(path + "x", os.O_CREAT | os.O_WRONLY))
        changed.append(path)
print("could change:", changed)


def say(data: bytes, wait: bool = True) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(sockets[0])  # waits for its turn
        client.settimeout(10)
        answer = b""
        with contextlib.suppress(OSError):
            client.sendall(data)
            while wait and (part := client.recv(65536)):
                answer += part
        return answer


for garbage in (b"\0" * 4096, b"\xff" * 100_000, b"GET " + b"a" * 200_000, b"CONNECT\r\n\r\n", b"\r\n" * 5000,
                b"CONNECT [::1%0]:99999 HTTP/1.1\r\n\r\n",
                b"POST http://\x1b[2J/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):  # fmt: skip
    say(garbage, wait=False)
held = []
for _ in range(400):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(sockets[0])
        client.sendall(b"CONNECT ")
    except OSError:
        break
    held.append(client)
print("connections held:", len(held))
for client in held:
    client.close()
inside, answers = [], 0
for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1",
             "169.254.169.254", "metadata.google.internal", "localhost.", "\x1b]52;c;ZXZpbA==\x07"):  # fmt: skip
    answer = say(f"CONNECT {host}:{PORT} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answers += answer.startswith(b"HTTP/1.1 ")
    if answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
        inside.append(host)
print("answers:", answers)
print("reached on the host:", inside)
direct = []
for address in (("127.0.0.1", PORT), ("10.0.0.1", 80), ("169.254.169.254", 80)):
    with contextlib.suppress(OSError), socket.create_connection(address, 1):
        direct.append(address)
print("reached without the gateway:", direct)
print("did gateway")
