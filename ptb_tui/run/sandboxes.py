"""The sandbox of a run's steps: the site's word, the protocol's rule and the agent's trust put together (design §6)."""

from __future__ import annotations

from ptb_tui.content.agents import load_agent
from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.core.layout import Root, RunFiles
from ptb_tui.core.spec import RunSpec
from ptb_tui.run import place
from ptb_tui.sandbox.base import Sandbox
from ptb_tui.sandbox.select import choose


def root_of(run: RunFiles) -> Root:
    """The results root of a run: `<root>/<method>/<run>/.ptb` or `<root>/_ptb/queue/<id>`."""
    return Root(run.ptb.parents[2])


def for_run(root: Root, spec: RunSpec, content: Content, configured: str = "auto") -> Sandbox:
    """The sandbox for every step of the run. NotAllowed, with what to install, when there is none.

    `configured` is the operator's word, used until the site has written its own part of the configuration.
    """
    protocol = load_protocol(content, spec.protocol.name)
    trusted = spec.agent in protocol.process_agents and load_agent(content, spec.agent).trusted
    word = str(place.site(root).get("sandbox") or configured)
    return choose(word, protocol=protocol.name, agents_trusted=trusted)
