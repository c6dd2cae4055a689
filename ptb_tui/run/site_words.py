"""What a site's configuration says about runs, wherever it is read: its own part goes before the operator's copy."""

from __future__ import annotations

import os
from pathlib import Path

from ptb_tui.core.config import SiteConfig
from ptb_tui.core.layout import Root
from ptb_tui.core.settings import Settings
from ptb_tui.run import place
from ptb_tui.supplies.store import default_store


def site_word(root: Root, settings: Settings, key: str) -> str:
    """A value of `[sites.NAME]`: from `_ptb/site.toml`, else from the site with this root, else from `local`."""
    own = place.site(root).get(key)
    if own is not None:
        return str(own)
    sites = settings.config.sites
    here = [site for site in sites.values() if site.root and os.path.abspath(site.root) == str(root.path)]
    value = getattr((here or [sites.get("local", SiteConfig())])[0], key)
    return "" if value is None else str(value)


def cli_store(root: Root, settings: Settings) -> Path:
    """The site's store of CLIs."""
    configured = site_word(root, settings, "cli_store")
    return Path(os.path.abspath(os.path.expanduser(configured))) if configured else default_store()
