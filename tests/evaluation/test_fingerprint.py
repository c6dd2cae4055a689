"""The digest of a model depends on names, sizes and bytes, and on nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.evaluation import fingerprint
from ptb_tui.evaluation.fingerprint import FileEntry


def test_order_and_times_do_not_matter(tmp_path: Path) -> None:
    for name, order in (("a", (0, 1)), ("b", (1, 0))):
        (tmp_path / name / "sub").mkdir(parents=True)
        for part in order:
            path = tmp_path / name / ("x", "sub/y")[part]
            path.write_text(str(part))
            os.utime(path, (part, part))
    assert fingerprint.of_folder(tmp_path / "a") == fingerprint.of_folder(tmp_path / "b")


def test_every_change_is_seen(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    digests = {fingerprint.of_folder(tmp_path)[0]}
    (tmp_path / "x").write_text("2")
    digests.add(fingerprint.of_folder(tmp_path)[0])
    (tmp_path / "x").rename(tmp_path / "y")
    digests.add(fingerprint.of_folder(tmp_path)[0])
    (tmp_path / "z").write_text("")
    digests.add(fingerprint.of_folder(tmp_path)[0])
    assert len(digests) == 4


def test_manifest_gives_the_digest_again(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xffname\n")).write_text("1")
    digest, entries = fingerprint.of_folder(tmp_path)
    again = [FileEntry(**entry.to_json()) for entry in entries]  # type: ignore[arg-type]
    assert fingerprint.digest(reversed(again)) == digest
    assert entries[0].path.encode() == b"bad\\xffname\n"
