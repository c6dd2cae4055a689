"""What this machine keeps for runs, as a site answers and does: images and the cache of the hub."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptb_tui.core.action import BuildImage, CacheHub, Receipt
from ptb_tui.core.errors import ContentError, NotFound, PtbError
from ptb_tui.core.supply import (
    DataQuery,
    DataView,
    ImageFile,
    ImageRow,
    ImagesQuery,
    ImagesView,
    RepoRow,
    WorkQuery,
    WorkView,
)
from ptb_tui.run import work as working
from ptb_tui.supplies import claims, hub, hubapi, hubcache, imagebuild, recipes
from ptb_tui.supplies import images as store

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite


def _content_file(site: LocalSite, name: str) -> Path:
    found = site.content.file(f"containers/{name}")
    if found is None:
        raise ContentError(f"containers/{name} is in no content folder", hint="the shipped content has it")
    return found


def _recipes(site: LocalSite) -> recipes.Recipes:
    return recipes.Recipes.read(_content_file(site, "images.toml"))


def work(site: LocalSite, query: WorkQuery) -> WorkView:
    """How a piece of work stands, and what it printed since."""
    found = working.look(site.root, query.work, query.offset)
    return WorkView(
        id=found.id,
        what=found.kind,
        subject=found.subject,
        state=found.state,
        words=found.words,
        done=found.done,
        total=found.total or None,
        log=found.log,
        next=found.next,
        error=dict(found.error) if found.error else None,
        started=found.started,
    )


def begin(site: LocalSite, kind: str, subject: str, request: Mapping[str, Any]) -> Receipt:
    """Begin work on the site; the receipt names it."""
    command, env = site.program()
    number, new = working.start(site.root, kind, subject, request, command, env)
    words = "began" if new else "is under way already"
    return Receipt(action=kind, words=f"{subject}: {words} (work {number})", work=number)


def images(site: LocalSite, query: ImagesQuery) -> ImagesView:
    """Recipes and images, by name."""
    folder, known = store.containers_dir(site.settings.values), _recipes(site)
    if query.recipe:
        text = _order(known, folder, query.recipe, query.root).text
        return ImagesView(folder=str(folder), program=store.builder(), definition=text)
    building = store.being_built(folder)
    found: dict[str, list[store.Image]] = {}
    for image in store.images(folder):
        found.setdefault(image.name, []).append(image)
    rows = []
    for name in (*known.names(), *(name for name in found if name not in known.names())):
        recipe = known.table.images.get(name)
        text = recipes.digest(known.render(name)) if recipe else ""
        made = [_file(image, text) for image in found.get(name, ())]
        rows.append(
            ImageRow(
                name=name,
                words=recipe.words if recipe else "",
                role=(recipe.role or "") if recipe else "",
                recipe=recipe is not None,
                building=building.get(name, ""),
                current=next((image for image in made if image.current), None),
                older=tuple(image for image in made if not image.current),
            )
        )
    return ImagesView(folder=str(folder), program=store.builder(), images=tuple(rows))


def _file(image: store.Image, recipe: str) -> ImageFile:
    comparable = recipe and image.recipe and image.source == "recipe"
    return ImageFile(
        name=image.name,
        file=image.file,
        digest=image.digest,
        size=image.size,
        current=image.current,
        built=image.built,
        source=image.source,
        changed=image.recipe != recipe if comparable else None,
    )


def _order(known: recipes.Recipes, folder: Path, name: str, root: str) -> imagebuild.Order:
    store.checked_name(name)
    if root:
        return imagebuild.from_folder(name, folder, Path(os.path.abspath(os.path.expanduser(root))))
    return imagebuild.Order(name, folder, known.render(name))


def build_image(site: LocalSite, action: BuildImage) -> Receipt:
    """Begin a build. NotFound for an unknown name and where there is no program for it."""
    order = _order(_recipes(site), store.containers_dir(site.settings.values), action.name, action.root)
    if not store.builder():
        hint = "build where it is and copy the file to the folder of images; docs/containers.md"
        raise NotFound("apptainer is not installed here", hint=hint)
    request = {"name": order.name, "folder": str(order.folder), "text": order.text, "root": str(order.root or "")}
    return begin(site, "image", order.name, request)


def _hub(site: LocalSite) -> tuple[Path, hubapi.Hub]:
    values = site.settings.values
    home = hub.home(values)
    return home, hubapi.Hub(endpoint(site), hubcache.token(values, home))


def endpoint(site: LocalSite) -> str:
    """Where the hub is."""
    return site.settings.values.get("HF_ENDPOINT") or os.environ.get("HF_ENDPOINT") or hubapi.ENDPOINT


def data(site: LocalSite, query: DataQuery) -> DataView:
    """What of the hub is cached, what the tasks have, or both."""
    view = _cached(site, query) if query.what != "tasks" else DataView()
    if query.what == "hub":
        return view
    from ptb_tui.site import taskdata

    store, fetching, tasks = taskdata.rows(site, query)
    return view.model_copy(update={"store": str(store), "fetching": fetching, "tasks": tasks})


def _cached(site: LocalSite, query: DataQuery) -> DataView:
    """What of the manifest is cached; with `ask`, how large the rest is at the hub, and what it refuses."""
    repos = hub.Manifest.read(_content_file(site, "hub_manifest.json")).repos(query.only)
    home, found = _hub(site)
    states = {repo: hub.state(home, repo) for repo in repos}
    absent = [repo for repo in repos if states[repo].state != "cached"]
    answers = hubcache.sizes(found, absent) if query.ask else {}
    rows = []
    for repo in repos:
        now, answer = states[repo], answers.get(repo)
        row = RepoRow(what=repo.kind, id=repo.id, state=now.state, commit=now.commit, words=now.words)
        if now.state == "cached":
            row = row.model_copy(update={"size": now.size})
        elif isinstance(answer, PtbError):
            row = row.model_copy(update={"words": answer.message, "remedy": answer.hint})
        elif answer is not None:
            row = row.model_copy(update={"size": answer.size})
            if answer.gated:
                row = row.model_copy(update={"words": "gated", "remedy": found.terms(repo)})
        rows.append(row)
    existing = next(path for path in (home, *home.parents) if path.is_dir())
    return DataView(
        home=str(home),
        free=shutil.disk_usage(existing).free,
        filling=claims.holder(home / "ptb" / "caching.json"),
        repos=tuple(rows),
    )


def cache_hub(site: LocalSite, action: CacheHub) -> Receipt:
    """Begin to fill the cache. NotFound when nothing of the manifest fits `only`."""
    repos = hub.Manifest.read(_content_file(site, "hub_manifest.json")).repos(action.only)
    home, _ = _hub(site)
    request = {
        "home": str(home),
        "endpoint": endpoint(site),
        "refresh": action.refresh,
        "repos": [[repo.kind, repo.id] for repo in repos],
    }
    return begin(site, "hub", f"cache {home}" + (f" ({action.only})" if action.only else ""), request)
