"""Groups of methods that repeat each other, one row of the leaderboard each: the file of `--groups`.

[groups]
"Opus 4.6" = ["claude_claude-opus-4-6_10h_run1", "claude_claude-opus-4-6_10h_run2"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from ptb_tui.core.errors import ConfigError

Groups = Mapping[str, tuple[str, ...]]
_LIMIT = 1 << 20
_HINT = '[groups], then lines such as "My agent" = ["method_run1", "method_run2"]'


def _error(path: Path, words: str) -> ConfigError:
    return ConfigError(f"{path}: {words}", hint=_HINT)


def parse_groups(text: str, path: Path) -> dict[str, tuple[str, ...]]:
    """Read the text of a groups file. ConfigError names file and group; a method may be in one group alone."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(path, f"not TOML: {error}") from error
    groups = table.pop("groups", None)
    if extra := sorted(set(table) - {"v"}):
        raise _error(path, f"unknown key {extra[0]!r}")
    if not isinstance(groups, dict) or not groups:
        raise _error(path, "names no group")
    found: dict[str, tuple[str, ...]] = {}
    taken: dict[str, str] = {}
    for name, methods in groups.items():
        if not name.strip() or not name.isprintable() or len(name) > 80 or name.startswith("."):
            raise _error(path, f"{name!r} cannot be the name of a row: 1 to 80 printable characters")
        if not isinstance(methods, list) or not methods or not all(isinstance(item, str) for item in methods):
            raise _error(path, f"group {name!r} must be a list of method folders")
        for method in methods:
            if method in taken:
                both = f"groups {taken[method]!r} and {name!r}" if taken[method] != name else f"group {name!r} twice"
                raise _error(path, f"method {method} is in {both}")
            taken[method] = name
        found[name] = tuple(methods)
    return found


def read_groups(path: Path) -> dict[str, tuple[str, ...]]:
    """Read a groups file. ConfigError names file, place and what would be right."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise _error(path, f"larger than {_LIMIT} bytes")
        return parse_groups(data.decode("utf-8"), path)
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8: {error}") from error
