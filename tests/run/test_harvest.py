"""Harvest takes everything an agent may leave, and nothing else; it may be killed and run again (cases A05, A17)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.core.errors import StepError
from ptb_tui.evaluation import fingerprint
from ptb_tui.run import copying
from ptb_tui.run.copying import Limits
from ptb_tui.run.diagnostics import ExitFacts, time_taken
from ptb_tui.run.erasing import erase
from ptb_tui.run.harvest import HarvestReport, harvest, harvest_main
from tests.evaluation.models import model, safetensors

ENDED = ExitFacts(rc=0, elapsed_s=3723.9)
SMALL = Limits(files=50, bytes=1 << 20)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch" / "home"
    (folder / "task").mkdir(parents=True)
    (folder / "task" / "train.py").write_text("print('hi')")
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "method" / "run"
    (folder / ".ptb").mkdir(parents=True)
    return folder


def take(run_dir: Path, home: Path, task: Limits = SMALL, whole: Limits = SMALL) -> HarvestReport:
    return harvest(run_dir, home, exit_facts=ENDED, hours=1.0, model_limits=whole, task_limits=task)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def left_out(run_dir: Path, name: str = "task.json") -> dict[str, str]:
    return {entry["path"]: entry["why"] for entry in json.loads((run_dir / ".ptb" / name).read_text())["left_out"]}


def test_a_usual_run(run_dir: Path, home: Path) -> None:
    model(home / "task" / "final_model")
    (home / "cli_version.txt").write_text("cli: 1\n")
    report = take(run_dir, home)
    assert report.model == "present" and report.model_files == 4 and report.model_why == ""
    assert fingerprint.of_folder(run_dir / "final_model")[0] == report.model_digest
    manifest = json.loads((run_dir / ".ptb" / "final_model.json").read_text())
    assert manifest["digest"] == report.model_digest and manifest["left_out"] == []
    assert tree(run_dir / "task") == ["train.py"]
    assert (run_dir / "time_taken.txt").read_text() == "01:02:03\n"
    assert (run_dir / "cli_version.txt").read_text() == "cli: 1\nrecorded_by: agent\n"
    log = (run_dir / "output.log").read_text()
    assert "exit_code: 0\nstatus: exited normally\nfinal_model_files: 4\n" in log
    assert not [name for name in os.listdir(run_dir) if name.startswith(".") and name != ".ptb"]


def test_again_gives_the_same_and_never_nests(run_dir: Path, home: Path) -> None:
    model(home / "task" / "final_model")
    first = take(run_dir, home)
    before = tree(run_dir)
    assert take(run_dir, home) == first and tree(run_dir) == before
    assert (run_dir / "output.log").read_text().count("SOLVE DIAGNOSTICS ---\n") == 2


def test_a_former_copy_is_replaced_whole(run_dir: Path, home: Path) -> None:
    (run_dir / "final_model").mkdir()
    (run_dir / "final_model" / "stale.safetensors").write_bytes(b"old")
    (run_dir / "task").mkdir()
    (run_dir / "task" / "stale.py").write_text("old")
    (run_dir / ".final_model.partial").mkdir()
    (run_dir / ".final_model.partial" / "torn").write_bytes(b"x")
    model(home / "task" / "final_model")
    take(run_dir, home)
    assert not any("stale" in name or "torn" in name or "final_model/final_model" in name for name in tree(run_dir))


def test_another_model_never_slips_under_a_score(run_dir: Path, home: Path) -> None:
    model(home / "task" / "final_model")
    take(run_dir, home)
    (run_dir / "metrics.json").write_text('{"accuracy": 0.9}')
    take(run_dir, home)
    model(home / "task" / "final_model", extra__txt=b"changed")
    with pytest.raises(StepError, match="score of another model"):
        take(run_dir, home)
    assert not (run_dir / "final_model" / "extra.txt").exists()


@pytest.mark.parametrize("target", ["ckpt", "./x/../ckpt", "/home/ben/task/ckpt", "../task/ckpt", "HOST/task/ckpt"])
def test_a_link_to_a_folder_in_the_task_is_the_model(run_dir: Path, home: Path, target: str) -> None:
    model(home / "task" / "ckpt")
    (home / "task" / "x").mkdir()
    (home / "task" / "final_model").symlink_to(target.replace("HOST", str(home)))
    report = take(run_dir, home)
    assert report.model == "present" and report.model_files == 4
    assert not (run_dir / "final_model").is_symlink()
    folders = json.loads((run_dir / ".ptb" / "model_folders.json").read_text())["folders"]
    assert [folder["path"] for folder in folders] == ["ckpt"] and folders[0]["config_sha256"]


@pytest.mark.parametrize(
    "target", ["/etc", "../secret", "../../..", "gone", "final_model", ".", "train.py", "/home/ben"]
)
def test_a_model_link_that_leads_elsewhere_is_no_model(run_dir: Path, home: Path, target: str) -> None:
    model(home / "secret")
    (home / "task" / "final_model").symlink_to(target)
    report = take(run_dir, home)
    assert report.model == "absent" and report.model_why and not (run_dir / "final_model").exists()
    assert tree(run_dir / "task") == ["train.py"]


def test_links_in_the_model(run_dir: Path, home: Path) -> None:
    folder = model(home / "task" / "final_model", model__safetensors=None)
    blob = home / "task" / "blobs"
    blob.mkdir()
    (blob / "b1").write_bytes(safetensors())
    (home / "secret").write_text("token")
    (folder / "model.safetensors").symlink_to("../blobs/b1")
    (folder / "more").symlink_to("/home/ben/task/blobs")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "home").symlink_to("../../secret")
    (folder / "dangling").symlink_to("nope")
    (folder / "self").symlink_to("self")
    (folder / "up").symlink_to(".")
    take(run_dir, home)
    assert (run_dir / "final_model" / "model.safetensors").read_bytes() == safetensors()
    assert (run_dir / "final_model" / "more" / "b1").is_file()
    assert not any(path.is_symlink() for path in (run_dir / "final_model").rglob("*"))
    why = left_out(run_dir, "final_model.json")
    assert set(why) == {"out", "home", "dangling", "self", "up"} and "out of" in why["home"]


def test_special_files_do_not_block(run_dir: Path, home: Path) -> None:
    folder = model(home / "task" / "final_model")
    os.mkfifo(folder / "pipe")
    os.mkfifo(home / "task" / "pipe")
    os.mkfifo(home / "cli_version.txt")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(home / "task")  # the name of a socket may have about 100 bytes
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        take(run_dir, home)
    assert set(left_out(run_dir)) == {"pipe", "sock"} and set(left_out(run_dir, "final_model.json")) == {"pipe"}


def test_hostile_names_depth_and_sparse_files(run_dir: Path, home: Path) -> None:
    task = home / "task"
    names = [b"new\nline", b"bad\xff\xfebytes", b"\x1b[31mred", b"-rf", b" ", b"a" * 255]
    for name in names:
        (task / os.fsdecode(name)).write_bytes(name)
    here = os.getcwd()
    os.chdir(task)
    try:
        for _ in range(1000):
            os.mkdir("d" * 40)
            os.chdir("d" * 40)
    finally:
        os.chdir(here)
    with open(task / "sparse", "wb") as file:
        file.seek(1 << 27)
        file.write(b"end")
    (task / "link").symlink_to("/etc/passwd")
    take(run_dir, home, Limits(files=1000, bytes=1 << 30))
    copied = {os.fsencode(name): (run_dir / "task" / name) for name in os.listdir(run_dir / "task")}
    assert all(copied[name].read_bytes() == name for name in names)
    sparse = (run_dir / "task" / "sparse").stat()
    assert sparse.st_size == (1 << 27) + 3 and sparse.st_blocks * 512 < 1 << 24
    why = left_out(run_dir)
    assert why["link"] == "link" and any("too deep" in reason for reason in why.values())
    assert erase(home) and not home.exists()


def test_limits_are_kept_and_recorded(run_dir: Path, home: Path) -> None:
    for number in range(80):
        (home / "task" / f"f{number:03d}").write_bytes(bytes(100))
    report = take(run_dir, home, Limits(files=20, bytes=10_000))
    assert report.task_files == 20 and report.task_left_out > 0
    report = take(run_dir, home, Limits(files=1000, bytes=1000))
    assert report.task_bytes <= 1000 and report.task_files < 80
    assert any("bytes" in why for why in left_out(run_dir).values())


def test_a_hole_costs_no_hours_and_a_hundred_names_cost_one_copy(run_dir: Path, home: Path) -> None:
    folder = model(home / "task" / "final_model")
    with open(folder / "hole.bin", "wb") as file:
        file.truncate(1 << 40)
    (home / "task" / "blob").write_bytes(b"b" * 10_000)
    for number in range(20):
        os.link(home / "task" / "blob", folder / f"hard{number:02d}")
        (folder / f"soft{number:02d}").symlink_to("../blob")
    limits = Limits(files=1000, bytes=1 << 42, holes=1 << 30, repeats=50_000)
    report = take(run_dir, home, whole=limits)
    assert report.model == "present"
    why = left_out(run_dir, "final_model.json")
    assert "hole" in why.pop("hole.bin")
    assert len(why) == 40 - 6 and all("further name" in reason for reason in why.values())
    copies = [path for path in (run_dir / "final_model").iterdir() if path.stat().st_size == 10_000]
    assert len(copies) == 6 and all(path.stat().st_nlink == 1 for path in copies)


def test_data_beside_a_weight_file_is_still_evidence(run_dir: Path, home: Path) -> None:
    model(home / "task" / "ckpt" / "step-5", train_data__jsonl=b'{"q": 1}\n')
    (home / "task" / "decoy.safetensors").write_bytes(b"x")
    take(run_dir, home)
    assert tree(run_dir / "task") == ["ckpt", "ckpt/step-5", "ckpt/step-5/train_data.jsonl", "train.py"]
    record = json.loads((run_dir / ".ptb" / "model_folders.json").read_text())
    assert [folder["path"] for folder in record["folders"]] == [".", "ckpt/step-5"]
    assert record["folders"][1]["files"] == 4


def test_a_task_folder_that_is_a_link_or_gone(run_dir: Path, home: Path) -> None:
    shutil.rmtree(home / "task")
    (home / "task").symlink_to("/etc")
    report = take(run_dir, home)
    assert report.model == "absent" and report.task_files == 0 and not (run_dir / "task").exists()


def test_a_home_that_is_gone(run_dir: Path, home: Path) -> None:
    with pytest.raises(StepError) as error:
        take(run_dir, home.with_name("nothing"))
    assert error.value.cause == "host_lost"
    model(home / "task" / "final_model")
    first = take(run_dir, home)
    shutil.rmtree(home)
    assert take(run_dir, home) == first


def test_files_without_rights_are_read_as_their_owner() -> None:
    """Rights mean nothing to root, so the copy runs as an ordinary user where the test is root."""
    base = Path(tempfile.mkdtemp(prefix="harvest-"))
    home, run_dir = base / "home", base / "run"
    folder = model(home / "task" / "final_model")
    (home / "task" / "dark").mkdir()
    (home / "task" / "dark" / "x").write_text("x")
    (run_dir / ".ptb").mkdir(parents=True)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    if user != os.geteuid():
        for top, folders, names in os.walk(base):
            for name in (top, *(os.path.join(top, part) for part in (*folders, *names))):
                os.chown(name, user, user)
    (home / "task" / "blobs").mkdir()
    (folder / "model.safetensors").rename(home / "task" / "blobs" / "weights")
    (folder / "model.safetensors").symlink_to("../blobs/weights")
    if user != os.geteuid():
        for name in ("blobs", "blobs/weights"):
            os.chown(home / "task" / name, user, user)
        os.chown(folder / "model.safetensors", user, user, follow_symlinks=False)
    dark = (
        home / "task" / "dark" / "x",
        home / "task" / "dark",
        home / "task" / "blobs",
        folder / "config.json",
        folder,
    )
    for path in (*dark, home / "task", home):
        path.chmod(0)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ptb_tui.run.diagnostics import ExitFacts\n"
        "from ptb_tui.run.harvest import harvest\n"
        "import encodings.idna, ctypes\n"
        f"os.geteuid() == {user} or os.setuid({user})\n"
        "print(harvest(Path(sys.argv[1]), Path(sys.argv[2]), exit_facts=ExitFacts(rc=0)).model_files)\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath}
    argv = [sys.executable, "-c", code, str(run_dir), str(home)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    try:
        assert done.stdout == "4\n", done.stderr
        assert (run_dir / "task" / "dark" / "x").read_text() == "x"
    finally:
        assert erase(base)


def test_a_full_disk_has_its_cause(run_dir: Path, home: Path) -> None:
    model(home / "task" / "final_model")
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from ptb_tui.run import copying\n"
        "import errno; copying._FULL[errno.EFBIG] = 'disk_full'\n"
        "from ptb_tui.run.harvest import harvest_main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))\n"
        "sys.exit(harvest_main(sys.argv[1:]))\n"
    )
    step = run_dir / ".ptb" / "steps" / "001-agent"
    step.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", code, str(run_dir / ".ptb"), str(step), str(home.parent)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode != 0 and not (run_dir / "final_model").exists()


def test_errors_of_a_full_disk() -> None:
    import errno

    assert copying.refusal(OSError(errno.ENOSPC, "x"), "y").cause == "disk_full"
    assert copying.refusal(OSError(errno.EDQUOT, "x"), "y").cause == "quota"
    assert copying.refusal(OSError(errno.EIO, "x"), "y").cause == "unknown"


def test_killed_at_any_moment_and_run_again(run_dir: Path, home: Path) -> None:
    weights = safetensors({"w": {"dtype": "U8", "shape": [24 << 20], "data_offsets": [0, 24 << 20]}}, size=24 << 20)
    folder = model(home / "task" / "final_model", model__safetensors=weights)
    for number in range(300):
        (home / "task" / f"f{number}").write_text(str(number))
    step = run_dir / ".ptb" / "steps" / "001-agent"
    step.mkdir(parents=True)
    (step / "exit.json").write_text('{"rc": 0, "signal": null, "stopped": "", "elapsed_s": 5}')
    (run_dir / ".ptb" / "spec.json").write_text('{"hours": 0.5}')
    argv = [sys.executable, "-c", "import sys; from ptb_tui.run.harvest import main; sys.exit(main(sys.argv[1:]))"]
    argv += [str(run_dir / ".ptb"), str(step), str(home.parent)]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    marks = (".final_model.partial/model.safetensors", "final_model", ".task.partial/f1", "task")
    for mark in marks:
        child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
        limit = time.monotonic() + 30
        while child.poll() is None and not (run_dir / mark).exists() and time.monotonic() < limit:
            time.sleep(0.0005)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0
    result = json.loads((step / "result.json").read_text())
    assert result["outcome"] == "done" and result["model"] == "present"
    assert (
        result["model_digest"] == fingerprint.of_folder(folder)[0] == fingerprint.of_folder(run_dir / "final_model")[0]
    )
    assert len(os.listdir(run_dir / "task")) == 301
    assert not [name for name in os.listdir(run_dir) if name.startswith(".") and name != ".ptb"]
    assert (run_dir / "output.log").read_text().count("--- SOLVE DIAGNOSTICS ---") == 1
    assert (run_dir / "time_taken.txt").read_text() == "00:00:05\n"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('{"rc": 0, "stopped": ""}', "exit_code: 0\nstatus: exited normally"),
        ('{"rc": 3}', "exit_code: 3\nstatus: exited with error code 3"),
        ('{"rc": null, "signal": 9}', "exit_code: 137\nstatus: killed by signal 9 (KILL)"),
        ('{"rc": null, "signal": 15, "stopped": "deadline"}', "status: killed by timeout (reached 0.5h limit)"),
        ('{"rc": null, "signal": 15, "stopped": "cancel"}', "status: stopped (cancel)"),
        ("nonsense", "exit_code: not recorded\nstatus: no exit record"),
    ],
)
def test_the_verb_writes_how_the_agent_ended(run_dir: Path, home: Path, record: str, words: str) -> None:
    step = run_dir / ".ptb" / "steps" / "001-agent"
    step.mkdir(parents=True)
    (step / "exit.json").write_text(record)
    (run_dir / ".ptb" / "spec.json").write_text('{"hours": 0.5}')
    assert harvest_main([str(run_dir / ".ptb"), str(step), str(home.parent)]) == 0
    assert words in (run_dir / "output.log").read_text()
    result = json.loads((step / "result.json").read_text())
    assert result["model"] == "absent" and "no final_model" in result["why"]


@given(st.floats(0, 1e7))
def test_time_taken(seconds: float) -> None:
    hours, minutes, rest = (int(part) for part in time_taken(seconds).strip().split(":"))
    assert hours * 3600 + minutes * 60 + rest == int(seconds) and minutes < 60 and rest < 60


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "b/c", "..", "../..", "/home/ben/task/a", "/etc", "."]))
    )
)
def test_no_set_of_links_leads_out(tmp_path_factory: pytest.TempPathFactory, links: list[tuple[str, str]]) -> None:
    base = tmp_path_factory.mktemp("links")
    root = base / "home"
    (root / "task" / "sub").mkdir(parents=True)
    (root / "task" / "sub" / "file").write_text("inside")
    (base / "home-outside").write_text("outside")
    for name, target in links:
        path = root / "task" / name
        if not os.path.lexists(path):
            path.symlink_to(target)
    copied = copying.copy_tree(root, "task", base / "copy", Limits(200, 1 << 20), aliases=("/home/ben",), within="task")
    assert {entry.sha256 for entry in copied.files} == {fingerprint.file_sha256(root / "task" / "sub" / "file")}
    assert not any(path.is_symlink() for path in (base / "copy").rglob("*"))
