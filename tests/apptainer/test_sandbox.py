"""What a command finds in a real container, and what it cannot do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import HOME, Bind, stamp
from ptb_tui.sandbox.image import examine
from tests.apptainer.conftest import IMAGE, PATH, Boxes, until

pytestmark = pytest.mark.apptainer
SECRET = "s3cr3t-value-of-a-key"
ODD = "run $(id >&2; echo evaluated) `id` ${HOME} $HOME \\ \\\\ \"double\" 'single' = a=b,c=d\n\ttab\n# last line\n\n"


def test_the_environment_is_exactly_the_given_one(either: Boxes) -> None:
    env = {
        "PATH": "/usr/bin:/home/ben/a b:$(id)",
        "HOME": HOME,
        "PROMPT": ODD,
        "KEY": SECRET,
        "EMPTY": "",
        "SPACES": "  x  ",
        "ü_is_not": "",
        "LD_LIBRARY_PATH": "/opt/lib",
        "HTTP_PROXY": "http://x:1",
        "BINARY": os.fsdecode(b"\xff\xfe"),
        "PREPEND_PATH_": "x",
        "LONG": "x" * 60000,
    }
    del env["ü_is_not"]
    done = either.run("env", "-0", env=env)
    assert done.returncode == 0 and not done.stderr, done.stderr
    found = dict(item.split("=", 1) for item in os.fsdecode(done.stdout).split("\0") if item)
    assert found == env | {"PWD": f"{HOME}/task"}


def test_names_that_no_shell_can_pass_are_refused(boxes: Boxes) -> None:
    for env in ({"a.b": "x"}, {"ü": "x"}, {"1": "x"}, {"HOME": "/root"}):
        with pytest.raises(StepError, match=r"passed|HOME"):
            boxes.command("true", env=env)


def test_words_arrive_unchanged(either: Boxes) -> None:
    words = ["", " ", ODD, "$(id)", "-x", "--", "*", "a\tb", "'", '"', "ü"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    done = either.python(code, *words)
    assert json.loads(done.stdout) == words, done


def test_no_value_is_in_any_command_line(either: Boxes) -> None:
    box = either.start("sleep", "4711.25", env={"PATH": PATH, "KEY": SECRET})

    def lines() -> dict[str, bytes]:
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                found[name] = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
        return found

    until(lambda: b"sleep\x004711.25\0" in lines().values(), "the command runs")
    assert box.poll() is None
    assert not [line for line in lines().values() if SECRET.encode() in line or b"czNjcjN0" in line]


def test_what_is_inside(boxes: Boxes) -> None:
    code = """
import json, os, sys
seen = {"pids": [name for name in os.listdir("/proc") if name.isdigit()], "cwd": os.getcwd()}
seen["home"] = os.listdir("/home")
seen["caps"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))]
seen["shm"] = os.statvfs("/dev/shm").f_blocks > 0
seen["other"] = [path for path in sys.argv[1:] if os.path.exists(path)]
print(json.dumps(seen))
"""
    secret = boxes.place / "secret"
    secret.write_text("x")
    done = boxes.python(code, str(secret), str(Path.home() / ".bashrc"), str(REPOSITORY_FILE), "/opt/runtime")
    seen = json.loads(done.stdout)
    assert (seen["cwd"], seen["home"], seen["other"]) == (f"{HOME}/task", ["ben"], []), done
    assert len(seen["pids"]) == 2 and set(seen["caps"]) == {"0" * 16} and seen["shm"]


REPOSITORY_FILE = Path(__file__)


def test_a_site_that_mounts_its_file_systems_into_containers(boxes: Boxes) -> None:
    """`mount hostfs = yes`; only an installation without setuid takes another configuration from a user."""
    settings = Path("/etc/apptainer/apptainer.conf")
    if not settings.is_file():
        pytest.skip(f"no {settings}")
    conf = boxes.place / "open.conf"
    conf.write_text(settings.read_text().replace("mount hostfs = no", "mount hostfs = yes"))
    start = f'exec {boxes.sandbox.runtime} $conf "$@"\n'
    keeps = boxes.place / "keeps"
    keeps.write_text(f'#!/bin/sh\ncase "$*" in *--overlay*) conf="-c {conf}";; esac\n{start}')
    drops = boxes.place / "drops"
    drops.write_text(
        f'#!/bin/sh\ncase "$*" in *--overlay*) conf="-c {conf}";; esac\nfor word; do shift\n'
        f'case "$word" in --no-mount|hostfs) ;; *) set -- "$@" "$word";; esac; done\n{start}'
    )
    for stub in (keeps, drops):
        stub.chmod(0o755)
    works, words = Apptainer(IMAGE, executable=str(drops)).probe()
    if works:
        pytest.skip("this installation has no file systems to show")
    assert "shows folders of this machine inside: " in words and "\n" not in words, words
    boxes.sandbox = Apptainer(IMAGE, executable=str(keeps))
    assert boxes.sandbox.probe()[0]
    done = boxes.run("cat", "/proc/self/mountinfo")
    points = [line.split()[4] for line in done.stdout.decode().splitlines()]
    assert "/proc" in points and not {"/shared", "/opt/images", "/quota"} & set(points), points


def test_a_neighbour_is_neither_seen_nor_hit(boxes: Boxes) -> None:
    neighbour = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "evaluate.py"])
    try:
        done = boxes.run("bash", "-c", "pkill -9 -f evaluate.py; kill -9 -1; true")
        assert done.returncode in (0, 137, -9), done
        assert neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()


def test_the_image_can_be_changed_and_tmp_is_large(boxes: Boxes) -> None:
    script = (
        "head -c 100M /dev/zero >/opt/big && head -c 100M /dev/zero >/tmp/big && echo x >/usr/bin/new "
        "&& rm /usr/bin/git && rm -r /usr/share/doc && stat -c %s /opt/big /var/tmp/big"
    )
    done = boxes.run("bash", "-c", script)
    assert done.stdout.split() == [b"104857600"] * 2, done
    again = boxes.run("bash", "-c", "ls /opt/big; command -v git; cat /usr/bin/new")
    assert again.stdout.split() == [b"/opt/big", b"x"], "the changes belong to the step"
    assert sorted(path.name for path in boxes.scratch.iterdir()) == ["began", "overlay", "tmp"]


def test_binds(boxes: Boxes) -> None:
    """Places that the image and the home do not have, files and folders, and a shared cache that stays as it is."""
    place = boxes.place
    for name in ("model", "cache", "out"):
        (place / name).mkdir()
        (place / name / "file").write_text(name)
    binds = (
        Bind(place / "model", "/opt/ptb/base_model"),
        Bind(place / "model" / "file", "/srv/deep/er/one.txt"),
        Bind(place / "cache", "/home/ben/hf_cache"),
        Bind(place / "model", "/home/ben/task/final_model"),
        Bind(place / "out", "/out", writable=True),
    )
    script = (
        "cat /opt/ptb/base_model/file /srv/deep/er/one.txt /home/ben/hf_cache/file final_model/file; "
        "for f in /opt/ptb/base_model/x /srv/deep/er/one.txt /home/ben/hf_cache/hub final_model/file; "
        "do (echo x >$f) 2>/dev/null && echo $f written; done; echo new >/out/file"
    )
    done = boxes.run("bash", "-c", script, binds=binds)
    assert done.stdout == b"modelmodelcachemodel", done
    assert [(place / name / "file").read_text() for name in ("model", "cache", "out")] == ["model", "cache", "new\n"]
    assert os.listdir(place / "cache") == ["file"]


def test_without_network_there_is_only_loopback(boxes: Boxes) -> None:
    code = """
import socket, sys
print([name for _, name in socket.if_nameindex()])
for host in ("192.0.2.1", "127.0.0.1"):
    try: socket.create_connection((host, int(sys.argv[1])), 5); print("out")
    except OSError as error: print(error.errno)
"""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        done = boxes.python(code, port)
        assert done.stdout.decode().splitlines() == ["['lo']", "101", "111"], done
        full = boxes.python(code, port, network="full").stdout.decode()
        assert full.splitlines()[-1] == "out", "with the full network loopback is the host's"


def test_the_gateway_is_the_only_way_out(boxes: Boxes) -> None:
    place = boxes.place
    web = place / "web"
    web.mkdir()
    (web / "page").write_text("hello")
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "-d", str(web), "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    port = int(server.stdout.readline().split(b"port ")[1].split()[0])
    gateway = place / "gateway" / "gateway.sock"
    said = {"socket": str(gateway), "ledger": str(place / "egress.jsonl"), "allow": [], "also": [f"127.0.0.1:{port}"]}
    (place / "companion.json").write_text(json.dumps(said))
    companion = subprocess.Popen(
        [sys.executable, "-m", "ptb_tui", "companion", str(place)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY_FILE.parents[2])},
    )
    boxes.started += [server, companion]
    until(gateway.exists, "the gateway listens")
    code = """
import sys, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=20).read().decode())
    except OSError as error: print(getattr(error, "code", error))
"""
    more: dict[str, Any] = {"network": "gateway", "gateway_socket": gateway, "reach": (port,)}
    done = boxes.python(code, f"http://127.0.0.1:{port}/page", "http://198.51.100.7/", **more)
    assert done.stdout.decode().splitlines() == ["hello", "403"], done
    ledger = (place / "egress.jsonl").read_text()
    assert "198.51.100.7" in ledger and f'"port":{port}' in ledger.replace(" ", "")


def test_processes_are_bounded(boxes: Boxes) -> None:
    code = """
import os
made = 0
try:
    for _ in range(200):
        if os.fork() == 0: os.pause() if hasattr(os, "pause") else __import__("signal").pause()
        made += 1
except OSError as error: print(error.errno == 11, made < 40)
os.kill(-1, 9)
"""
    done = boxes.run("python3", "-u", "-c", code, max_processes=40)
    assert done.stdout.split() == [b"True", b"True"], done


def test_the_exit_status_is_the_command_s(boxes: Boxes) -> None:
    assert boxes.run("bash", "-c", "exit 7").returncode == 7
    assert boxes.run("bash", "-c", "kill -9 $$").returncode in (137, -signal.SIGKILL)
    missing = boxes.run("no-such-program")
    assert missing.returncode == 127 and b"no-such-program" in missing.stderr


def test_whether_the_command_began_is_told_by_the_host_s_clock(boxes: Boxes) -> None:
    command = boxes.command("bash", "-c", ": >/run/ptb/began; rm -f /run/ptb/began; touch -d 1990-01-01 /run/ptb/began")
    assert command.began is not None
    before = stamp(command.began)
    assert subprocess.run(command.argv, env=command.env, cwd="/", capture_output=True, check=False).returncode == 0
    assert stamp(command.began) > before
    before = stamp(command.began)
    broken = [word if word != str(IMAGE) else "/nonexistent.sif" for word in command.argv]
    assert subprocess.run(broken, env=command.env, cwd="/", capture_output=True, check=False).returncode == 255
    assert stamp(command.began) == before


def test_what_is_known_of_the_image(boxes: Boxes) -> None:
    sandbox = boxes.sandbox
    assert "/usr/bin" in sandbox.path() and sandbox.python() == "/usr/bin/python3"
    host = Apptainer(IMAGE, prefixes=(Path(sys.prefix), Path(sys.base_prefix)))
    assert host.path()[0] == os.path.dirname(sys.executable) and host.python() == sys.executable


def test_the_interpreter_of_the_host_runs_inside(boxes: Boxes) -> None:
    if Path(sys.base_prefix) == Path("/usr"):
        pytest.skip("the interpreter of the tests is the system's")
    boxes = Boxes(boxes.place / "again", Apptainer(IMAGE, prefixes=(Path(sys.prefix), Path(sys.base_prefix))))
    done = boxes.run(sys.executable, "-c", "import json, ssl, sys; print(sys.prefix)")
    assert done.stdout.decode().strip() == sys.prefix, done


def test_an_unpacked_image_serves_where_the_file_does_not(boxes: Boxes) -> None:
    folder = IMAGE.with_suffix("")
    if not folder.is_dir():
        pytest.skip(f"there is no unpacked image {folder}")
    broken = boxes.place / "broken.sif"
    broken.write_text("no image")
    (boxes.place / "broken").symlink_to(folder)
    sandbox = Apptainer(broken)
    found = examine(*_runtime_and(sandbox, broken))
    assert found.place == broken.with_suffix("") and "runs from" in found.notes[0]
    boxes = Boxes(boxes.place / "again", sandbox)
    assert boxes.run("bash", "-c", "echo x >/opt/new; cat /opt/new").stdout in (b"x\n", b"")


def _runtime_and(sandbox: Apptainer, image: Path) -> tuple[Any, Path]:
    from ptb_tui.sandbox import runtime

    return runtime.look(sandbox.runtime), image
