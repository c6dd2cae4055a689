"""A place of work of an account without privileges: our own, or `nobody` when the tests are run by root."""

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

from tests.e2e.conftest import Lab

NOBODY = 65534
_WORDS = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")


class NobodysLab(Lab):
    """A lab whose programs are started without privileges."""

    def command(self, *arguments: str) -> list[str]:
        return [*_WORDS, *super().command(*arguments)]


@contextlib.contextmanager
def place_of_nobody() -> Iterator[Lab]:
    """A lab in a folder of its own that every account can enter; skips where no such account can run the program."""
    base = Path(tempfile.mkdtemp(prefix="ptb-e2e-"))
    base.chmod(0o755)
    try:
        if os.geteuid() != 0:
            lab = Lab(base)
        else:
            lab = NobodysLab(base)
            probe = (*_WORDS, sys.executable, "-c", "import ptb_tui.cli")
            able = shutil.which("setpriv") is not None
            if not able or subprocess.run(probe, env=lab.env, cwd="/", check=False).returncode != 0:
                pytest.skip("no account without privileges can run the program")
            for folder, names, leaves in os.walk(base):
                for name in (".", *names, *leaves):
                    os.chown(os.path.join(folder, name), NOBODY, NOBODY)
        yield lab
        lab.close()
    finally:
        for folder, _, _ in os.walk(base):
            os.chmod(folder, 0o755)
        shutil.rmtree(base)
