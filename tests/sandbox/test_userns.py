from pathlib import Path

from ptb_tui.sandbox.userns import advice


def test_the_switch_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    assert advice("", tmp_path) == ""
    switch = tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns"
    switch.write_text("0\n")
    assert advice("", tmp_path) == ""
    switch.write_text("1\n")
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in advice("", tmp_path)
    (tmp_path / "kernel" / "unprivileged_userns_clone").write_text("0")
    assert "kernel.unprivileged_userns_clone=1" in advice("", tmp_path)


def test_containers_are_recognised_by_what_was_said(tmp_path: Path) -> None:
    assert "container" in advice("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", tmp_path)
    assert "refused" in advice("bwrap: Creating new namespace failed: Operation not permitted", tmp_path)
