"""Where content comes from: a list of folders, first wins, origin shown (design §3)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ptb_tui
from ptb_tui.content.frozen import kept, walk
from ptb_tui.core.errors import NotFound

if TYPE_CHECKING:
    from ptb_tui.core.settings import Settings

KINDS = ("agents", "tasks", "judges", "containers", "sweeps")
_MARKS = {"agents": "api_keys.json", "tasks": "info.json", "judges": "judge.toml"}


def shipped() -> Path:
    """The content that came with this program: beside the package in a source tree or bundle, inside it in a wheel."""
    package = Path(ptb_tui.__file__).resolve().parent
    inside = package / "_content"
    return inside if inside.is_dir() else package.parent


@dataclass(frozen=True, slots=True)
class Content:
    """The content path. The shipped content is always last.

    `originals`: for those of `paths` that show a folder in the original's layout, that folder (`content.upstream`).
    """

    paths: tuple[Path, ...]
    originals: tuple[tuple[Path, Path], ...] = ()

    @staticmethod
    def of(paths: Iterable[Path] = ()) -> Content:
        """Content of the given folders and the shipped one; folders that do not exist are left out."""
        ordered: list[Path] = []
        for path in (*paths, shipped()):
            resolved = path.resolve()
            if resolved.is_dir() and resolved not in ordered:
                ordered.append(resolved)
        return Content(tuple(ordered))

    @staticmethod
    def configured(settings: Settings) -> Content:
        """Content of everything that is configured. ConfigError for a folder that is not in the layout it is said to
        be in."""
        if not settings.upstream:
            return Content.of(settings.content)
        from ptb_tui.content.upstream import view

        theirs = {path.resolve() for path in settings.upstream}
        shown = {path: view(path.resolve()) if path.resolve() in theirs else path for path in settings.content}
        pairs = {view: path.resolve() for path, view in shown.items() if view != path}
        return Content(Content.of(shown.values()).paths, tuple(pairs.items()))

    def place(self, path: Path) -> Path:
        """The folder that a person knows for one of `paths`."""
        return dict(self.originals).get(path, path)

    def names(self, kind: str) -> tuple[str, ...]:
        """All names of a kind, sorted; a folder counts when it holds the kind's mark or, for agents, `agent.toml`."""
        found: set[str] = set()
        for path in self.paths:
            try:
                entries = sorted((path / kind).iterdir())
            except OSError:
                continue
            for entry in entries:
                marks = {_MARKS.get(kind, ""), "agent.toml" if kind == "agents" else ""} - {""}
                if any((entry / mark).is_file() for mark in marks):
                    found.add(entry.name)
        return tuple(sorted(found))

    def folder(self, kind: str, name: str) -> Path:
        """The folder of one agent, task or judge. NotFound names the nearest known one."""
        if name and "/" not in name and not name.startswith("."):
            for path in self.paths:
                if (path / kind / name).is_dir():
                    return path / kind / name
        known = self.names(kind)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        what = kind.removesuffix("s")
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
        raise NotFound(f"no {what} {name!r} in {' or '.join(str(self.place(p) / kind) for p in self.paths)}", hint=hint)

    def file(self, relative: str) -> Path | None:
        """The first file of this relative path, for shared things such as templates and prompts."""
        return next((path / relative for path in self.paths if (path / relative).is_file()), None)

    def shared(self, relative: str) -> Path | None:
        """The first folder of this relative path."""
        return next((path / relative for path in self.paths if (path / relative).is_dir()), None)

    def overlay(self, relative: str) -> dict[str, Path]:
        """The files of the folders of this relative path laid over each other, name below it → file, as in a run's
        frozen copy."""
        found: dict[str, Path] = {}
        for base in self.paths:
            for path in walk(base / relative):
                if kept(path):
                    found.setdefault(str(path.relative_to(base / relative)), path)
        return found
