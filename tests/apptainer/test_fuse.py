"""Hosts of the testbed without FUSE, which only their root can take away."""

from __future__ import annotations

import pytest

from tests.testbed.bed import Bed
from tests.testbed.conftest import testbed  # noqa: F401

pytestmark = [pytest.mark.apptainer, pytest.mark.testbed]
CODE = """
import os, sys, tempfile, pathlib, subprocess
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import Request
place = pathlib.Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
(place / "home" / "task").mkdir(parents=True)
box = Apptainer(pathlib.Path(sys.argv[1]), scratch=place)
works, words = box.probe()
print(works, words)
if works:
    script = "head -c 100M /dev/zero >/opt/x; rm /usr/bin/git; stat -c %s /opt/x"
    asked = Request(("bash", "-c", script), place / "home", "task", scratch=place / "s", env={"PATH": "/usr/bin:/bin"})
    command = box.command(asked)
    print(*command.notes)
    done = subprocess.run(command.argv, env=command.env, cwd="/", capture_output=True, text=True)
    print(done.returncode, done.stdout + done.stderr)
"""


def test_without_fuse_the_image_runs_from_its_folder_or_the_remedy_is_named(testbed: Bed) -> None:  # noqa: F811
    testbed.up("ws")
    testbed.output("ws", "rm", "-rf", "/home/alice/lonely", "/home/alice/lonely.sif")
    testbed.run("ws", "chmod", "000", "/dev/fuse", user="root")
    try:
        words = ("env", "PYTHONPATH=/opt/ptb", "/opt/runtime/bin/python", "-c", CODE)
        done = testbed.run("ws", *words, "/opt/images/standard.sif", user="alice")
        assert "it runs from /opt/images/standard" in done.stdout, done
        testbed.run("ws", "cp", "/opt/images/standard.sif", "/home/alice/lonely.sif", user="alice")
        alone = testbed.run("ws", *words, "/home/alice/lonely.sif", user="alice")
        remedy = "apptainer build --sandbox /home/alice/lonely /home/alice/lonely.sif"
        assert alone.stdout.startswith("False") and remedy in alone.stdout, alone
        testbed.output("ws", *remedy.split(), user="alice", timeout=120)
        alone = testbed.run("ws", *words, "/home/alice/lonely.sif", user="alice")
        assert "it runs from /home/alice/lonely" in alone.stdout and "0 104857600" in alone.stdout, alone
    finally:
        testbed.run("ws", "chmod", "666", "/dev/fuse", user="root")
