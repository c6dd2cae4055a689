"""Where a site keeps the items of the tasks, `<store>/<task>/`: one rule for consoles, plans and steps.

`PTB_DATA_DIR`, else `data_store` in `_ptb/site.toml`, else `data_store` of the site in `config.toml`, else
`ptb-tui/data` in the user's data folder. Standard library alone: the supervisor asks, too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "PTB_DATA_DIR"
KEY = "data_store"


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _of_config(config: Mapping[str, Any], root: Path | None) -> str:
    """The word of the site with this root, else of `local`."""
    raw = config.get("sites")
    sites = {name: site for name, site in raw.items() if isinstance(site, dict)} if isinstance(raw, dict) else {}
    here = [site for site in sites.values() if root and os.path.abspath(str(site.get("root") or "/")) == str(root)]
    return str((here or [sites.get("local", {})])[0].get(KEY) or "")


def data_store(root: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The folder, which need not exist. `root` is the results root; files that cannot be read say nothing."""
    env = os.environ if environ is None else environ
    found = env.get(VARIABLE, "")
    if not found and root is not None:
        found = str(_table(root / "_ptb" / "site.toml").get(KEY) or "")
    if not found:
        config = Path(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "ptb-tui" / "config.toml"
        found = _of_config(_table(config), root)
    if not found:
        found = os.path.join(env.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "ptb-tui", "data")
    return Path(os.path.abspath(os.path.expanduser(found)))
