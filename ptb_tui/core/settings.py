"""Where values come from: `.env`, the process environment and `config.toml` (design §5a).

`.env`: `--env-file`, else `$PTB_ENV_FILE`, else the working directory's, else beside `config.toml`. Its values win over
the process environment for `POST_TRAIN_BENCH_*` and keys; the environment fills gaps.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ptb_tui.core.errors import ConfigError

if TYPE_CHECKING:
    from ptb_tui.core.config import Config, SiteConfig

RESULTS = "POST_TRAIN_BENCH_RESULTS_DIR"
EXTRA_RESULTS = "POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS"
_SECRET = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)$")


def is_secret(name: str) -> bool:
    """Whether a variable's value must never be shown."""
    return bool(_SECRET.search(name))


def parse_env(text: str, source: str) -> dict[str, str]:
    """Read `KEY=value` lines: comments, blank lines, an optional `export`, matching quotes. Nothing is evaluated
    except a leading `$HOME` or `~`. ConfigError names file and line, never the value."""
    values: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", line)
        if not match:
            raise ConfigError(f"{source}: line {number}: not KEY=value", hint="comments begin with #")
        name, value = match[1], match[2].strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = re.split(r"\s+#", value, maxsplit=1)[0].rstrip()
        if value.startswith("$HOME"):
            value = os.path.expanduser("~") + value.removeprefix("$HOME")
        elif value.startswith("~/"):
            value = os.path.expanduser(value)
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything configured, with the origin of each value."""

    values: Mapping[str, str]
    origins: Mapping[str, str]
    parsed: Config | None  # None where there is no config.toml
    env_file: Path | None
    config_file: Path | None
    operator: str
    content: tuple[Path, ...] = field(default=())
    upstream: tuple[Path, ...] = field(default=())  # those of `content` in the original's layout

    @property
    def config(self) -> Config:
        """`config.toml`, or what it means when there is none."""
        from ptb_tui.core.config import Config

        return self.parsed or Config()

    @property
    def results(self) -> Path:
        """The results root. ConfigError when none is configured."""
        value = self.values.get(RESULTS, "")
        if not value:
            raise ConfigError(
                f"{RESULTS} is not set", hint="put it into .env (see example.env), or pass --results FOLDER"
            )
        return Path(os.path.abspath(os.path.expanduser(value)))

    @property
    def extra_results(self) -> tuple[Path, ...]:
        """Further roots, which are only read."""
        return tuple(Path(part) for part in self.values.get(EXTRA_RESULTS, "").split(":") if part)

    def secrets(self) -> dict[str, str]:
        """Names and values of everything that must be redacted."""
        return {name: value for name, value in self.values.items() if is_secret(name) and len(value) >= 6}

    def site(self, name: str) -> SiteConfig:
        """A site's configuration; `local` always exists. ConfigError names the known sites."""
        from ptb_tui.core.config import SiteConfig

        if name in self.config.sites:
            return self.config.sites[name]
        if name == "local":
            return SiteConfig()
        known = ", ".join(sorted({"local", *self.config.sites}))
        raise ConfigError(f"no site {name!r} in {self.config_file or 'config.toml'}; known sites: {known}")


def config_home(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of `config.toml`."""
    env = os.environ if environ is None else environ
    return Path(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "ptb-tui"


def load(
    *,
    env_file: Path | None = None,
    results: Path | None = None,
    extra: Iterable[Path] = (),
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read all settings; `extra` are results roots to be read besides those configured. ConfigError for a named `.env`
    that is absent or a file that is not understood."""
    env = dict(os.environ if environ is None else environ)
    here = cwd or Path.cwd()
    home = config_home(env)
    config_file = home / "config.toml"
    config: Config | None = None
    if config_file.is_file():
        from ptb_tui.core.config import read_config

        config = read_config(config_file)
    named = env_file or (Path(env["PTB_ENV_FILE"]) if env.get("PTB_ENV_FILE") else None)
    if named is not None and not named.is_file():
        raise ConfigError(f"{named}: no such file", hint="--env-file and PTB_ENV_FILE name a file of KEY=value lines")
    found = next((path for path in (named, here / ".env", home / ".env") if path is not None and path.is_file()), None)
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, value in env.items():
        if name.startswith("POST_TRAIN_BENCH_") or is_secret(name) or name == "HF_HOME":
            values[name], origins[name] = value, "environment"
    if found is not None:
        for name, value in parse_env(found.read_text("utf-8", "replace"), str(found)).items():
            if value or name not in values:
                values[name], origins[name] = value, str(found)
    if results is not None:
        values[RESULTS], origins[RESULTS] = str(results), "--results"
    if more := [os.path.abspath(path) for path in extra]:
        values[EXTRA_RESULTS] = ":".join([*more, *filter(None, [values.get(EXTRA_RESULTS)])])
        origins[EXTRA_RESULTS] = "--results"
    entries = [(Path(os.path.expanduser(entry.path)), entry.layout) for entry in (config.content if config else ())]
    content = (here, *(path for path, _ in entries), home / "content")
    upstream = tuple(path for path, layout in entries if layout == "upstream")
    operator = (config.operator if config else "") or env.get("PTB_OPERATOR") or getpass.getuser()
    file = config_file if config_file.is_file() else None
    return Settings(values, origins, config, found, file, operator, content, upstream)
