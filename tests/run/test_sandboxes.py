"""Which image and which sandbox the steps of a run get."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptb_tui.content.lookup import Content
from ptb_tui.core.errors import NotAllowed, StepError
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.core.spec import JudgePlan, ProtocolRef, RunSpec
from ptb_tui.run import sandboxes
from ptb_tui.sandbox import runtime, select
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.process import Process

FOUND = runtime.Runtime("/usr/bin/apptainer", "apptainer", "1.4.5", ())


class Working(Process):
    """Stands for one that isolates."""

    isolated = True


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    protocols = tmp_path / "content" / "tasks" / "protocols"
    protocols.mkdir(parents=True)
    words = 'v = 1\nname = "{}"\ntasks = ["t"]\nmodels = ["a/b"]\n{}\n'
    (protocols / "gpu.toml").write_text(words.format("gpu", 'images = { evaluation = "ours" }'))
    (protocols / "small.toml").write_text(words.format("small", 'interpreter = "host"'))
    (tmp_path / "containers").mkdir()
    monkeypatch.setattr(runtime, "usable", lambda name, path: FOUND)

    def known(*_: object) -> dict[str, type[Process]]:
        return {name: type(name, (Working,), {"name": name}) for name in ("apptainer", "bubblewrap", "singularity")}

    monkeypatch.setattr(sandboxes, "isolating", known)
    return tmp_path


def images(place: Path, *names: str) -> None:
    for name in names:
        (place / "containers" / f"{name}-0123456789ab.sif").write_text(name)
        (place / "containers" / f"{name}.sif").symlink_to(f"{name}-0123456789ab.sif")


def settings(place: Path, **values: str) -> Settings:
    found = {"POST_TRAIN_BENCH_CONTAINERS_DIR": str(place / "containers"), **values}
    return Settings(found, {}, None, None, None, "me")


def spec(protocol: str = "gpu", **more: object) -> RunSpec:
    values = {"agent": "x", "config": "c", "benchmark": "t", "base_model": "a/b", "hours": 1.0}
    return RunSpec(**values, protocol=ProtocolRef(name=protocol, fingerprint=""), **more)


def pinned(place: Path, run: RunSpec, word: str, **values: str) -> RunSpec:
    return sandboxes.pin(Root(place), run, Content((place / "content",)), settings(place, **values), word)


def chosen(place: Path, run: RunSpec, word: str, role: str = "agent") -> str:
    return sandboxes.for_run(Root(place), run, Content((place / "content",)), word, role).name


def test_auto_pins_when_every_image_is_there(place: Path) -> None:
    images(place, "standard")
    run = pinned(place, spec(), "auto")
    assert run.images == {} and chosen(place, run, "bubblewrap") == "bubblewrap"
    images(place, "ours")
    run = pinned(place, spec(), "auto")
    assert run.images == {"agent": "standard-0123456789ab.sif", "evaluation": "ours-0123456789ab.sif"}
    assert chosen(place, run, "auto") == chosen(place, run, "auto", "evaluation") == "apptainer"


def test_auto_leaves_the_host_s_interpreter_to_bubblewrap(place: Path) -> None:
    images(place, "standard")
    assert pinned(place, spec("small"), "auto").images == {}
    run = pinned(place, spec("small"), "apptainer")
    assert run.images == dict.fromkeys(("agent", "evaluation"), "standard-0123456789ab.sif")


def test_names_come_from_protocol_operator_and_custom(place: Path) -> None:
    images(place, "kimi", "ours", "gpt_5_5")
    judge = JudgePlan(judge="j", engine="codex")
    run = pinned(place, spec(judges=(judge,)), "apptainer", POST_TRAIN_BENCH_CONTAINER_NAME="kimi")
    assert {role: file.split("-")[0] for role, file in run.images.items()} == {
        "agent": "kimi",
        "judge": "gpt_5_5",
        "evaluation": "ours",
    }


def test_a_plain_file_is_pinned_by_its_content(place: Path) -> None:
    for name in ("standard", "ours"):
        (place / "containers" / f"{name}.sif").write_text(name)
    run = pinned(place, spec(), "singularity")
    assert run.images["agent"].startswith("standard.sif@") and chosen(place, run, "singularity") == "singularity"
    (place / "containers" / "standard.sif").write_text("another one")
    with pytest.raises(StepError, match="another image") as caught:
        chosen(place, run, "singularity")
    assert caught.value.cause == "image_missing"


def test_a_new_current_image_changes_no_run(place: Path) -> None:
    images(place, "standard", "ours")
    run = pinned(place, spec(), "auto").sealed()
    (place / "containers" / "standard.sif").unlink()
    (place / "containers" / "standard.sif").symlink_to("standard-ffffffffffff.sif")
    (place / "containers" / "standard-ffffffffffff.sif").write_text("new")
    assert sandboxes.image_of(run, "agent").name == "standard-0123456789ab.sif"
    assert pinned(place, spec(), "auto").sealed().digest != run.digest
    assert spec().sealed().digest == spec(containers="/x", scratch_gib=3.0).sealed().digest


def test_what_is_missing_is_named_with_its_remedy(place: Path) -> None:
    run, content = pinned(place, spec(), "apptainer"), Content((place / "content",))
    for attempt in (
        lambda: sandboxes.need_images(run, content, settings(place)),
        lambda: chosen(place, run, "apptainer"),
    ):
        with pytest.raises(StepError) as caught:
            attempt()
        assert caught.value.cause == "image_missing" and "ptb-tui container build standard" in caught.value.hint


def test_auto_without_images_says_what_it_lacks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(Process):
        def probe(self) -> tuple[bool, str]:
            return False, "bubblewrap is not installed"

    known = {"apptainer": lambda: Apptainer(None), "bubblewrap": Absent}
    monkeypatch.setattr(sandboxes, "isolating", lambda *_: known)
    with pytest.raises(NotAllowed, match=r"no image for this protocol.*bubblewrap is not installed"):
        chosen(place, spec(), "auto")
    assert "singularity" in select.ISOLATING and list(select.ISOLATING)[:2] == ["apptainer", "bubblewrap"]
