"""Images and the cache of the hub with the real Apptainer: built by a normal user, seen in a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptb_tui.core import files
from ptb_tui.run.hubview import TARGET, lay_out
from ptb_tui.sandbox.base import HOME
from ptb_tui.supplies import images
from tests.apptainer.conftest import IMAGE, PATH, REPOSITORY, Boxes
from tests.run.test_hubview import COMMIT, FOLDER, host_cache, state

pytestmark = pytest.mark.apptainer


def command_line(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`ptb-tui` as this user, with everything below this place."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place),
        "PYTHONPATH": str(REPOSITORY),
        "POST_TRAIN_BENCH_RESULTS_DIR": str(place / "results"),
        "POST_TRAIN_BENCH_CONTAINERS_DIR": str(place / "sifs"),
        "APPTAINER_BIND": "/nowhere:/mnt",
    }
    argv = [sys.executable, "-m", "ptb_tui", *words]
    return subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, timeout=300)


def test_an_image_is_built_from_a_root_folder_and_runs(boxes: Boxes) -> None:
    root = IMAGE.with_suffix("")
    if not (root / "usr" / "bin").is_dir():
        pytest.skip(f"no root folder beside {IMAGE}")
    built = command_line(boxes.place, "container", "build", "tiny", "--from", str(root))
    assert built.returncode == 0, built.stderr
    image = images.resolve(boxes.place / "sifs", "tiny")
    record = files.read_object(image.with_suffix(".json"))
    assert record is not None and record["digest"] == images.file_digest(image)
    assert image.name == f"tiny-{record['digest'][:12]}.sif" and record["program"].startswith("apptainer version")
    (view,) = [json.loads(line) for line in command_line(boxes.place, "container", "--json").stdout.splitlines()]
    assert [row["current"]["file"] for row in view["images"] if row["current"]] == [image.name]
    run = [boxes.sandbox.runtime, "-q", "exec", "--cleanenv", "--contain", "--pid", str(image)]
    done = subprocess.run([*run, "python3", "-c", "print(6 * 7)"], capture_output=True, text=True, cwd="/", timeout=60)
    assert done.stdout == "42\n", done.stderr
    again = command_line(boxes.place, "container", "build", "tiny", "--from", str(boxes.place))
    assert again.returncode == 2 and images.resolve(boxes.place / "sifs", "tiny") == image


ATTEMPTS = r"""
import json, os, pathlib
hub = pathlib.Path(os.environ["HF_HOME"]) / "hub"
repo, bound = hub / "FOLDER", pathlib.Path("TARGET/hub/FOLDER")
snapshot = repo / "snapshots" / (repo / "refs" / "main").read_text()
def attempt(action):
    try:
        action()
        return "done"
    except OSError as error:
        return "refused"
print(json.dumps({
    "config": json.loads((snapshot / "config.json").read_text())["model_type"],
    "change": attempt(lambda: (snapshot / "config.json").write_text("evil")),
    "bind": attempt(lambda: (bound / "refs" / "main").write_text("evil")),
    "remount": attempt(lambda: (bound / "blobs" / "new").write_text("evil")),
    "commit": attempt(lambda: (repo / "refs" / "main").write_text("e" * 40)),
    "file": attempt(lambda: (repo / "blobs" / "fresh").write_text("fresh")),
    "model": attempt(lambda: (hub / "models--a--b").mkdir()),
    "shown": sorted(os.listdir("TARGET")),
}))
"""


def test_the_cache_of_the_hub_is_read_and_never_written(boxes: Boxes) -> None:
    cache = host_cache(boxes.place / "hf")
    before = state(cache)
    view = lay_out(cache, boxes.home / "hf_cache")
    env = {"PATH": PATH, "HOME": HOME, "HF_HOME": f"{HOME}/hf_cache"}
    code = ATTEMPTS.replace("FOLDER", FOLDER).replace("TARGET", TARGET)
    done = boxes.python(code, env=env, binds=tuple(view.binds))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "config": "qwen3",
        "change": "refused",
        "bind": "refused",
        "remount": "refused",
        "commit": "done",
        "file": "done",
        "model": "done",
        "shown": ["datasets", "hub"],
    }
    assert state(cache) == before and (cache / "hub" / FOLDER / "refs" / "main").read_text() == COMMIT
