"""Which sandbox a step gets (design §6). There is no way to fall out of isolation by default.

`process` is chosen in two cases only: the configuration says `process`, or the protocol is `demo`, every agent of the
run is one of the trusted ones, and nothing that isolates can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ptb_tui.core.errors import ConfigError, NotAllowed
from ptb_tui.sandbox.apptainer import Apptainer
from ptb_tui.sandbox.base import Sandbox
from ptb_tui.sandbox.bubblewrap import Bubblewrap
from ptb_tui.sandbox.process import Process

OVER_IMAGES = ("apptainer", "singularity")  # these need an image
_BY_NAME = ("singularity",)  # never chosen by `auto`: its command is rendered, but was not run by us
_INSTALL = "install the package `apptainer` or `bubblewrap`; `ptb-tui doctor` says what this machine allows"


def isolating(
    image: Path | None = None, prefixes: Sequence[Path] = (), scratch: Path | None = None
) -> dict[str, Callable[[], Sandbox]]:
    """What isolates, in the order in which `auto` tries it. The arguments are those of `Apptainer`."""
    return {
        "apptainer": lambda: Apptainer(image, prefixes=prefixes, scratch=scratch),
        "bubblewrap": Bubblewrap,
        "singularity": lambda: Apptainer(image, name="singularity", prefixes=prefixes, scratch=scratch),
    }


ISOLATING: Mapping[str, Callable[[], Sandbox]] = isolating()


def choose(
    configured: str,
    *,
    protocol: str,
    agents_trusted: bool,
    isolating: Mapping[str, Callable[[], Sandbox]] = ISOLATING,
) -> Sandbox:
    """The sandbox for all steps of a run.

    `configured` is the site's word: auto, process, or the name of one that isolates. `agents_trusted` says that every
    agent of the run is one of the product's three trusted ones. NotAllowed, naming what to install or to set, when
    what was asked cannot be had; ConfigError when the word is unknown.
    """
    if configured == "process":
        return Process()
    if configured != "auto":
        if configured not in isolating:
            known = ", ".join(("auto", *isolating, "process"))
            raise ConfigError(f"there is no sandbox {configured!r}; known are {known}")
        found = isolating[configured]()
        works, reason = found.probe()
        if not works:
            raise NotAllowed(f"the configured sandbox does not work here: {reason}", hint=_INSTALL)
        return found
    reasons = []
    for name, make in isolating.items():
        if name in _BY_NAME:
            continue
        found = make()
        works, reason = found.probe()
        if works:
            return found
        reasons.append(reason)
    if protocol == "demo" and agents_trusted:
        return Process()
    raise NotAllowed(f"no sandbox for agents here: {'; '.join(reasons) or 'none is known'}", hint=_INSTALL)
