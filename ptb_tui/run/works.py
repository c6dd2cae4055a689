"""The kinds of work on a site, by name; each reads its request and reports as it goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptb_tui.core import settings
from ptb_tui.run.work import Doer, Report


def baseline(request: Mapping[str, Any], report: Report) -> str:
    """Request: that of `run.measuring`."""
    from ptb_tui.run import measuring

    return measuring.baseline(request, report)


def build_image(request: Mapping[str, Any], report: Report) -> str:
    """Request: name, folder, text, root (empty for a recipe)."""
    from ptb_tui.supplies import imagebuild

    root = Path(str(request["root"])) if request["root"] else None
    order = imagebuild.Order(str(request["name"]), Path(str(request["folder"])), str(request["text"]), root)

    def say(line: str) -> None:
        report.line(line)
        if line.strip():
            report.now(line.strip()[:200])

    return f"built {imagebuild.build(order, say)}"


def cache_hub(request: Mapping[str, Any], report: Report) -> str:
    """Request: home, repos as (kind, id), refresh, endpoint. The token comes from the settings of the site."""
    from ptb_tui.supplies import hub, hubapi, hubcache

    home = Path(str(request["home"]))
    repos = [hub.Repo(kind, name) for kind, name in request["repos"]]
    account = hubcache.token(settings.load(cwd=Path("/")).values, home)
    found = hubapi.Hub(str(request["endpoint"]), account)
    outcome = hubcache.cache(home, repos, found, report.line, report.now, refresh=bool(request["refresh"]))
    return hubcache.summary(outcome)


def calibrate(request: Mapping[str, Any], report: Report) -> str:
    """Request: that of `run.calibrating`."""
    from ptb_tui.run import calibrating

    return calibrating.calibrate(request, report)


def fetch_data(request: Mapping[str, Any], report: Report) -> str:
    """Request: store, content (the content path), tasks, refresh, given (a folder or empty), endpoint. The tokens come
    from the settings of the site.
    """
    from ptb_tui.content.lookup import Content
    from ptb_tui.content.tasks import load_task
    from ptb_tui.run import datasources, fetching
    from ptb_tui.supplies import hub, hubcache

    store, given = Path(str(request["store"])), Path(str(request["given"])) if request["given"] else None
    values, refresh = settings.load(cwd=Path("/")).values, bool(request["refresh"])
    content = Content(tuple(Path(str(path)) for path in request["content"]))
    provider: datasources.Provider = datasources.Online(
        store / fetching.SOURCES,
        str(request["endpoint"]),
        values,
        fallback=hubcache.token({}, hub.home(values)),
        refresh=refresh,
    )
    if given is not None:
        provider = datasources.Folder(given)
    tasks = [load_task(content, str(name), store) for name in request["tasks"]]
    return fetching.summary(fetching.Fetch(store, provider, report.line, report.now, refresh, given).run(tasks))


def judge_aside(request: Mapping[str, Any], report: Report) -> str:
    """Request: that of `run.judging_aside`."""
    from ptb_tui.run import judging_aside

    return judging_aside.judge(request, report)


def update_cli(request: Mapping[str, Any], report: Report) -> str:
    """Request: store, name, cli (its declaration), node (the package with Node), version (empty for the newest), keep
    (whether what is current stays so).
    """
    from ptb_tui.supplies import getting
    from ptb_tui.supplies.clis import Cli
    from ptb_tui.supplies.store import Store

    def say(line: str) -> None:
        report.line(line)
        report.now(line[:200], force=True)

    name, version = str(request["name"]), str(request["version"])
    cli, store = Cli.model_validate(request["cli"]), Store(Path(str(request["store"])))
    keep = bool(request["keep"])
    found = getting.update(store, name, cli, str(request["node"]), version, say, keep=keep)
    if keep:
        current = store.current(name)
        now = f"{current.version} is current" if current else f"no version of {name} is current"
        return f"{name} {found.version} is in the store, digest {found.digest[:12]}; {now}"
    pinned = store.choose(name)
    words = f"{name} {found.version} is current, digest {found.digest[:12]}"
    if pinned.found is None or pinned.found.name != found.name:
        words += f"; runs still get {pinned.wanted}, to which {name} is pinned"
    return words


DOERS: Mapping[str, Doer] = {
    "baseline": baseline,
    "calibration": calibrate,
    "cli": update_cli,
    "data": fetch_data,
    "hub": cache_hub,
    "image": build_image,
    "judging": judge_aside,
}
