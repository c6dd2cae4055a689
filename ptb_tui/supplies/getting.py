"""Get a CLI: install it beside the Node that runs it, see that it starts, make it current (design §3, supplies)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ptb_tui.core import clock
from ptb_tui.core.errors import PtbError, StorageError
from ptb_tui.core.text import sanitize
from ptb_tui.supplies import installer, npm, trees
from ptb_tui.supplies.clis import VERSION, Cli
from ptb_tui.supplies.commands import run
from ptb_tui.supplies.store import Installed, Store

START_S = 120.0
NODE = "node"  # its folder in the store, and in a tree
Say = Callable[[str], None]


def update(
    store: Store, name: str, cli: Cli, node_package: str, version: str, say: Say, *, keep: bool = False
) -> Installed:
    """Get a version, or the newest one when `version` is empty, and make it current unless `keep`. PtbError.

    A version that is in the store is not fetched again. What fails leaves everything as it was.
    """
    work = store.workplace()
    try:
        found = _get(store, name, cli, node_package, version, work, say)
    except OSError as error:
        raise StorageError(f"{error.filename or store.path}: {error.strerror}") from error
    finally:
        trees.remove(work)
    if keep:
        return found
    before = store.make_current(found)
    say(f"{name} {found.version} is current" + (f"; before it {before}" if before not in ("", found.name) else ""))
    return found


def _get(store: Store, name: str, cli: Cli, node_package: str, version: str, work: Path, say: Say) -> Installed:
    tree = work / "tree"
    tree.mkdir()
    if cli.installer:
        if version:
            raise PtbError(f"{name} comes from an installer that brings the newest version alone")
        say(f"running the installer {cli.installer}")
        started = installer.install(cli.installer, cli.program, work, tree)
        node, wanted, source = "", "", cli.installer
    else:
        wanted = version or npm.newest(cli.package, "latest", work)
        if not version:
            store.remember_newest(name, wanted)
        if (there := store.find(name, wanted)) is not None:
            say(f"{name} {wanted} is in the store")
            return there
        node = _node(store, cli, node_package, tree, work, say)
        say(f"installing {cli.package} {wanted} with npm")
        package = npm.install(cli.package, wanted, tree, work / "npm-cache")
        started, wanted, source = npm.program(package, cli.binary), npm.version(package, wanted), cli.package
    _wrap(tree, cli.binary, started)
    trees.make_links_relative(tree)
    if not wanted:
        wanted = version_in(_starts(tree, cli, work, say))
    sealed = trees.seal(tree)
    folder = f"{wanted}-{sealed.digest[:12]}"
    trees.place(tree, store.path / name / folder)
    made = Installed(
        cli=name,
        name=folder,
        version=wanted,
        digest=sealed.digest,
        said=_starts(store.path / name / folder, cli, work, say),
        source=source,
        node=node,
        installed=clock.utc_text(),
        files=sealed.files,
        bytes=sealed.bytes,
    )
    store.publish(made)
    return made


def _node(store: Store, cli: Cli, package: str, tree: Path, work: Path, say: Say) -> str:
    """Put Node into the tree, from the store where it has one of that major version; its version, empty for none."""
    if not cli.node:
        return ""
    there = [found for found in store.versions(NODE) if found.version.split(".")[0] == cli.node]
    if there:
        found = there[0]
    else:
        version = npm.newest(package, cli.node, work)
        say(f"installing {package} {version} with npm")
        (work / NODE).mkdir()
        folder = npm.install(package, version, work / NODE, work / "npm-cache")
        kept = work / "kept"
        for part in ("bin/node", "LICENSE"):
            if (folder / part).is_file():
                (kept / part).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder / part, kept / part)
        said = _starts(kept, Cli(binary="node", package="node"), work, say)
        sealed = trees.seal(kept)
        name = f"{version}-{sealed.digest[:12]}"
        trees.place(kept, store.path / NODE / name)
        found = Installed(
            cli=NODE, name=name, version=version, digest=sealed.digest, said=said, source=package,
            installed=clock.utc_text(), files=sealed.files, bytes=sealed.bytes,
        )  # fmt: skip
        store.publish(found)
    trees.same_file(store.tree(found) / "bin" / "node", tree / NODE / "bin" / "node")
    return found.version


def _wrap(tree: Path, binary: str, program: Path) -> None:
    """`bin/` holds the CLI alone: a script that finds its program, and its Node, from where it lies itself."""
    with open(program, "rb") as file:
        first = file.readline(200)
    runs_node = first.startswith(b"#!") and re.search(rb"\bnode\b", first) is not None
    node = tree / NODE / "bin" / "node"
    if runs_node and not node.is_file():
        raise PtbError(f"{program.name} needs Node, but clis.toml names none for it")
    if not runs_node:
        program.chmod(program.stat().st_mode | 0o111)
    trees.remove(tree / "bin")
    (tree / "bin").mkdir()
    words = [
        f'"$here/{os.path.relpath(path, tree / "bin")}"' for path in ((node, program) if runs_node else (program,))
    ]
    script = tree / "bin" / binary
    script.write_text(f'#!/bin/sh\nhere=$(dirname -- "$(readlink -f -- "$0")")\nexec {" ".join(words)} "$@"\n')
    script.chmod(0o755)


def _starts(tree: Path, cli: Cli, work: Path, say: Say) -> str:
    """Start the CLI in an empty home with a plain environment; what it said. PtbError when it does not start.

    The home is not in /tmp, where Codex complains about it.
    """
    program = tree / "bin" / cli.binary
    with tempfile.TemporaryDirectory(dir=work, prefix="home-") as home:
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", **cli.env}
        status, said = run([str(program), *cli.version], cwd=Path(home), env=env, timeout=START_S)
    words = sanitize(said.strip(), limit=500, newlines=False)
    if status != 0 or not words:
        raise PtbError(f"{program} does not start here: status {status}{f', {words}' if words else ''}")
    say(f"{cli.binary} starts and says: {words}")
    return words


def version_in(said: str) -> str:
    """The version in what a CLI prints about itself; `unknown` when there is none."""
    found = re.search(r"(?<![\w.])v?([0-9]+(?:\.[0-9A-Za-z_+-]+)+)", said)
    return found[1] if found and VERSION.fullmatch(found[1]) else "unknown"
