"""Models measured as they are, as a site answers and does (E §6.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptb_tui.core.action import Baseline, Receipt
from ptb_tui.core.baseline import BaselinesQuery, BaselinesView
from ptb_tui.core.errors import NotAllowed
from ptb_tui.run import baselines
from ptb_tui.run.baselines import Here
from ptb_tui.run.graders import named
from ptb_tui.site import supplies

if TYPE_CHECKING:
    from ptb_tui.site.local import LocalSite


def _here(site: LocalSite) -> Here:
    return Here(site.root, site.content, site.settings, site.config.sandbox, named(site.config.endpoints))


def answer(site: LocalSite, query: BaselinesQuery) -> BaselinesView:
    """What was measured here, and what an order would do. NotFound or NotAllowed for an order that names nothing."""
    plan, model = None, query.model
    if query.order is not None:
        found = baselines.ready(_here(site), query.order)
        plan = baselines.plan(_here(site), found)
        model = found.model.name
    return BaselinesView(rows=tuple(baselines.kept(site.root, query.task, model)), plan=plan)


def begin(site: LocalSite, action: Baseline) -> Receipt:
    """Begin to measure. NotAllowed with the first thing that stands in the way."""
    order, here = action.order, _here(site)
    plan = baselines.plan(here, baselines.ready(here, order))
    blocking = [one for one in plan.problems if one.blocks]
    if blocking:
        more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
        raise NotAllowed(blocking[0].words + more, hint=blocking[0].remedy)
    request = {
        "root": str(site.root.path),
        "content": [str(path) for path in site.content.paths],
        "order": order.model_dump(mode="json"),
        "operator": action.operator or site.settings.operator,
        "sandbox": here.sandbox,
        "endpoints": dict(here.endpoints),
    }
    what = "answers of" if order.answers else "baseline of"
    details = "".join(f", {name} {value}" for name, value in _asked(order.seeds, order.limit, order.protocol))
    return supplies.begin(site, "baseline", f"{what} {plan.model} on {plan.task}{details}", request)


def _asked(seeds: int, limit: int, protocol: str) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    if protocol:
        pairs.append(("protocol", protocol))
    if seeds:
        pairs.append(("seeds", seeds))
    if limit != -1:
        pairs.append(("items", limit))
    return pairs
