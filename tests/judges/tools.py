"""Loads the stand-alone tools as modules, and runs them as programs."""

import functools
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from ptb_tui.content.tools import single_file

TOOLS = Path(__file__).parents[2] / "judges" / "tools"
DATA = Path(__file__).parents[1] / "data" / "judging"


@functools.cache
def load(name: str) -> ModuleType:
    """The tool as it goes into sandboxes: one file."""
    module = ModuleType(f"tested_{name}")
    module.__file__ = str(TOOLS / f"{name}.py")
    sys.modules[module.__name__] = module
    exec(compile(single_file(TOOLS / f"{name}.py"), f"<{name}>", "exec"), module.__dict__)
    return module


def run(name: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(TOOLS / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
