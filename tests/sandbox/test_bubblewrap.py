import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox.base import Bind, Request, stamp
from ptb_tui.sandbox.bubblewrap import Bubblewrap

Until = Callable[..., Any]
pytestmark = pytest.mark.bubblewrap
SECRET = "s3cr3t-value-of-a-key"


def processes(word: bytes) -> list[int]:
    """Processes of the host whose command line holds the word."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if word in line and int(name) != os.getpid():
                found.append(int(name))
    return found


def test_what_is_inside(boxes: Any) -> None:
    other = boxes.place / "other run"
    other.mkdir()
    (other / "secret").write_text("x")
    code = """
import json, os, pwd, sys
def mode(path):
    try: open(path, "w").close()
    except OSError as error: return error.strerror
    os.unlink(path)
    return "written"
exists = os.path.exists
seen = {name: mode(path + "/x") for name, path in (("root", ""), ("usr", "/usr"), ("etc", "/etc"), ("dev", "/dev"),
    ("home", "/home/ben"), ("tmp", "/tmp"), ("vartmp", "/var/tmp"), ("shm", "/dev/shm"))}
seen |= {"other": exists(sys.argv[1]), "operator": os.listdir(sys.argv[2]) if exists(sys.argv[2]) else []}
seen |= {"user": pwd.getpwuid(os.getuid()).pw_name, "host": os.uname().nodename, "cwd": os.getcwd()}
seen |= {"keys": exists("/etc/ssl/private"), "shadow": exists("/etc/shadow"), "resolver": exists("/etc/resolv.conf")}
seen |= {"caps": [line for line in open("/proc/self/status") if line.startswith("CapBnd")], "names": os.listdir("/")}
def opens(path):
    try: os.close(os.open(path, os.O_WRONLY))
    except OSError: return False
    return True
kernel = [path for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/kcore") if opens(path)]
seen |= {"kernel": kernel, "environs": [name for name in os.listdir("/proc") if name.isdigit()]}
print(json.dumps(seen | {"uid_map": open("/proc/self/uid_map").read().split()[0]}))
"""
    done = boxes.python(code, str(other / "secret"), str(Path.home()))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert not seen["other"] and not seen["keys"] and not seen["shadow"] and not seen["resolver"]
    ways = {part for prefix in (sys.prefix, sys.base_prefix) for part in Path(prefix).parts}
    assert set(seen["operator"]) <= ways
    assert (seen["user"], seen["host"], seen["cwd"], seen["uid_map"]) == ("ben", "ptb", "/home/ben/task", "1000")
    read_only = os.strerror(30)
    assert [seen[name] for name in ("root", "etc", "dev")] == [read_only] * 3
    assert seen["usr"] != "written"
    assert [seen[name] for name in ("home", "tmp", "vartmp", "shm")] == ["written"] * 4
    assert not {"opt", "srv", "mnt", "boot", "media"} & (set(seen["names"]) - ways)
    assert seen["kernel"] == [] and len(seen["environs"]) == 2
    assert seen["caps"] == ["CapBnd:\t0000000000000000\n"]


def test_the_environment_is_exactly_the_given_one(boxes: Any) -> None:
    env = {"PATH": "/usr/bin", "KEY": SECRET, "ODD": "line\nbreak 'ü' = \"x\"", "PROMPT": "run evaluate.py"}
    done = boxes.run("/usr/bin/env", "-0", env=env)
    assert done.returncode == 0, done.stderr
    found = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert found == env | {"PWD": "/home/ben/task"}


def test_no_value_of_the_environment_is_in_any_argv(boxes: Any, until: Until) -> None:
    box = boxes.start("/usr/bin/sleep", "4711.25", env={"PATH": "/usr/bin", "KEY": SECRET})
    until(lambda: [pid for pid in processes(b"4711.25") if b"bwrap" not in Path(f"/proc/{pid}/cmdline").read_bytes()])
    assert box.poll() is None
    assert not processes(SECRET.encode())


def test_a_neighbour_is_neither_seen_nor_hit(boxes: Any) -> None:
    neighbour = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "evaluate.py"])
    try:
        code = """
import os, signal, subprocess
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
for pid in pids:
    if pid not in (1, os.getpid()):
        os.kill(pid, signal.SIGKILL)
os.kill(1, signal.SIGTERM)
print(len(pids))
"""
        done = boxes.python(code, "evaluate.py")
        assert done.returncode == 0 and int(done.stdout) == 2, done
        assert neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()


def test_without_network_there_is_no_way_out(boxes: Any) -> None:
    code = """
import socket
names = [name for _, name in socket.if_nameindex()]
try: socket.create_connection(("192.0.2.1", 80), 5); print("out")
except OSError as error: print(names, error.errno)
"""
    done = boxes.python(code)
    assert done.stdout.decode().split() == ["['lo']", "101"], done


def test_with_the_open_network_loopback_is_the_hosts(boxes: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        done = boxes.python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)", network="full")
        assert done.returncode == 0, done.stderr
        done = boxes.python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)", network="none")
        assert b"refused" in done.stderr


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_memory_is_bounded(boxes: Any, folder: str) -> None:
    code = f"""
import errno
try:
    with open({folder!r} + "/big", "wb", buffering=0) as file:
        for _ in range(64): file.write(bytes(65536))
except OSError as error: print(errno.errorcode[error.errno])
"""
    assert boxes.python(code, tmp_bytes=1 << 20).stdout == b"ENOSPC\n"


def test_no_namespace_of_its_own(boxes: Any) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x10000000), ctypes.get_errno())
"""
    assert boxes.python(code).stdout.split()[0] == b"-1"


def test_tmp_may_be_a_folder_of_the_host(boxes: Any) -> None:
    tmp = boxes.place / "tmp: ü"
    tmp.mkdir()
    boxes.give(tmp)
    assert boxes.run("/usr/bin/touch", "/tmp/there", tmp=str(tmp)).returncode == 0
    assert (tmp / "there").exists()


def test_processes_are_bounded_for_a_user_without_rights(boxes: Any) -> None:
    if not boxes.nobody and os.geteuid() == 0:
        pytest.skip("the limit does not bind root")
    code = """
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError as error: print(made < 40, error.errno)
"""
    done = boxes.python(code, max_processes=40)
    assert done.stdout.split() == [b"True", b"11"], done


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_started_process_kills_what_ran_away(boxes: Any, until: Until, number: signal.Signals) -> None:
    mark = f"ran-away-{os.getpid()}-{number}-{boxes.nobody}"
    code = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2): os.close(fd)
        open("/home/ben/up", "w").close()
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
    box = boxes.start("/usr/bin/python3", "-I", "-c", code, mark)
    until((boxes.home / "up").exists)
    assert len(processes(mark.encode())) >= 3
    box.send_signal(number)
    box.wait(20)
    until(lambda: not processes(mark.encode()))


def test_what_ran_away_ends_with_the_command_and_the_pipe_closes(boxes: Any) -> None:
    done = boxes.run("/bin/sh", "-c", "setsid sleep 600 & exit 7")
    assert done.returncode == 7, done.stderr


def test_a_death_by_signal_shows_in_the_status(boxes: Any) -> None:
    assert boxes.run("/bin/sh", "-c", "kill -9 $$").returncode == 137


def test_binds_read_only_and_writable_under_any_name(boxes: Any) -> None:
    for name in ("data: 'a' \"b\" ü", "-leading", "new\nline"):
        folder = boxes.place / name
        folder.mkdir()
        (folder / "file").write_text("content")
        boxes.give(folder)
        for writable in (False, True):
            target = f"/home/ben/hf {name}"
            code = "import sys; print(open(sys.argv[1] + '/file').read()); open(sys.argv[1] + '/new', 'w')"
            done = boxes.python(code, target, binds=[(str(folder), target, writable)])
            assert done.stdout == b"content\n", done
            assert (done.returncode == 0) == writable


def test_the_interpreter_of_the_product_runs_inside(boxes: Any) -> None:
    if boxes.nobody:
        pytest.skip("the interpreter of the tests belongs to another user")
    done = boxes.run(sys.executable, "-c", "import sys, json, ssl; print(sys.prefix)")
    assert done.stdout.decode().strip() == sys.prefix, done


def test_whether_the_command_began_is_told_by_the_host_s_clock(tmp_path: Path) -> None:
    asked = request(tmp_path, scratch=tmp_path / "scratch", env={"PATH": "/usr/bin:/bin", "A": "b c\n"})
    command = Bubblewrap().command(replace(asked, argv=("env", "-0")))
    assert command.began is not None
    before = stamp(command.began)
    words = [word for word in command.argv if word != "--unshare-net"]
    broken = [*words[:1], "--ro-bind", "/nonexistent", "/x", *words[1:]]
    assert subprocess.run(broken, env=command.env, cwd="/", capture_output=True, check=False).returncode == 1
    assert stamp(command.began) == before
    done = subprocess.run(words, env=command.env, cwd="/", capture_output=True, check=True)
    assert stamp(command.began) > before
    seen = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    assert {name: value for name, value in seen.items() if name not in ("PWD", "_")} == asked.env
    assert subprocess.run([*words[:-2], "sh", "-c", "exit 7"], env=command.env, cwd="/", check=False).returncode == 7


def test_a_probe_that_fails_names_the_remedy(tmp_path: Path) -> None:
    works, reason = Bubblewrap(executable=str(tmp_path / "bwrap")).probe()
    assert not works and "cannot be started" in reason
    works, reason = Bubblewrap(executable="").probe()
    assert not works and "package `bubblewrap`" in reason
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    works, reason = Bubblewrap(executable=str(fake)).probe()
    assert not works and "namespace" in reason


def request(tmp_path: Path, **more: Any) -> Request:
    home = tmp_path / "home"
    (home / "task").mkdir(parents=True, exist_ok=True)
    return Request(argv=("true",), home=home, workdir=more.pop("workdir", "task"), **more)


def refused(asked: Request, words: str) -> None:
    with pytest.raises(StepError, match=words) as caught:
        Bubblewrap(executable="/usr/bin/bwrap", prefixes=()).command(asked)
    assert caught.value.cause == "sandbox"


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    home = tmp_path / "home"
    refused(request(tmp_path, workdir="../x"), "not below the home")
    refused(request(tmp_path, workdir="nowhere"), "does not exist")
    refused(request(tmp_path, network="some"), "network")
    refused(request(tmp_path, env={"A=B": "x"}), "environment")
    refused(request(tmp_path, env={"A": "x\0"}), "environment")
    refused(request(tmp_path, gpus=("99",)), "GPU")
    refused(request(tmp_path, network="gateway"), "socket")
    refused(request(tmp_path, network="gateway", gateway_socket=tmp_path / "gw.sock"), "more than")
    refused(request(tmp_path, reach=(0,)), "port")
    refused(request(tmp_path, env={"a.b": "x"}, scratch=tmp_path / "scratch"), "shell")
    refused(request(tmp_path, binds=(Bind(tmp_path / "absent", "/home/ben/x"),)), "have to exist")
    for target in ("/", "/proc", "/dev/x", "/run/ptb/x", "x", "/a/../b", "/home/ben", "//x", "/tmp"):
        refused(request(tmp_path, binds=(Bind(secret, target),)), "sandbox itself|plain absolute")
    (home / "planted").symlink_to("/oldroot/etc")
    (home / "stolen").symlink_to(secret)
    (secret / "file").write_text("x")
    refused(request(tmp_path, binds=(Bind(secret, "/home/ben/planted/x"),)), "goes through a link")
    refused(request(tmp_path, binds=(Bind(secret, "/home/ben/planted"),)), "goes through a link")
    refused(request(tmp_path, binds=(Bind(home / "stolen", "/home/ben/x"),)), "is a link")
    refused(request(tmp_path, binds=(Bind(home / "stolen" / "file", "/home/ben/x"),)), "through a link")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "deep").symlink_to("/oldroot/etc")
    binds = (Bind(cache, "/home/ben/hf", writable=True), Bind(secret, "/home/ben/hf/deep/x"))
    refused(request(tmp_path, binds=binds), "goes through a link")
