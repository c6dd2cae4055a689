import os
from pathlib import Path

import pytest

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox.system import prefixes, private_places, programs


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    words = programs(tmp_path)
    assert words[:3] == ["--ro-bind", str(tmp_path / "usr"), "/usr"]
    assert words[3:] == ["--symlink", "usr/bin", "/bin", "--ro-bind", str(tmp_path / "lib"), "/lib"]


def test_a_prefix_that_holds_private_files_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".local" / "share").mkdir(parents=True)
    private = (home, home / ".local/share")
    for prefix in (home, tmp_path, home / ".local"):
        with pytest.raises(StepError, match="operator's files"):
            prefixes([prefix], private)
    venv = home / ".venv"
    venv.mkdir()
    assert prefixes([venv, venv], private) == ["--ro-bind", str(venv), str(venv)]


def test_a_prefix_behind_a_link_is_shown_at_both_paths_and_judged_by_the_real_one(tmp_path: Path) -> None:
    real, alias = tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    alias.symlink_to(real)
    assert prefixes([alias], ()) == ["--ro-bind", str(alias), str(alias), "--ro-bind", str(real), str(real)]
    with pytest.raises(StepError, match="operator's files"):
        prefixes([alias], (real / "home",))


def test_what_usr_holds_needs_no_bind_and_what_is_absent_is_refused(tmp_path: Path) -> None:
    assert prefixes([Path("/usr"), Path("/usr/local")], ()) == []
    with pytest.raises(StepError, match="cannot be read"):
        prefixes([tmp_path / "absent"], ())


def test_the_home_of_the_operator_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    places = private_places()
    assert tmp_path in places and tmp_path / ".ssh" in places
    assert Path(os.path.expanduser("~")) in places
