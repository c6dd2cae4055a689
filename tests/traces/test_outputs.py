from __future__ import annotations

import resource
from pathlib import Path

import pytest

from ptb_tui.traces.outputs import Lost, Outputs


def test_appends_and_truncates(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(b"12345")
    outputs = Outputs(paths, [3, 0], pytest.fail)
    outputs.append((b"abc", b"x"))
    assert outputs.sizes == [6, 1]
    assert [path.read_bytes() for path in paths] == [b"123abc", b"x"]
    outputs.sync()
    assert outputs.waiting == 0
    outputs.append((b"d", b""))
    outputs.close()
    assert paths[0].read_bytes() == b"123abcd"


def test_a_shorter_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(Lost):
        Outputs([tmp_path / "a"], [1], pytest.fail).open()


def test_tries_until_the_folder_is_back(tmp_path: Path) -> None:
    folder, aside = tmp_path / "run", tmp_path / "aside"
    folder.mkdir()
    why: list[str] = []
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            folder.unlink()
            aside.rename(folder)

    outputs = Outputs([folder / "a"], [0], why.append, pause)
    outputs.append((b"one ",))
    outputs.sync()
    outputs.append((b"two ",))
    outputs.close()
    folder.rename(aside)
    folder.write_text("in the way")
    outputs.append((b"three",))
    assert (folder / "a").read_bytes() == b"one two three"
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert len(why) == 9 and "Not a directory" in why[0]


def test_a_file_that_must_not_grow(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    outputs = Outputs([tmp_path / "a"], [0], lambda _: None,
                      lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)))  # fmt: skip
    outputs.append((b"x" * 100,))
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        outputs.append((b"y" * 100,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    outputs.sync()
    assert (tmp_path / "a").read_bytes() == b"x" * 100 + b"y" * 100


def test_follows_no_link_and_opens_no_fifo(tmp_path: Path) -> None:
    target = tmp_path / "target"
    link = tmp_path / "link"
    link.symlink_to(target)
    outputs = Outputs([link], [0], lambda _: None, lambda _: link.unlink())
    outputs.append((b"x",))
    assert not target.exists() and link.read_bytes() == b"x"
