"""Files of content as their models: TOML and JSON with errors that name file, place and what would be right."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ptb_tui.core.errors import ContentError
from ptb_tui.core.explain import explain

M = TypeVar("M", bound=BaseModel)
ORIGIN = ".ptb-origin.json"


class Origin(BaseModel):
    """In a folder that shows another one in our layout: name → file there, and name → why it could not be made."""

    model_config = ConfigDict(frozen=True)
    files: dict[str, str] = {}
    errors: dict[str, str] = {}


def known_as(path: Path) -> str:
    """How a person knows a file: where it lies, or the file that a shown one (`content.upstream`) comes from."""
    return _origin(path)[0]


def _origin(path: Path) -> tuple[str, str]:
    """How a person knows a file, and what was wrong with what it should have been made from. Read for errors only."""
    for folder in list(path.parents)[:4]:
        try:
            origin = Origin.model_validate_json((folder / ORIGIN).read_bytes())
        except (OSError, ValidationError):
            continue
        name = str(path.relative_to(folder))
        return origin.files.get(name, str(path)), origin.errors.get(name, "")
    return str(path), ""


def read_toml(path: Path, model: type[M], sections: dict[str, type[BaseModel]] | None = None) -> M:
    """A TOML file of content as its model. ContentError names file, place and what would be right."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        name, why = _origin(path)
        raise ContentError(why or f"{name}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ContentError(f"{_origin(path)[0]}: not TOML: {error}") from error
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ContentError(explain(error, _origin(path)[0], model, sections or {})) from error


def read_json_model(path: Path, model: type[M], missing: str) -> M:
    """A JSON file of content as its model. ContentError with `missing` when the file is absent."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ContentError(f"{_origin(path)[0]}: {missing}") from error
    except ValidationError as error:
        raise ContentError(explain(error, _origin(path)[0], model, {})) from error
