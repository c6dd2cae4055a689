"""A validation error as one line: file, place, and what would be right."""

from __future__ import annotations

import difflib

from pydantic import BaseModel, ValidationError


def _nearest(key: str, model: type[BaseModel]) -> str:
    match = difflib.get_close_matches(key, list(model.model_fields), n=1, cutoff=0.5)
    return f"; did you mean `{match[0]}`?" if match else f"; known keys: {', '.join(model.model_fields)}"


def explain(error: ValidationError, file: str, root: type[BaseModel], sections: dict[str, type[BaseModel]]) -> str:
    """One line of file, place and what would be right, for the first mistake (and how many more there are)."""
    details = error.errors()
    first = details[0]
    where = ".".join(str(part) for part in first["loc"]) or "file"
    if first["type"] == "extra_forbidden":
        owner = sections.get(str(first["loc"][0]), root) if len(first["loc"]) > 1 else root
        what = f"unknown key{_nearest(str(first['loc'][-1]), owner)}"
    elif first["type"] == "missing":
        what = "this value is missing"
    else:
        what = first["msg"].removeprefix("Value error, ")
        if first["type"].endswith("_type") or first["type"].endswith("_parsing"):
            what += f", not {first['input']!r}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{file}: {where}: {what}{more}"
