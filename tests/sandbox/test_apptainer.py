"""How a command over an image is written, and what is refused, with stand-ins for the runtime; the real one is in
`tests/apptainer`."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox import apptainer, devices, runtime
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import BEGAN, Bind, Command, Request, began_file, passed, stamp

HELP = "\n".join(f"      {flag} string   words" for flag in (*runtime._NEEDED, "--no-eval"))
Stub = Callable[..., Path]


@pytest.fixture(autouse=True)
def normal_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 2001)


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    """A runtime that answers, and notes what it was started with."""
    place = tmp_path / "bin"
    place.mkdir()

    def make(name: str = "apptainer", version: str = "apptainer version 1.4.5", **more: str) -> Path:
        path = place / name
        flags = more.get("help", HELP)
        path.write_text(
            f'#!/bin/sh\ncase "$*" in\n"--version") echo "{version}";;\n"exec --help") cat <<"END"\n{flags}\nEND\n;;\n'
            f'*) echo "$*" >>{place}/starts; {more.get("start", START)};;\nesac\n'
        )
        path.chmod(0o755)
        return path

    return make


START = 'printf "/opt/bin:/usr/bin\\n/usr/bin/python3\\n/bin/bash\\n"'


def request(tmp_path: Path, *argv: str, **more: Any) -> Request:
    home = tmp_path / "home"
    (home / "task").mkdir(parents=True, exist_ok=True)
    return Request(argv or ("bash", "x"), home, "task", **{"scratch": tmp_path / "scratch", **more})


def sandbox(tmp_path: Path, executable: Path, **more: Any) -> Apptainer:
    image = tmp_path / "standard-0123456789ab.sif"
    image.touch()
    return Apptainer(image, executable=str(executable), scratch=tmp_path, **more)


def binds(command: Command) -> dict[str, str]:
    words = command.argv
    pairs = [words[n + 1].split(":", 1) for n, word in enumerate(words) if word == "--bind"]
    return {target: source for source, target in pairs}


def test_the_command(stub: Stub, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    box = sandbox(tmp_path, stub())
    asked = request(tmp_path, binds=(Bind(model, "/opt/ptb/base_model"),), env={"PATH": "/usr/bin", "KEY": "s3cret"})
    command = box.command(asked)
    words = list(command.argv)
    assert words[1:13] == [
        *("-q", "exec", "--cleanenv", "--no-eval", "--contain", "--no-mount", "hostfs", "--pid", "--ipc"),
        *("--net", "--network", "none"),
    ]
    assert words[words.index("--home") + 1] == f"{tmp_path}/home:/home/ben"
    assert words[words.index("--pwd") + 1] == "/home/ben/task"
    assert words[words.index("--overlay") + 1 : words.index("--overlay") + 3] == [
        str(tmp_path / "scratch" / "overlay"),
        str(box.image),
    ]
    assert binds(command) == {
        "/tmp": f"{tmp_path}/scratch/tmp",
        "/var/tmp": f"{tmp_path}/scratch/tmp",
        "/run/ptb/began": f"{tmp_path}/scratch/began",
        "/opt/ptb/base_model:ro": str(model),
    }
    assert words[-2:] == ["bash", "x"] and command.env["APPTAINERENV_KEY"] == "s3cret"
    assert command.limits == {"RLIMIT_NPROC": 4096} and command.network == "none" and command.began
    assert not {"--env", "--env-file", "--no-init", "--writable-tmpfs", "--nv"} & set(words)
    assert not [word for word in words if "s3cret" in word]
    assert box.path() == ("/opt/bin", "/usr/bin") and box.python() == "/usr/bin/python3"


def test_nothing_of_the_operator_s_environment_goes_along(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("APPTAINER_BIND", "APPTAINERENV_X", "SINGULARITY_BINDPATH", "HTTPS_PROXY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "/etc")
    command = sandbox(tmp_path, stub()).command(request(tmp_path, env={"A": "b"}))
    assert set(command.env) == {"PATH", "HOME", "LANG", "APPTAINER_TMPDIR", "APPTAINERENV_A"}


def test_networks(stub: Stub, tmp_path: Path) -> None:
    box = sandbox(tmp_path, stub())
    assert "--net" not in box.command(request(tmp_path, network="full")).argv
    (tmp_path / "gw").mkdir()
    socket = tmp_path / "gw" / "gateway.sock"
    command = box.command(request(tmp_path, network="gateway", gateway_socket=socket, reach=(8123,)))
    assert command.argv[command.argv.index("ptb") + 1 :] == (
        *("/usr/bin/python3", "-I", "-S", "/run/ptb/forwarder.py", "--socket", "/run/ptb/gateway/gateway.sock"),
        *("--port", "3128", "--reach", "8123", "--", "bash", "x"),
    )
    assert binds(command)["/run/ptb/gateway:ro"] == str(socket.parent)
    assert command.env["APPTAINERENV_HTTPS_PROXY"] == "http://127.0.0.1:3128" and command.network == "gateway"


def test_where_network_namespaces_are_refused(stub: Stub, tmp_path: Path) -> None:
    refusing = f'case "$*" in *"--network none"*) echo "FATAL: network refused" >&2; exit 255;; esac; {START}'
    box = sandbox(tmp_path, stub(start=refusing))
    socket = tmp_path / "gw" / "gateway.sock"
    more: dict[str, Any] = {"network": "gateway", "gateway_socket": socket}
    for asked in (request(tmp_path), request(tmp_path, **more)):
        with pytest.raises(StepError, match="namespace") as caught:
            box.command(asked)
        assert caught.value.cause == "sandbox"
    command = box.command(request(tmp_path, open_network=True, **more))
    assert command.network == "open" and any(note.startswith("open network") for note in command.notes)
    assert "--net" not in command.argv and "APPTAINERENV_HTTPS_PROXY" not in command.env


def test_gpus(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (dev / name).touch()
    monkeypatch.setattr(devices, "DEV", dev)
    monkeypatch.setattr(devices, "nodes", lambda gpus: ((dev / "nvidiactl", dev / "nvidia1"), True))
    command = sandbox(tmp_path, stub()).command(request(tmp_path, gpus=("GPU-b",)))
    assert "--nv" in command.argv and command.env["APPTAINERENV_CUDA_VISIBLE_DEVICES"] == "GPU-b"
    assert "every GPU" in command.notes[0] and "LD_LIBRARY_PATH" not in command.argv[command.argv.index("-c") + 1]


def test_singularity(stub: Stub, tmp_path: Path) -> None:
    without = HELP.replace("--no-eval", "--no-such")
    path = stub("singularity", "singularity-ce version 3.11.4", help=without)
    box = sandbox(tmp_path, path, name="singularity")
    command = box.command(request(tmp_path, env={"PROMPT": "$(id)\n", "HOME": "/home/ben"}))
    assert "--no-eval" not in command.argv and box.probe() == (True, f"{path} 3.11.4")
    given = command.env["SINGULARITYENV_PTB64_PROMPT"]
    assert base64.b64decode(given) == b"$(id)\n" and not [name for name in command.env if name.startswith("APPT")]
    assert command.prefix == "SINGULARITYENV_PTB64_" and command.encoded
    assert passed({"KEY": "v"}, command.prefix, command.encoded) == {"SINGULARITYENV_PTB64_KEY": "dg=="}


@pytest.mark.parametrize(
    ("name", "version", "lacking"),
    [("singularity", "singularity version 3.0.1", "--pwd"), ("apptainer", "apptainer version 1.0.0-rc.1", "--no-eval")],
)
def test_a_version_that_lacks_a_flag_is_refused_in_one_line(
    stub: Stub, tmp_path: Path, name: str, version: str, lacking: str
) -> None:
    path = stub(name, version, help="\n".join(line for line in HELP.splitlines() if lacking not in line))
    works, words = sandbox(tmp_path, path, name=name).probe()
    assert not works and "\n" not in words
    assert f"{path} is {name} {version.split()[-1]}, which lacks {lacking}: install a newer one" in words


def test_probes_that_fail_say_why(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "package `apptainer`" in Apptainer(tmp_path / "x.sif", executable="").probe()[1]
    assert "does not say that it is" in sandbox(tmp_path, stub("odd", "hello")).probe()[1]
    assert "no image" in Apptainer(None, executable=str(stub("one"))).probe()[1]
    missing = Apptainer(tmp_path / "gone.sif", executable=str(stub("two")))
    with pytest.raises(StepError) as caught:
        missing.command(request(tmp_path))
    assert caught.value.cause == "image_missing"
    failing = "echo 'INFO: words' >&2; echo 'FATAL: fuse: failed to open /dev/fuse' >&2; exit 255"
    box = sandbox(tmp_path, stub("three", start=failing))
    works, words = box.probe()
    assert not works and "INFO" not in words and "apptainer build --sandbox" in words
    starts = (tmp_path / "bin" / "starts").read_text()
    box.probe()
    assert (tmp_path / "bin" / "starts").read_text() == starts, "a failure is not repeated at once"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "normal user" in box.probe()[1]


def test_an_image_is_started_once(stub: Stub, tmp_path: Path) -> None:
    box = sandbox(tmp_path, stub())
    for _ in range(3):
        box.command(request(tmp_path))
    assert (tmp_path / "bin" / "starts").read_text().count("exec --cleanenv") == 1
    assert not list(tmp_path.glob("ptb-image-*"))


MOUNTS = """\
198 90 0:42 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw
207 198 0:40 /dev /dev rw,relatime master:30 - tmpfs tmpfs rw
211 207 0:81 /null /dev/null rw,relatime master:9 - tmpfs dev rw
217 198 0:77 /usr/share/zoneinfo/Etc/UTC /etc/localtime rw master:2 - overlay root rw
218 198 0:45 / /proc rw - proc proc rw
219 198 0:80 / /sys rw master:8 - sysfs sysfs rw
220 198 0:40 /home/alice /home/alice rw master:30 - tmpfs tmpfs rw
221 198 0:40 /tmp /tmp rw master:30 - tmpfs tmpfs rw
225 198 0:40 /etc/group /etc/group rw master:30 - tmpfs tmpfs rw
226 198 8:1 /usr/bin/nvidia-smi /usr/bin/nvidia-smi rw - ext4 /dev/sda1 rw
227 198 8:1 /usr/lib/libcuda.so.1 /.singularity.d/libs/libcuda.so.1 rw - ext4 /dev/sda1 rw
"""
HOST = "228 198 0:51 / /shared rw master:14 - nfs4 server:/shared rw\n229 198 8:2 / /home rw - ext4 /dev/sda2 rw\n"


def test_folders_of_the_host_inside_are_refused_in_one_line(stub: Stub, tmp_path: Path) -> None:
    def start(mounts: str) -> str:
        return f"{START}; cat <<'END'\n{mounts}END\n"

    assert sandbox(tmp_path, stub(start=start(MOUNTS))).probe()[0]
    path = stub("other", start=start(MOUNTS + HOST))
    works, words = sandbox(tmp_path, path).probe()
    assert not works and "\n" not in words and "shows folders of this machine inside: /home, /shared" in words


def test_the_beginning_is_told_on_a_disk_without_room(tmp_path: Path) -> None:
    """A write of one byte fails here as it does on a full disk."""
    began = began_file(tmp_path / "scratch")
    before = stamp(began)
    script = "ulimit -f 0; trap '' XFSZ; " + apptainer._script({}, True, False).replace(BEGAN, str(began))
    subprocess.run(["/bin/sh", "-c", script, "ptb", "true"], check=True, env={"PATH": "/usr/bin:/bin"})
    assert stamp(began) > before and began.read_bytes() == b""


def test_without_squashfuse_the_folder_beside_it_is_used(stub: Stub, tmp_path: Path) -> None:
    slow = f'case "$*" in *.sif*) echo "INFO: Converting SIF file to temporary sandbox" >&2;; esac; {START}'
    box = sandbox(tmp_path, stub(start=slow))
    assert "squashfuse is missing" in box.command(request(tmp_path)).notes[0]
    other = tmp_path / "other"
    (other / "img").mkdir(parents=True)
    (other / "img.sif").touch()
    box = Apptainer(other / "img.sif", executable=str(stub("again", start=slow)), scratch=tmp_path)
    command = box.command(request(tmp_path))
    assert "runs from" in command.notes[0] and str(other / "img") in command.argv


def test_bad_requests_are_refused(stub: Stub, tmp_path: Path) -> None:
    box = sandbox(tmp_path, stub())
    odd = tmp_path / "a:b"
    odd.mkdir()
    for asked, words in (
        (request(tmp_path, scratch=None), "folder"),
        (request(tmp_path, env={"a.b": "x"}), "shell"),
        (request(tmp_path, env={"HOME": "/root"}), "HOME"),
        (request(tmp_path, binds=(Bind(odd, "/x"),)), "cannot be shown"),
        (request(tmp_path, binds=(Bind(tmp_path / "absent", "/x"),)), "have to exist"),
        (request(tmp_path, network="gateway"), "socket"),
        (request(tmp_path, gpus=("99",)), "GPU"),
    ):
        with pytest.raises(StepError, match=words) as caught:
            box.command(asked)
        assert caught.value.cause == "sandbox"


def test_what_an_image_lacks_is_said_before_the_agent_s_hours(stub: Stub, tmp_path: Path) -> None:
    box = sandbox(tmp_path, stub(start='printf "/usr/bin\\n\\n\\n"'))
    with pytest.raises(StepError, match="no bash"):
        box.command(request(tmp_path))
    with pytest.raises(StepError, match="no python3"):
        box.python()


def test_the_host_s_interpreter(stub: Stub, tmp_path: Path) -> None:
    place = tmp_path / "python"
    place.mkdir()
    box = sandbox(tmp_path, stub(), prefixes=(place,))
    assert binds(box.command(request(tmp_path)))[f"{place}:ro"] == str(place)
    with pytest.raises(StepError, match="part of this system"):
        sandbox(tmp_path, stub(), prefixes=(Path("/usr"),)).command(request(tmp_path))


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True).filter(
            lambda name: name not in ("PATH", "_", "IFS", "PWD")
        ),
        st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), max_size=40),
        max_size=4,
    )
)
def test_encoded_values_come_out_as_they_went_in(env: dict[str, str]) -> None:
    """The script that unpacks them, in the shell of this machine."""
    outer = passed({"PATH": "/usr/bin:/bin", **env}, apptainer._ENCODED, True) | {"PATH": "/usr/bin:/bin"}
    words = ["/bin/sh", "-c", apptainer._DECODE + 'exec "$@"', "ptb", "env", "-0"]
    done = subprocess.run(words, env=outer, capture_output=True, check=True)
    found = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    found.pop("PWD", None)
    assert found == {"PATH": "/usr/bin:/bin", **env}
