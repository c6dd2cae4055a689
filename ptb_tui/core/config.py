"""`config.toml` (design §5a): the operator, further content, and the sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ptb_tui.core.errors import ConfigError
from ptb_tui.core.explain import explain


class SiteConfig(BaseModel):
    """`[sites.NAME]` of `config.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    transport: str = "local"  # local | command | ssh
    command: tuple[str, ...] = ()
    host: str = ""
    jump: str = ""
    user: str = ""
    root: str = ""
    python: str = ""
    prologue: str = ""
    scratch: str = ""
    max_hours: float | None = None
    backend: str = "local"
    sandbox: str = "auto"
    scratch_gib: float | None = Field(default=None, gt=0)  # lowers what a protocol lets one step hold on disk
    slots: int | None = Field(default=None, ge=1, le=64)
    endpoints: dict[str, str] = Field(default_factory=dict)  # agent or CLI → base URL; a sweep's own win
    cli_store: str = ""  # folder of the CLIs, which every node sees; empty: ptb-tui/clis in the user's cache
    data_store: str = ""  # folder of tasks' items, which every node sees; empty: ptb-tui/data in the user's data folder
    cli_updates: Literal["store", "at-start"] = "store"
    gpu_name: str = ""  # what the name of every GPU must contain, for example "H100"; empty: any
    polling: dict[str, float] = Field(default_factory=dict)


class ContentEntry(BaseModel):
    """One entry of `content`: a folder, and whether it is laid out as ours or as the original's repository."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: str = Field(min_length=1)
    layout: Literal["own", "upstream"] = "own"


def _entry(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


class Config(BaseModel):
    """`config.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    operator: str = ""
    on_event: tuple[str, ...] = ()
    content: tuple[Annotated[ContentEntry, BeforeValidator(_entry)], ...] = ()
    sites: dict[str, SiteConfig] = Field(default_factory=dict)


def read_config(path: Path) -> Config:
    """Read and check it. ConfigError names file, place and what would be right."""
    import tomllib

    try:
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return Config.model_validate(table)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError(explain(error, str(path), Config, {"sites": SiteConfig, "content": ContentEntry})) from error
