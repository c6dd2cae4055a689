"""Images on disk: named by content, one current, none ever lost; and building them with a stub of Apptainer."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from ptb_tui.core import files
from ptb_tui.core.errors import ConfigError, NotAllowed, NotFound, PtbError, StorageError, UsageError
from ptb_tui.supplies import claims, imagebuild, images
from ptb_tui.supplies.recipes import digest
from tests.supplies.stub import stub


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def publish(folder: Path, name: str, text: str) -> Path:
    part = folder / f".{name}.part"
    part.write_text(text)
    return images.publish(part, folder, name, {"built": "2026-01-01T00:00:00.000Z", "recipe": "r", "source": "recipe"})


def test_an_image_has_its_content_for_a_name_and_a_link_names_the_current_one(tmp_path: Path) -> None:
    first = publish(tmp_path, "standard", "one")
    assert first.name == f"standard-{sha('one')[:12]}.sif" and images.resolve(tmp_path, "standard") == first
    second = publish(tmp_path, "standard", "two")
    assert images.resolve(tmp_path, "standard") == second and first.read_text() == "one"
    assert images.resolve(tmp_path, first.name) == first, "a pin goes on naming its file"
    assert os.readlink(tmp_path / "standard.sif") == second.name, "relative, so that the folder may be moved"
    assert publish(tmp_path, "standard", "one") == first == images.resolve(tmp_path, "standard")
    assert images.pin(first) == sha("one")[:12]
    found = images.images(tmp_path)
    assert [(image.file, image.current) for image in found] == [(first.name, True), (second.name, False)]
    assert found[0].size == 3 and found[0].source == "recipe" and found[0].digest == sha("one")[:12]


def test_an_image_of_the_original_script_is_used_and_kept(tmp_path: Path) -> None:
    plain = tmp_path / "vllm_debug.sif"
    plain.write_text("by others")
    assert images.resolve(tmp_path, "vllm_debug") == plain
    assert images.images(tmp_path)[0].digest == "", "a list computes nothing"
    assert images.pin(plain) == sha("by others")[:12]
    assert images.images(tmp_path)[0].digest == sha("by others")[:12]
    plain.write_text("by others, again")
    assert images.pin(plain) == sha("by others, again")[:12]
    ours = publish(tmp_path, "vllm_debug", "ours")
    assert images.resolve(tmp_path, "vllm_debug") == ours
    kept = images.stored(tmp_path, "vllm_debug", sha("by others, again"))
    assert kept.read_text() == "by others, again"


def test_a_digest_is_found_where_nothing_can_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    plain = tmp_path / "x.sif"
    plain.write_text("x")
    monkeypatch.setattr(files, "replace", refuse)
    assert images.pin(plain) == sha("x")[:12] and os.listdir(tmp_path) == ["x.sif"]


def test_folders_and_links_of_people_are_found(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "other.sif").write_text("elsewhere")
    (tmp_path / "mine.sif").symlink_to("big/other.sif")
    assert images.resolve(tmp_path, "mine") == tmp_path / "big" / "other.sif"
    (tmp_path / "open" / "usr").mkdir(parents=True)
    assert images.resolve(tmp_path, "open") == tmp_path / "open" and images.pin(tmp_path / "open") == "folder"


def test_what_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "gone.sif").symlink_to("gone-0123456789ab.sif")
    for name in ("standard", "gone"):
        with pytest.raises(NotFound) as caught:
            images.resolve(tmp_path / "", name)
        assert caught.value.hint == f"ptb-tui container build {name}"
    for name in ("../x", "", ".x", "a/b", "x" * 99):
        with pytest.raises(ConfigError):
            images.resolve(tmp_path, name)
    assert images.images(tmp_path / "nowhere") == [] and images.being_built(tmp_path / "nowhere") == {}


def test_the_folder_is_of_the_settings_or_of_the_users_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert images.containers_dir({images.FOLDER: "~/sifs"}) == tmp_path / "sifs"
    assert images.containers_dir({}) == tmp_path / ".local" / "share" / "ptb-tui" / "containers"


@pytest.fixture
def program(tmp_path: Path) -> str:
    return str(stub(tmp_path / "bin"))


def order(tmp_path: Path, text: str = "Bootstrap: docker\n", name: str = "tiny") -> imagebuild.Order:
    return imagebuild.Order(name, tmp_path / "sifs", text)


def test_a_build_becomes_current_with_a_record(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND"):
        monkeypatch.setenv(name, "/secret")
    monkeypatch.setenv("APPTAINER_TMPDIR", str(tmp_path))
    said: list[str] = []
    built = imagebuild.build(order(tmp_path), said.append, program)
    assert built == images.resolve(tmp_path / "sifs", "tiny") and built.read_text() == "Bootstrap: docker\n"
    assert {"INFO: begins", "10 %", "20 %", "INFO: Build complete"} <= set(said)
    assert [line for line in said if line.startswith(("APPTAINER", "SING"))] == [f"APPTAINER_TMPDIR={tmp_path}"]
    record = files.read_object(built.with_suffix(".json"))
    assert record is not None and record["recipe"] == digest("Bootstrap: docker\n")
    assert record["program"] == "apptainer version 0.stub" and record["size"] == built.stat().st_size
    assert not [name for name in os.listdir(tmp_path / "sifs") if name.startswith(".")]


def test_a_build_that_fails_leaves_the_current_image(tmp_path: Path, program: str) -> None:
    before = imagebuild.build(order(tmp_path), lambda _: None, program)
    with pytest.raises(PtbError, match=r"ended with 255: .*FATAL: while building: no such thing"):
        imagebuild.build(order(tmp_path, "explode\n"), lambda _: None, program)
    assert images.resolve(tmp_path / "sifs", "tiny") == before
    assert sorted(os.listdir(tmp_path / "sifs")) == sorted([before.name, f"{before.stem}.json", "tiny.sif"])


def test_a_root_folder_is_packed(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "root" / "usr" / "bin").mkdir(parents=True)
    found = imagebuild.from_folder("tiny", tmp_path / "sifs", tmp_path / "root")
    assert imagebuild.build(found, lambda _: None, program).read_text() == "packed usr \n"
    assert images.images(tmp_path / "sifs")[0].source == f"folder {tmp_path / 'root'}"
    with pytest.raises(UsageError, match="is not the root folder of a system"):
        imagebuild.from_folder("tiny", tmp_path / "sifs", tmp_path / "root" / "usr" / "bin")
    (tmp_path / "bin" / "mksquashfs").write_text("#!/bin/bash\necho no room; exit 3\n")
    before = os.listdir(tmp_path / "sifs")
    with pytest.raises(PtbError, match="ended with 3: no room"):
        imagebuild.build(found, lambda _: None, program)
    assert os.listdir(tmp_path / "sifs") == before


def test_two_builds_of_one_image_do_not_meet(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, begun = tmp_path / "hold", threading.Event()
    hold.touch()
    monkeypatch.setenv("STUB_HOLD", str(hold))
    worker = threading.Thread(
        target=imagebuild.build,
        args=(order(tmp_path), lambda line: begun.set() if "begins" in line else None, program),
    )
    worker.start()
    try:
        assert begun.wait(200)
        assert list(images.being_built(tmp_path / "sifs")) == ["tiny"]
        with pytest.raises(NotAllowed, match="image tiny is being worked on by process"):
            imagebuild.build(order(tmp_path), lambda _: None, program)
    finally:
        hold.unlink()
        worker.join(200)
    assert images.resolve(tmp_path / "sifs", "tiny").is_file() and not images.being_built(tmp_path / "sifs")


def test_what_a_killed_build_left_goes_with_the_next(tmp_path: Path, program: str) -> None:
    folder = tmp_path / "sifs"
    folder.mkdir()
    for name in (".tiny.01234567.part", ".tiny.01234567.def", ".tiny.er.01234567.part"):
        (folder / name).write_text("left")
    imagebuild.build(order(tmp_path), lambda _: None, program)
    assert [name for name in os.listdir(folder) if name.startswith(".")] == [".tiny.er.01234567.part"]


def test_without_a_program_or_a_folder_one_line_says_so(tmp_path: Path, program: str) -> None:
    with pytest.raises(NotFound, match="apptainer is not installed here"):
        imagebuild.build(order(tmp_path), lambda _: None, "")
    (tmp_path / "sifs").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        imagebuild.build(order(tmp_path), lambda _: None, program)
    assert claims.holder(tmp_path / ".tiny.building.json") == ""
