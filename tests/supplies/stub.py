"""A program that stands for Apptainer: it packs nothing, but obeys and records like one."""

from __future__ import annotations

from pathlib import Path

STUB = r"""#!/bin/bash
if [ "$1" = --version ]; then echo "apptainer version 0.stub"; exit 0; fi
[ "$1" = build ] || exit 9
shift
[ "$1" = --mksquashfs-args ] && shift 2
target=$1 source=$2
env | grep -E '^(APPTAINER|SINGULARITY)_' | sort
printf 'INFO: begins\n10 %%\r20 %%\r\n'
while [ -e "$STUB_HOLD" ]; do sleep 0.05; done
content=$(cat "$source")
case $content in *explode*) echo "FATAL: while building: no such thing" >&2; exit 255;; esac
printf '%s\n' "$content" > "$target"
echo "INFO: Build complete"
"""

PACKER = r"""#!/bin/bash
[ -d "$1" ] || exit 1
echo "packed $(ls "$1" | tr '\n' ' ')" > "$2"
"""


def stub(folder: Path) -> Path:
    """The stub as `<folder>/apptainer`, and beside it one of the program that packs folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("apptainer", STUB), ("mksquashfs", PACKER)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder / "apptainer"
