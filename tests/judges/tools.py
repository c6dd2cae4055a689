"""Loads the stand-alone tools as modules, and runs them as programs."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[2] / "judges" / "tools"
DATA = Path(__file__).parents[1] / "data" / "judging"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tested_{name}", TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(TOOLS / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
