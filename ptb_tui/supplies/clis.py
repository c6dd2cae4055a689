"""The CLIs that agents start, as `containers/clis.toml` declares them (H §2.2, §2.3)."""

from __future__ import annotations

import platform
import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ptb_tui.core.errors import UsageError

VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,59}")
_ARCHES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Cli(BaseModel):
    """One CLI. It comes from an npm `package` or from an `installer`, the URL of a shell script that fills $HOME."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    label: str = ""
    binary: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    package: str = Field(default="", pattern=r"^$|^(@[a-z0-9._-]+/)?[a-z0-9][a-z0-9._-]*$")
    installer: str = Field(default="", pattern=r"^$|^https://\S+$|^http://127\.0\.0\.1[:/]\S*$")
    program: str = Field(default="", pattern=r"^$|^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")  # below $HOME
    node: str = Field(default="", pattern=r"^[0-9]*$")  # major version; empty for none
    version: tuple[str, ...] = ("--version",)
    env: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> Cli:
        if bool(self.package) == bool(self.installer):
            raise ValueError("a CLI has either a package or an installer")
        if self.installer and not self.program:
            raise ValueError("an installer needs program, the path below $HOME of what is to be started")
        return self

    @property
    def pin_variable(self) -> str:
        """The variable of `.env` that asks for an exact version (H §2.3)."""
        return f"{self.binary.upper().replace('-', '_')}_CLI_VERSION"


class CliTable(BaseModel):
    """`containers/clis.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: Literal[1] = 1
    node_package: str = "node-linux-{arch}"
    cli: dict[str, Cli] = Field(default_factory=dict)

    @property
    def node(self) -> str:
        """The npm package with Node for this machine."""
        machine = platform.machine().lower()
        return self.node_package.format(arch=_ARCHES.get(machine, machine))


def checked_version(text: str) -> str:
    """A version as a person may name it. UsageError for what is none: npm would take it for a path or an address."""
    if not VERSION.fullmatch(text):
        raise UsageError(f"{text!r} is not a version", hint="for example 2.1.198")
    return text
