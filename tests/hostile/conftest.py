"""All attacks of one kind of sandbox are one sweep, made once; each test looks at what became of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptb_tui.core import names
from ptb_tui.run.erasing import erase
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from tests.hostile.lab import Attack, HostileLab, Run, State, session_key, state_of

NOBODY = 65534
IMAGE = Path(os.environ.get("PTB_TEST_IMAGE", "/opt/images/standard.sif"))
TO_NOBODY = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
SOON = 0.001  # hours: a budget of some seconds
ATTACKS = (
    Attack("model"),
    Attack("model+plants"),
    Attack("model+links"),
    Attack("modelhost"),
    Attack("modelbase"),
    Attack("modelfile"),
    Attack("model+odd"),
    Attack("model+many"),
    Attack("model+dark"),
    Attack("model+daemons"),
    Attack("model+stubborn", hours=SOON),
    Attack("model+forks"),
    Attack("model+kills"),
    Attack("model+fill"),
    Attack("model+cache"),
    Attack("look+tty+model"),
    Attack("model+gateway"),
    Attack("model+shout"),
    Attack("model+shout", agent="hostile_claude"),
    Attack("flood+model", protocol="unjudged"),
    Attack("mute+model"),
    Attack("model+plants+sleep600", hours=SOON),
    Attack("exit3"),
)
ONCE = ("model+many", "flood+model", "modelbase", "modelfile", "mute+model")  # size and kind matter, not the account


class Arena:
    """A lab after all attacks."""

    def __init__(self, lab: HostileLab, attacks: tuple[Attack, ...] = ATTACKS) -> None:
        self.lab = lab
        self.has_keyring = session_key("canary-SessionKeyring00")
        self.before: State = state_of(*lab.watched)
        self.out = lab.attack(attacks)
        rows = {row["method"]: row for line in lab.json("runs") for row in line.get("runs", [line]) if "method" in row}
        self.runs: dict[tuple[str, str], Run] = {}
        for one in attacks:
            row = rows[names.method_name(one.agent, one.words, one.hours, 0, "")]
            found = list(lab.results.glob(f"*/*_{row['id']}"))
            assert found, f"{one.words} never started: {row['reason']}\n{lab.run('show', str(row['id']))}"
            (run_dir,) = found
            self.runs[one.agent, one.words] = Run(lab, one, row, run_dir)

    def of(self, attack: Attack) -> Run:
        """What became of this attack; skips where it was left out."""
        if (attack.agent, attack.words) not in self.runs:
            pytest.skip("done once, as another user")
        return self.runs[attack.agent, attack.words]

    def run(self, words: str, agent: str = "hostile") -> Run:
        return self.runs[agent, words]


def _python_of_all(folder: Path) -> str:
    """A Python that every account can start, with our packages: the system's, in an environment of its own."""
    made = subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(folder)], check=False)
    for site in folder.glob("lib/python3*/site-packages") if made.returncode == 0 else ():
        packages = [name for name in sys.path if name.endswith(f"{site.parent.name}/site-packages")]
        (site / "ours.pth").write_text("".join(f"{name}\n" for name in packages))
    return str(folder / "bin" / "python")


def _place(base: Path, sandbox: str, nobody: bool) -> HostileLab:
    if not nobody:
        return HostileLab(base / base.name, sandbox)
    lab = HostileLab(base / base.name, sandbox, TO_NOBODY)
    code = "import subprocess, sys, ptb_tui.cli, pydantic; subprocess.run([sys.executable, '-c', ''], check=True)"
    for python in (sys.executable, _python_of_all(base / "python")):
        lab.use(python)
        words = [*TO_NOBODY, python, "-c", code]
        with contextlib.suppress(OSError):
            if subprocess.run(words, env=lab.env, cwd="/", capture_output=True, check=False).returncode == 0:
                lab.give(NOBODY)
                return lab
    lab.listener.close()
    pytest.skip("no account without privileges can run the program")


@contextlib.contextmanager
def place(sandbox: str, nobody: bool) -> Iterator[HostileLab]:
    """A lab in a folder of its own; skips where it cannot be had."""
    works, reason = (Apptainer(IMAGE) if sandbox == "apptainer" else Bubblewrap()).probe()
    if not works:
        pytest.skip(reason)
    if nobody and (os.geteuid() != 0 or not shutil.which("setpriv")):
        pytest.skip("needs root and setpriv to become a user without rights")
    base = Path(tempfile.mkdtemp(prefix="ptb-hostile-"))
    base.chmod(0o755)
    try:
        lab = _place(base, sandbox, nobody)
        if sandbox == "apptainer":
            lab.show_image(IMAGE)
        try:
            yield lab
        finally:
            lab.close()
    finally:
        erase(base)


def _kind(user: str, sandbox: str) -> object:
    return pytest.param((user, sandbox), marks=getattr(pytest.mark, sandbox), id=f"{sandbox}-{user}")


@pytest.fixture(
    scope="session",
    params=[_kind("self", "bubblewrap"), _kind("nobody", "bubblewrap"), _kind("self", "apptainer")],
)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """All attacks in one kind of sandbox. Those in Apptainer are for a host that has it: `test_in_host.py`."""
    user, sandbox = request.param
    first = (user, sandbox) == ("self", "bubblewrap")
    attacks = tuple(one for one in ATTACKS if first or one.words not in ONCE)
    with place(sandbox, user == "nobody") as lab:
        yield Arena(lab, attacks)
