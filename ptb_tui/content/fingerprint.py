"""The fingerprint of a benchmark: a digest over the bytes that a protocol uses, and what it is made of (design §4).

It covers the protocol's file, its prompt with all sections, all its tasks, what tasks share, chat templates, judges and
their tools; so all runs of one protocol from one content have the same, and one row of a board holds one. Test items
are not part of it, because they come and go with `data fetch`: a run records the digest of its own beside it. The parts
are kept once, `_ptb/fingerprints/<fingerprint>.json`, so that what differs can be said later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ptb_tui.content.datafile import BESIDE, TEST_DATA
from ptb_tui.content.frozen import kept, walk
from ptb_tui.content.lookup import Content
from ptb_tui.content.prompt import PROMPTS, SECTIONS, prompt_file
from ptb_tui.content.protocols import Protocol
from ptb_tui.content.tasks import Task
from ptb_tui.core import files
from ptb_tui.core.errors import NotFound
from ptb_tui.core.layout import Root
from ptb_tui.core.spec import ProtocolRef

SHARED = ("tasks/shared", "tasks/templates", "judges/tools", SECTIONS)
_NAME = re.compile(r"[0-9a-f]{16}")
_LIMIT = 4 << 20


class Print(BaseModel):
    """A fingerprint with what it is made of. `parts`: path in the content → sha256. `bundle`: a frozen copy that holds
    these bytes, while it is there."""

    model_config = ConfigDict(frozen=True)
    v: int = 1
    fingerprint: str
    protocol: str
    parts: dict[str, str]
    bundle: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two fingerprints: paths of files in the content."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    @property
    def words(self) -> str:
        """In one line, the first few of each."""
        said = []
        for names, how in ((self.changed, "changed"), (self.added, "added"), (self.removed, "removed")):
            if names:
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                said.append(f"{', '.join(names[:3])}{more} {how}")
        return "; ".join(said)


def digest_of(path: Path) -> str:
    """sha256 of a file, as in `Print.parts`."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _files_of(content: Content, protocol: Protocol, prompt: str) -> Iterator[tuple[str, Path]]:
    """Everything the fingerprint is over. A task or judge that is in no content folder has no bytes."""
    single = (f"tasks/protocols/{protocol.name}.toml", f"{PROMPTS}/{prompt_file(protocol, prompt)}")
    for name in single:
        if (path := content.file(name)) is not None:
            yield name, path
    for folder in SHARED:
        for name, path in content.overlay(folder).items():
            yield f"{folder}/{name}", path
    owned = [("tasks", task) for task in protocol.tasks] + [("judges", entry.judge) for entry in protocol.judges]
    for kind, name in owned:
        try:
            folder_of = content.folder(kind, name)
        except NotFound:
            continue
        for path in walk(folder_of):
            if path.name not in BESIDE:
                yield f"{kind}/{name}/{path.relative_to(folder_of)}", path


def take(content: Content, protocol: Protocol, prompt: str = "") -> Print:
    """The fingerprint of a protocol as this content has it; `prompt` is a run's own (`RunSpec.prompt`)."""
    found = _files_of(content, protocol, prompt)
    parts = {name: digest_of(path) for name, path in sorted(set(found)) if kept(path)}
    return Print(fingerprint=of_parts(parts), protocol=protocol.name, parts=parts)


def of_parts(parts: Mapping[str, str]) -> str:
    """The digest over names and bytes, 16 hex digits."""
    digest = hashlib.sha256()
    for name, sha in sorted(parts.items()):
        digest.update(f"{name}\0{sha}\n".encode())
    return digest.hexdigest()[:16]


def of_data(task: Task) -> str:
    """Digest over the items that a run of this task uses, 16 hex digits; empty when there are none."""
    used = (*task.needed, TEST_DATA)
    parts = {name: digest_of(path) for name, path in sorted(task.beside.items()) if name in used}
    return of_parts(parts) if parts else ""


def reference(content: Content, protocol: Protocol, task: Task, prompt: str = "") -> ProtocolRef:
    """What a run records: which benchmark exactly, and with which items."""
    return ProtocolRef(name=protocol.name, fingerprint=take(content, protocol, prompt).fingerprint, data=of_data(task))


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> Difference:
    """What differs between the parts of two fingerprints. Pure."""
    return Difference(
        changed=tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def keep(root: Root, print_: Print) -> None:
    """Keep a fingerprint's parts, once."""
    folder = root.own("fingerprints")
    folder.mkdir(parents=True, exist_ok=True)
    files.create(folder / f"{print_.fingerprint}.json", files.dump(print_.model_dump(mode="json")))


def recall(root: Root, name: str) -> Print | None:
    """The parts that were kept under a fingerprint; None when there are none, or they are not what it says."""
    if not _NAME.fullmatch(name):
        return None
    try:
        found = Print.model_validate(files.read_json(root.own("fingerprints") / f"{name}.json", _LIMIT))
    except ValidationError:
        return None
    return found if of_parts(found.parts) == name == found.fingerprint else None


def apart(root: Root, before: str, after: str) -> str:
    """What differs between two fingerprints, in words; empty where one of them is not known."""
    first, second = recall(root, before), recall(root, after)
    return difference(first.parts, second.parts).words if first and second else ""
