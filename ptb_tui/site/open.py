"""Sites by name: this machine, or `[sites.NAME]` of `config.toml`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ptb_tui.core.errors import ConfigError
from ptb_tui.core.settings import Settings

if TYPE_CHECKING:
    from ptb_tui.site.api import Site


def local_rows(settings: Settings, **wanted: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The runs of this machine as plain values, and problems in words: what `ask(RunsQuery(…))` answers, sooner.

    `wanted` are fields of `RunsQuery`.
    """
    from ptb_tui.content.lookup import Content
    from ptb_tui.site import listing

    found = listing.scan(listing.stores(settings.results, settings, Content.configured(settings)))
    return list(listing.rows(found, listing.Wanted(**wanted))), found.problems


async def open_site(settings: Settings, name: str) -> Site:
    """The site of that name. It is reached at its first call; close it when done.

    A site with transport `command` gives the whole argv of the far end:
    `command = ["ssh", "-T", "HOST", "ptb-tui", "serve", "/path/of/results"]`.
    ConfigError for an unknown name, a missing results root, or a transport that does not exist.
    """
    config = settings.site(name)
    where = f"{settings.config_file or 'config.toml'}: [sites.{name}]"
    if config.transport == "local":
        from ptb_tui.site.local import LocalSite  # only where it is needed: it brings the whole machine room

        return LocalSite(settings, settings.results, name)
    if config.transport == "command":
        if not config.command:
            raise ConfigError(
                f"{where}: transport `command` needs `command`",
                hint=f'command = ["ssh", "-T", "{config.host or "HOST"}", "ptb-tui", "serve", "/path/of/results"]',
            )
        from ptb_tui.site.remote import RemoteSite
        from ptb_tui.site.transport.command import open_command

        return RemoteSite(name, partial(open_command, config.command))
    if config.transport == "ssh":
        raise ConfigError(
            f"{where}: transport `ssh` is not available yet",
            hint='transport = "command" with the system\'s ssh: '
            f'command = ["ssh", "-T", "{config.host or "HOST"}", "ptb-tui", "serve", "/path/of/results"]',
        )
    raise ConfigError(f"{where}: unknown transport {config.transport!r}; known: local, command, ssh")
