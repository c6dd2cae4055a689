"""Tables of images and of the hub's cache."""

from __future__ import annotations

import io

from ptb_tui.core.supply import DataView, ImageFile, ImageRow, ImagesView, RepoRow
from ptb_tui.present import supplies
from ptb_tui.present.output import Output


def printed(show: object, view: object) -> tuple[str, str]:
    out = Output(stdout=io.StringIO(), stderr=io.StringIO())
    show(out, view)  # type: ignore[operator]
    assert isinstance(out.stdout, io.StringIO) and isinstance(out.stderr, io.StringIO)
    return out.stdout.getvalue(), out.stderr.getvalue()


def image(**more: object) -> ImageFile:
    values = {"name": "one", "file": "one-0123.sif", "digest": "0123", "size": 4_000_000_000, "current": True, **more}
    return ImageFile.model_validate(values)


IMAGES = ImagesView(
    folder="/sifs",
    images=(
        ImageRow(
            name="one", role="judge", current=image(changed=True), older=(image(file="one-4567.sif", current=False),)
        ),
        ImageRow(name="two", words="for later", building="process 7 on host"),
        ImageRow(name="own", recipe=False, current=image(name="own", file="own.sif", digest="")),
    ),
)


def test_images_by_name_and_by_file() -> None:
    listed, note = printed(supplies.image_list, IMAGES)
    assert [line.split()[0] for line in listed.splitlines()] == ["IMAGE", "one", "two", "own", "2"]
    assert "recipe changed" in listed and "building" in listed and "no recipe of this name" in listed
    assert "2 of 3 images built in /sifs" in listed and "apptainer is not installed" in note
    status, _ = printed(supplies.image_status, IMAGES)
    assert "one-4567.sif" in status and "older" in status and "two is being built by process 7 on host" in status
    assert "3 files, 12.0 GB, in /sifs" in status


def test_the_cache_with_sums_and_remedies() -> None:
    view = DataView(
        home="/hf",
        free=10**10,
        filling="process 7 on host",
        repos=(
            RepoRow(what="model", id="a/b", state="cached", commit="c" * 40, size=2_000_000_000),
            RepoRow(what="model", id="a/c", state="partial", size=3_000_000, words="1 of 2 files are not there"),
            RepoRow(what="dataset", id="a/\x1b[31md", state="absent", words="is gated", remedy="accept its terms"),
        ),
    )
    text, _ = printed(supplies.data, view)
    assert "\x1b" not in text and "is gated → accept its terms" in text and "c" * 12 in text
    summary = "1 of 3 cached, 2.0 GB · 3.0 MB in 1 to fetch and 1 of unknown size · 10.0 GB free in /hf"
    assert text.splitlines()[-2:] == [summary, "being filled by process 7 on host"]


def test_many_absent_repositories_are_counted() -> None:
    rows = [RepoRow(what="dataset", id=f"a/{n}", state="absent") for n in range(21)]
    cached = RepoRow(what="model", id="a/model", state="cached", size=5)
    text, _ = printed(supplies.data, DataView(home="/hf", repos=(cached, *rows)))
    assert "a/model" in text and "a/7" not in text and "0 models and 21 data sets are absent" in text
    text, _ = printed(supplies.data, DataView(home="/hf", repos=tuple(rows[:20])))
    assert "a/7" in text
