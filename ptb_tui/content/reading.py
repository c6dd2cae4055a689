"""Files of content as their models: TOML and JSON with errors that name file, place and what would be right."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ptb_tui.core.errors import ContentError
from ptb_tui.core.explain import explain

M = TypeVar("M", bound=BaseModel)


def read_toml(path: Path, model: type[M], sections: dict[str, type[BaseModel]] | None = None) -> M:
    """A TOML file of content as its model. ContentError names file, place and what would be right."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ContentError(f"{path}: not TOML: {error}") from error
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ContentError(explain(error, str(path), model, sections or {})) from error


def read_json_model(path: Path, model: type[M], missing: str) -> M:
    """A JSON file of content as its model. ContentError with `missing` when the file is absent."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ContentError(f"{path}: {missing}") from error
    except ValidationError as error:
        raise ContentError(explain(error, str(path), model, {})) from error
