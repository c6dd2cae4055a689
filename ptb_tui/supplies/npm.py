"""Packages of npm, with the npm and the npm configuration of the operator: its registry, proxies and certificates."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core import files
from ptb_tui.core.errors import PtbError
from ptb_tui.core.settings import is_secret
from ptb_tui.core.text import sanitize
from ptb_tui.supplies.clis import VERSION
from ptb_tui.supplies.commands import run

VIEW_S = 60.0
INSTALL_S = 1800.0
_NOT_PASSED = ("npm_config_prefix", "npm_config_global", "npm_config_ignore_scripts", "npm_config_dry_run")


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """What npm and the scripts of packages may see: no key of a provider, no setting that says where to install."""
    given = os.environ if env is None else env
    return {
        name: value
        for name, value in given.items()
        if not is_secret(name) and not name.startswith("POST_TRAIN_BENCH_") and name.lower() not in _NOT_PASSED
    }


def _npm(*words: str, cwd: Path, timeout: float) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise PtbError("npm is not installed here", hint="install Node.js with npm on this machine, then try again")
    status, said = run([npm, *words], cwd=cwd, env=environment(), timeout=timeout)
    if status != 0:
        lines = [line for line in said.splitlines() if line.strip() and "complete log of this run" not in line]
        told = sanitize(" · ".join(lines[-4:]), limit=600, newlines=False)
        raise PtbError(f"npm {words[0]} ended with status {status}: {told}", hint="npm's own configuration is used")
    return said


def newest(package: str, wanted: str, cwd: Path) -> str:
    """The newest version of a package that fits `wanted` ("latest", a version or a major). PtbError."""
    said = _npm("view", f"{package}@{wanted}", "version", "--json", "--loglevel=silent", cwd=cwd, timeout=VIEW_S)
    found: Any = None
    for at in (at for at, char in enumerate(said) if char in '["'):  # npm may print a notice first
        try:
            found, _ = json.JSONDecoder().raw_decode(said[at:])
            break
        except ValueError:
            continue
    versions = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    good = [version for version in versions if isinstance(version, str) and VERSION.fullmatch(version)]
    if not good:
        raise PtbError(f"npm knows no version of {package} that fits {wanted}")
    return max(good, key=_order)


def _order(version: str) -> tuple[list[int], bool]:
    """Numbers first, a pre-release before its release."""
    numbers, dash, _ = version.partition("-")
    return [int(part) if part.isdecimal() else 0 for part in numbers.split("+")[0].split(".")], not dash


def install(package: str, version: str, prefix: Path, cache: Path) -> Path:
    """Install exactly this version below `prefix` and return the package's folder. PtbError."""
    _npm(
        "install", "--global", "--prefix", str(prefix), "--cache", str(cache), "--no-fund", "--no-audit",
        "--no-update-notifier", "--loglevel=error", "--include=optional", f"{package}@{version}",
        cwd=prefix, timeout=INSTALL_S,
    )  # fmt: skip
    folder = prefix / "lib" / "node_modules" / package
    if not folder.is_dir():
        raise PtbError(f"npm installed {package} {version}, but {folder} is not there")
    return folder


def _record(folder: Path) -> dict[str, Any]:
    found = files.read_object(folder / "package.json")
    if found is None:
        raise PtbError(f"{folder}/package.json cannot be read")
    return found


def version(folder: Path, wanted: str) -> str:
    """The version of an installed package: `wanted` may have been a range or a tag."""
    found = _record(folder).get("version")
    return found if isinstance(found, str) and VERSION.fullmatch(found) else wanted


def program(folder: Path, binary: str) -> Path:
    """The file that a package starts as `binary`. PtbError when it has none of that name."""
    found = _record(folder).get("bin")
    relative = found.get(binary) if isinstance(found, dict) else found
    path = Path(os.path.normpath(folder / relative)) if isinstance(relative, str) else folder
    if folder not in path.parents or not path.is_file():
        raise PtbError(f"the package in {folder} has no program {binary}")
    return path
