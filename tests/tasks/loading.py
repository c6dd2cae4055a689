"""Modules of the task folders, which are no package: scripts find each other beside themselves."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

REPO = Path(__file__).resolve().parents[2]
TASKS = REPO / "tasks"


def load(name: str, *folders: str) -> ModuleType:
    """The module `name` of tasks/shared or of `folders` below tasks."""
    for folder in ("shared", *folders):
        path = str(TASKS / folder)
        if path not in sys.path:
            sys.path.append(path)
    return importlib.import_module(name)
