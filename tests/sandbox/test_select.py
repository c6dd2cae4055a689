from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import NotAllowed, UsageError
from ptb_tui.sandbox.base import Sandbox
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.sandbox.process import Process
from ptb_tui.sandbox.select import ISOLATING, choose


def absent() -> Sandbox:
    return Bubblewrap(executable="", prefixes=())


class Working(Process):
    name = "bubblewrap"
    isolated = True


words = st.one_of(
    st.sampled_from(["auto", "Process", "process ", " process", "", "none", "apptainer", "bubblewrap", "PROCESS"]),
    st.text(max_size=12),
)


@given(words, st.one_of(st.sampled_from(["demo", "1.0", "1.2", "Demo", "demo "]), st.text(max_size=6)), st.booleans())
def test_no_default_ends_without_isolation(configured: str, protocol: str, trusted: bool) -> None:
    for isolating in ({"bubblewrap": absent}, {"bubblewrap": Working}, {}):
        try:
            chosen = choose(configured, protocol=protocol, agents_trusted=trusted, isolating=isolating)
        except UsageError:
            continue
        if not chosen.isolated:
            demo = configured == "auto" and protocol == "demo" and trusted and isolating != {"bubblewrap": Working}
            assert configured == "process" or demo


def test_auto_takes_what_isolates_even_for_the_demo() -> None:
    isolating = {"apptainer": absent, "bubblewrap": Working}
    assert choose("auto", protocol="demo", agents_trusted=True, isolating=isolating).isolated
    assert not choose("auto", protocol="demo", agents_trusted=True, isolating={"bubblewrap": absent}).isolated


def test_a_refusal_names_what_to_install() -> None:
    for configured in ("auto", "bubblewrap"):
        with pytest.raises(NotAllowed, match="not installed") as caught:
            choose(configured, protocol="1.2", agents_trusted=True, isolating={"bubblewrap": absent})
        assert "apptainer" in caught.value.hint and "bubblewrap" in caught.value.hint


def test_process_only_by_its_exact_word() -> None:
    assert choose("process", protocol="1.2", agents_trusted=False).name == "process"
    with pytest.raises(UsageError):
        choose("Process", protocol="demo", agents_trusted=True)


@pytest.mark.bubblewrap
def test_the_real_one_is_found() -> None:
    if not ISOLATING["bubblewrap"]().probe()[0]:
        pytest.skip("bubblewrap does not work here")
    assert choose("auto", protocol="1.2", agents_trusted=False).name == "bubblewrap"


def test_a_plain_process_says_what_it_is(tmp_path: Path) -> None:
    from ptb_tui.sandbox.base import Bind, Request

    (tmp_path / "task").mkdir()
    asked = Request(("true",), tmp_path, "task", binds=(Bind(tmp_path, "/x"),), env={"A": "b"}, network="gateway")
    command = Process().command(asked)
    assert (command.argv, command.env, command.cwd, command.limits) == (("true",), {"A": "b"}, tmp_path / "task", {})
    assert len(command.notes) == 3 and Process().home_inside(tmp_path) == str(tmp_path)
