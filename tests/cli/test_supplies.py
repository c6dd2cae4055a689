"""`container` and `data` on the real command line, with a stub of Apptainer and a hub on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.layout import Root
from ptb_tui.run import work
from tests.cli.drive import environment, finish, real
from tests.polling import until
from tests.supplies.benchhub import HEALTH, fill, folders
from tests.supplies.fakehub import FakeHub, serving
from tests.supplies.stub import stub

SMALL = {"models": [{"model": "org/one"}, {"model": "org/shut"}], "datasets": [{"dataset": "org/data"}]}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    stub(tmp_path / "bin")
    more = {
        "POST_TRAIN_BENCH_RESULTS_DIR": str(tmp_path / "results"),
        "POST_TRAIN_BENCH_CONTAINERS_DIR": str(tmp_path / "sifs"),
        "HF_HOME": str(tmp_path / "hf"),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    return {**environment(tmp_path), **more}


@pytest.fixture
def hub(tmp_path: Path, env: dict[str, str]) -> Iterator[FakeHub]:
    """A hub whose manifest is that of the working directory."""
    with serving(FakeHub()) as found:
        found.model("org/one", {"config.json": b"{}", "model.safetensors": b"w" * 5000})
        found.model("org/shut", {"config.json": b"{}", "model.safetensors": b"w"}, gated=True)
        found.dataset("org/data", {"train.jsonl": b"{}\n"})
        (tmp_path / "containers").mkdir()
        (tmp_path / "containers" / "hub_manifest.json").write_text(json.dumps(SMALL))
        env["HF_ENDPOINT"] = found.endpoint
        yield found


def call(env: dict[str, str], tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return finish(real(*words), env, cwd=tmp_path)


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_image_is_built_listed_and_built_again(env: dict[str, str], tmp_path: Path) -> None:
    assert "0 of 15 images built" in call(env, tmp_path, "container").stdout
    printed = call(env, tmp_path, "container", "build", "standard", "--dry-run")
    assert printed.stdout.startswith("Bootstrap: docker\n") and printed.returncode == 0
    assert not (tmp_path / "results").exists(), "nothing was done"
    done = call(env, tmp_path, "container", "build", "standard")
    assert done.returncode == 0 and "INFO: Build complete" in done.stderr
    image = (tmp_path / "sifs" / "standard.sif").resolve()
    assert f"built {image}" in done.stdout and image.read_text() == printed.stdout
    (status,) = [one for one in records(call(env, tmp_path, "container", "status", "--json").stdout)]
    row = next(row for row in status["images"] if row["name"] == "standard")
    assert row["current"]["file"] == image.name and row["current"]["changed"] is False
    assert "current" in call(env, tmp_path, "container", "list").stdout
    journal = [json.loads(path.read_text()) for path in (tmp_path / "results" / "_ptb" / "journal").iterdir()]
    assert [entry["action"]["name"] for entry in journal] == ["standard"]


def test_a_changed_recipe_is_seen(env: dict[str, str], tmp_path: Path) -> None:
    call(env, tmp_path, "container", "build", "standard")
    shipped = Path(__file__).resolve().parents[2] / "containers"
    (tmp_path / "containers").mkdir()
    for name in ("images.toml", "image.def.in", "requirements-direct.txt"):
        text = (shipped / name).read_text().replace("codex@0.137.0", "codex@0.138.0")
        (tmp_path / "containers" / name).write_text(text)
    assert "recipe changed" in call(env, tmp_path, "container").stdout
    assert "recipe changed" in call(env, tmp_path, "container", "status").stdout


def test_a_folder_of_this_machine_becomes_an_image(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    assert "localimage" in call(env, tmp_path, "container", "build", "tiny", "--from", "root", "--dry-run").stdout
    assert call(env, tmp_path, "container", "build", "tiny", "--from", "root").returncode == 0
    assert (tmp_path / "sifs" / "tiny.sif").read_text() == "packed bin \n"
    assert "no recipe of this name" in call(env, tmp_path, "container").stdout


def test_mistakes_end_with_what_to_do(env: dict[str, str], tmp_path: Path) -> None:
    unknown = call(env, tmp_path, "container", "build", "standrad")
    assert unknown.returncode == 2 and "did you mean 'standard'?" in unknown.stderr
    folder = call(env, tmp_path, "container", "build", "x", "--from", "nowhere")
    assert folder.returncode == 2 and "is not the root folder of a system" in folder.stderr
    (tmp_path / "root" / "bin").mkdir(parents=True)
    name = call(env, tmp_path, "container", "build", "../x", "--from", "root")
    assert name.returncode == 2 and "cannot be the name of an image" in name.stderr
    bare = {**env, "PATH": str(tmp_path / "root")}
    nothing = call(bare, tmp_path, "container", "build", "standard")
    assert nothing.returncode == 2 and "apptainer is not installed here" in nothing.stderr
    assert not (tmp_path / "sifs").exists()


def test_leaving_a_build_does_not_end_it(env: dict[str, str], tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    going = subprocess.Popen(
        real("container", "build", "standard"),
        env={**env, "STUB_HOLD": str(hold)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    root = Root(tmp_path / "results")

    try:
        until(lambda: any("begins" in work.look(root, number).log for number in work.ids(root)), "a build", 200)
        going.send_signal(signal.SIGINT)
        _, said = going.communicate(timeout=200)
        assert "building" in call(env, tmp_path, "container").stdout
    finally:
        hold.unlink(missing_ok=True)
        going.kill()
        going.communicate()
    assert going.returncode == 130 and "goes on at the site" in said
    (number,) = work.ids(root)
    until(lambda: work.look(root, number).state != "running", "the end of the build", 200)
    assert (tmp_path / "sifs" / "standard.sif").is_file()


def test_the_hub_is_cached_but_for_what_it_refuses(hub: FakeHub, env: dict[str, str], tmp_path: Path) -> None:
    dry = call(env, tmp_path, "data", "cache", "--dry-run")
    assert "0 of 3 cached" in dry.stdout and "5.0 kB in 2 to fetch and 1 of unknown size" in dry.stdout
    assert "model org/shut is gated" in dry.stdout and not (tmp_path / "hf" / "hub").exists()
    done = call(env, tmp_path, "data", "cache")
    assert done.returncode == 1 and "2 cached, 2 of them new; 1 not: model org/shut is gated" in done.stderr
    assert f"accept its terms at {hub.endpoint}/org/shut" in done.stderr
    env["MY_HF_TOKEN"] = hub.token
    again = call(env, tmp_path, "data", "cache", "--only", "org/*", "--json")
    assert again.returncode == 0 and hub.token not in again.stdout + again.stderr
    assert records(again.stdout)[0]["kind"] == "receipt"
    assert "3 cached, 1 of them new" in records(again.stdout)[-1]["work"]["words"]
    (view,) = records(call(env, tmp_path, "data", "status", "--json").stdout)
    assert [repo["state"] for repo in view["repos"]] == ["cached"] * 3
    left = [path.read_text("utf-8", "replace") for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert left and not any(hub.token in text for text in left), "no file of ours holds the token"


@pytest.fixture
def bench(tmp_path: Path, env: dict[str, str]) -> Iterator[FakeHub]:
    """A hub with the sources of every task, and task folders whose counts fit."""
    with serving(FakeHub()) as found:
        fill(found)
        folders(tmp_path, found)
        env["HF_ENDPOINT"], env["PTB_DATA_DIR"] = found.endpoint, str(tmp_path / "items")
        yield found


def test_a_fetch_that_is_killed_goes_on_where_it_was(bench: FakeHub, env: dict[str, str], tmp_path: Path) -> None:
    dry = call(env, tmp_path, "data", "fetch", "healthbench", "gpqamain", "--dry-run")
    assert dry.returncode == 0 and "to fetch" in dry.stdout and "HF_TOKEN" in dry.stdout
    assert not (tmp_path / "items").exists()
    bench.stall[HEALTH] = 5000
    begun = call(env, tmp_path, "data", "fetch", "healthbench", "--detach", "--json")
    root, (receipt,) = Root(tmp_path / "results"), records(begun.stdout)
    until(lambda: any(path.stat().st_size for path in (tmp_path / "items").rglob("*.ptb-part")), "a download", 200)
    worker = json.loads((root.own("steps") / str(receipt["work"]) / "process.json").read_text())["process"]["pid"]
    os.kill(worker, signal.SIGKILL)
    until(lambda: work.look(root, receipt["work"]).state == "lost", "the end of the worker", 200)
    bench.go.set()
    (view,) = records(call(env, tmp_path, "data", "status", "healthbench", "--json").stdout)
    assert view["tasks"][0]["state"] == "partial"
    done = call(env, tmp_path, "data", "fetch", "healthbench", "gpqamain", "demo")
    assert done.returncode == 2 and "task demo has no data.toml" in done.stderr
    done = call(env, tmp_path, "data", "fetch", "healthbench", "gpqamain")
    assert done.returncode == 1 and "healthbench: fetched, 100 in items.jsonl" in done.stderr
    assert "Idavidrein/gpqa is gated" in done.stderr and "MY_HF_TOKEN" in done.stderr
    assert any(asked.startswith("bytes=") for _, path, asked in bench.requests if path == HEALTH)
    shown = call(env, tmp_path, "data", "status", "healthbench", "gpqamain").stdout
    assert "locked" in shown and "fetched" in shown and "missing" in shown and str(tmp_path / "items") in shown
    env["HF_TOKEN"] = bench.token
    last = call(env, tmp_path, "data", "fetch", "gpqamain", "--json")
    assert last.returncode == 0 and bench.token not in last.stdout + last.stderr
    assert records(last.stdout)[-1]["work"]["words"] == "1 fetched, 0 there already"


def test_a_hub_that_does_not_answer_is_asked_once(env: dict[str, str], tmp_path: Path) -> None:
    env["HF_ENDPOINT"] = "http://127.0.0.1:1"  # nothing listens there
    done = call(env, tmp_path, "data", "fetch", "gsm8k", "humaneval", "--dry-run", "--json")
    (view,) = records(done.stdout)
    said = [source["problem"] for row in view["tasks"] for source in row["sources"]]
    assert done.returncode == 0 and len(said) == 3 and len(set(said)) == 1 and "127.0.0.1:1" in said[0]


def test_a_mistake_names_the_help_of_its_verb_and_what_there_is(env: dict[str, str], tmp_path: Path) -> None:
    told = call(env, tmp_path, "protocol", "diff", "1.2").stderr
    assert "Missing argument 'B'" in told and "  ptb-tui protocol diff --help" in told
    told = call(env, tmp_path, "protocol", "diff", "1.2", "9.9").stderr
    assert "'9.9' is no protocol" in told and "1.2" in told.splitlines()[1]
