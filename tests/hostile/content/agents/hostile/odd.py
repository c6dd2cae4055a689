"""Things that are no files, names that are no text, folders without a floor, a file larger than any disk."""

import contextlib
import os
import socket
import stat

NAMES = [b"new\nline", b"tab\there", b"bad\xff\xfebytes", b"\x1b[31mred\x1b]52;c;ZXZpbA==\x07", b"-rf", b" ", b"$(id)"]
NAMES += ["right\u202eleft".encode(), b"\x9b2J", b"a" * 255, b"'\"`;&|", b"%s%n", b"..."]
for folder in (b".", b"final_model"):
    for name in NAMES:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(name)
    os.mkfifo(os.path.join(folder, b"pipe"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(folder, b"socket"))
    with open(os.path.join(folder, b"huge.dat"), "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"middle")
made = []
for kind, number in ((stat.S_IFCHR, os.makedev(1, 3)), (stat.S_IFBLK, os.makedev(8, 0))):
    with contextlib.suppress(OSError):
        os.mknod(f"device-{kind}", kind | 0o666, number)
        made.append(kind)
print("devices made:", made)
here = os.getcwd()
for folder in ("deep", "final_model/deep"):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for _ in range(2000):
        os.mkdir("d" * 20)
        os.chdir("d" * 20)
    with open("bottom", "w") as file:
        file.write("down here")
    os.chdir(here)
os.chmod("final_model/config.json", 0o4755)
print("did odd")
