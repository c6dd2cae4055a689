"""`config.toml` (design §5a): the operator, further content, and the sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
    cli_updates: Literal["store", "at-start"] = "store"
    gpu_name: str = ""  # what the name of every GPU must contain, for example "H100"; empty: any
    polling: dict[str, float] = Field(default_factory=dict)


class Config(BaseModel):
    """`config.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    operator: str = ""
    on_event: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
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
        raise ConfigError(explain(error, str(path), Config, {"sites": SiteConfig})) from error
