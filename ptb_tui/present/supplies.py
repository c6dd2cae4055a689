"""Images and the cache of the hub, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.present import numbers
from ptb_tui.present.table import Cell, Table

if TYPE_CHECKING:
    from ptb_tui.core.supply import DataView, ImageFile, ImageRow, ImagesView
    from ptb_tui.present.output import Output

_COLOURS = {"current": "green", "cached": "green", "changed": "yellow", "building": "cyan", "partial": "yellow"}
_FEW = 20  # absent repositories that are named
_NO_PROGRAM = "apptainer is not installed here: images cannot be built or used on this machine"


def _state(image: ImageRow) -> str:
    if image.building:
        return "building"
    if image.current is None:
        return "not built"
    return "recipe changed" if image.current.changed else "current"


def _cell(word: str) -> Cell:
    return Cell(word, _COLOURS.get(word.split()[-1], "grey"))


def image_list(out: Output, view: ImagesView) -> None:
    """Every recipe and image, one line each."""
    table = Table(("IMAGE", "STATE", "DIGEST", "SIZE", "BUILT", "ROLE", "FOR"), right=frozenset({3}))
    for image in view.images:
        now = image.current
        cells = (now.digest, numbers.size(now.size), now.built[:10]) if now else ("", "", "")
        words = image.words if image.recipe else "no recipe of this name"
        table.add(image.name, _cell(_state(image)), *cells, image.role, words)
    out.table(table)
    built = sum(image.current is not None for image in view.images)
    out.line(f"{built} of {numbers.count(len(view.images), 'image')} built in {view.folder}", "grey")
    if not view.program:
        out.note(_NO_PROGRAM)


def image_status(out: Output, view: ImagesView) -> None:
    """Every image file: which one is current, what it was built from, and whether that has changed."""
    table = Table(("IMAGE", "FILE", "SIZE", "BUILT", "FROM", "NOW"), right=frozenset({2}))
    files = [file for image in view.images for file in (*filter(None, (image.current,)), *image.older)]
    for file in files:
        table.add(file.name, file.file, numbers.size(file.size), file.built[:16], file.source or "–", _now(file))
    if files:
        out.table(table)
    for image in view.images:
        if image.building:
            out.line(f"{image.name} is being built by {image.building}", "cyan")
    total = sum(file.size for file in files)
    out.line(f"{numbers.count(len(files), 'file')}, {numbers.size(total)}, in {view.folder}", "grey")
    if view.program:
        out.line(f"built and used with {view.program}", "grey")
    else:
        out.note(_NO_PROGRAM)


def _now(file: ImageFile) -> Cell:
    if not file.current:
        return Cell("older", "grey")
    return _cell("recipe changed" if file.changed else "current")


def definition(out: Output, view: ImagesView) -> None:
    """The text of a definition, as a file would hold it."""
    out.write(view.definition)


def data(out: Output, view: DataView) -> None:
    """What of the hub is cached, then the items of tasks, as far as it was asked."""
    if view.home:
        hub_cache(out, view)
    if view.store:
        from ptb_tui.present.taskdata import task_data

        task_data(out, view, detailed=not view.home)


def hub_cache(out: Output, view: DataView) -> None:
    """What is cached, what is not and why; then the sum. Many of which nothing is there or known are only counted."""
    table = Table(("", "REPOSITORY", "STATE", "COMMIT", "SIZE", ""), right=frozenset({4}), rigid=frozenset({0, 2, 4}))
    absent = [repo for repo in view.repos if repo.state == "absent" and not repo.words and repo.size is None]
    left_out = absent if len(absent) > _FEW else []
    for repo in (repo for repo in view.repos if not left_out or repo not in left_out):
        words = f"{repo.words} → {repo.remedy}" if repo.remedy else repo.words
        table.add(repo.what, repo.id, _cell(repo.state), repo.commit[:12], numbers.size(repo.size), words)
    if table.rows:
        out.table(table)
    if left_out:
        models = sum(repo.what == "model" for repo in left_out)
        words = f"{numbers.count(models, 'model')} and {numbers.count(len(left_out) - models, 'data set')} are absent"
        out.line(f"{words}: --only 'ORGANISATION/*' or --json names them")
    here = [repo for repo in view.repos if repo.state == "cached"]
    rest = [repo for repo in view.repos if repo.state != "cached"]
    known = [repo.size for repo in rest if repo.size is not None]
    parts = [f"{len(here)} of {len(view.repos)} cached, {numbers.size(sum(repo.size or 0 for repo in here))}"]
    if known:
        unknown = len(rest) - len(known)
        more = f" and {unknown} of unknown size" if unknown else ""
        parts.append(f"{numbers.size(sum(known))} in {len(known)} to fetch{more}")
    if view.free is not None:
        parts.append(f"{numbers.size(view.free)} free in {view.home}")
    out.line(" · ".join(parts), "grey")
    if view.filling:
        out.line(f"being filled by {view.filling}", "cyan")
