"""The evaluation items of a task: `items.jsonl`, one JSON object a line, or the demo's `test_data.json`, one array.

Nothing here loads data from the hub; `ptb-tui data fetch` writes these files once and checks them.
"""

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Sequence

_PLACES = {"items.jsonl": "PTB_ITEMS", "baseline_answers.jsonl": "PTB_BASELINE_ANSWERS"}


class InputMissing(Exception):
    """Test items, a model or something else an evaluation needs cannot be found or read."""


def find(task_dir: Path, name: str) -> Path:
    """The file: beside the script, one folder above, or where the environment says. Raises InputMissing."""
    variable = _PLACES.get(name, "PTB_TEST_DATA")
    places = [task_dir / name, task_dir.parent / name]
    if os.environ.get(variable):
        places.append(Path(os.environ[variable]))
    for place in places:
        if place.is_file():
            return place
    raise InputMissing("{} not found in: {}".format(name, ", ".join(str(place) for place in places)))


def _lines(place: Path, text: str) -> List[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise InputMissing("{} line {} is not JSON: {}".format(place, number, error)) from error
    return rows


def read(place: Path, fields: Sequence[str] = ()) -> List[Dict[str, Any]]:
    """The objects of a file, each with at least `fields`. Raises InputMissing."""
    try:
        text = place.read_text(encoding="utf-8")
        items = _lines(place, text) if place.suffix == ".jsonl" else json.loads(text)
    except (OSError, ValueError) as error:
        raise InputMissing("{} is not JSON: {}".format(place, error)) from error
    if not isinstance(items, list) or not items:
        raise InputMissing("{} holds no items".format(place))
    for number, item in enumerate(items, 1):
        missing = [name for name in fields if name not in item] if isinstance(item, dict) else ["an object"]
        if missing:
            raise InputMissing("{}: item {} lacks {}".format(place, number, ", ".join(missing)))
    return items


def load_items(task_dir: Path, name: str = "test_data.json", fields: Sequence[str] = ()) -> List[Dict[str, Any]]:
    """The items of a task, in the order of the file. Raises InputMissing."""
    return read(find(task_dir, name), fields)
