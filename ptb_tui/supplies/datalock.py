"""`data.lock.toml` of a data store: the revisions and hashes that the first fetch met and later ones must meet again.

One table `[[sources]]` for each place and revision asked for; a person may read it, copy it to another site, or copy
its values into a task's `data.toml`. Written with the standard library, because a far end has no more.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.errors import ConfigError

NAME = "data.lock.toml"
_HEAD = """# What the first fetch of a source met, and later ones must meet again (docs/tasks.md, "Getting the data").
# `ptb-tui data fetch --refresh` takes newer revisions of the sources that data.toml does not pin.
v = 1
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """A source as it was met. `asked` is the revision of `data.toml`, empty when it names none; `revision` the commit,
    empty for an address; `files` is path → sha256.
    """

    where: str
    asked: str
    revision: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Lock:
    """All pins of a store, by place and revision asked for."""

    path: Path
    pins: dict[tuple[str, str], Pin] = field(default_factory=dict)

    def get(self, where: str, asked: str) -> Pin | None:
        """What is known of a source."""
        return self.pins.get((where, asked))

    def add(self, pin: Pin) -> None:
        """Note what was met: files beside those known of the same revision, instead of those of another one."""
        known = self.get(pin.where, pin.asked)
        if known is not None and known.revision == pin.revision:
            pin = Pin(pin.where, pin.asked, pin.revision, {**known.files, **pin.files})
        self.pins[pin.where, pin.asked] = pin

    def copy(self) -> Lock:
        """The same, to be changed and thrown away or kept."""
        return Lock(self.path, dict(self.pins))

    def write(self) -> None:
        """Replace the file. OSError."""
        parts = [_HEAD]
        for pin in sorted(self.pins.values(), key=lambda pin: (pin.where, pin.asked)):
            parts.append(f"\n[[sources]]\nwhere = {_word(pin.where)}\nasked = {_word(pin.asked)}\n")
            parts.append(f"revision = {_word(pin.revision)}\n[sources.files]\n")
            parts += [f"{_word(path)} = {_word(sha)}\n" for path, sha in sorted(pin.files.items())]
        files.replace(self.path, "".join(parts))


def _word(text: str) -> str:
    """A JSON string without surrogates is one of TOML."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(safe, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_lock(store: Path) -> Lock:
    """The lock of a store; an empty one when there is none. ConfigError when it cannot be understood."""
    path = store / NAME
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Lock(path)
    except (OSError, ValueError) as error:
        raise _broken(path, str(error)) from error
    found, entries = Lock(path), table.get("sources", [])
    for entry in entries if isinstance(entries, list) else [None]:
        words = [entry.get(name) for name in ("where", "asked", "revision")] if isinstance(entry, dict) else [None]
        shas = entry.get("files", {}) if isinstance(entry, dict) else None
        if not all(isinstance(word, str) for word in words) or not isinstance(shas, dict):
            raise _broken(path, "an entry of `sources` is not where, asked, revision and files")
        where, asked, revision = (str(word) for word in words)
        found.add(Pin(where, asked, revision, {str(name): str(sha) for name, sha in shas.items()}))
    return found


def _broken(path: Path, words: str) -> ConfigError:
    hint = "put the file before back, or remove it: then the next fetch writes down what it meets"
    return ConfigError(f"{path}: {words}", hint=hint)
