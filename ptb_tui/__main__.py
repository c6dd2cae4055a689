"""The one entry: internal verbs go to their modules by name, everything else to the command line.

Outside the layers; a bundle holds a copy of this file as `ptb`.
"""

import os
import sys
from importlib import import_module

VERBS = {
    "serve": "ptb_tui.site.serve:main",
    "dispatch": "ptb_tui.run.dispatch:main",
    "supervise": "ptb_tui.run.supervisor:main",
    "sign-in": "ptb_tui.site.signin:main",
    "shim": "ptb_tui.run.shim:main",
    "companion": "ptb_tui.run.companion:main",
    "renew-login": "ptb_tui.run.renewing:main",
    "follow": "ptb_tui.run.follow:main",
    "work": "ptb_tui.run.work:main",
    "step-prepare": "ptb_tui.run.steps.agent:main",
    "step-keys": "ptb_tui.run.steps.keys:main",
    "step-harvest": "ptb_tui.run.harvest:harvest_main",
    "step-judge": "ptb_tui.run.steps.judge:main",
    "step-calibrate": "ptb_tui.run.steps.calibrate:main",
    "step-evaluate": "ptb_tui.run.steps.evaluate:main",
}


def main() -> int:
    """Run the verb in `sys.argv`; returns the exit code."""
    here = os.path.dirname(os.path.abspath(__file__))
    top = here if os.path.isdir(os.path.join(here, "ptb_tui")) else os.path.dirname(here)
    if top not in sys.path:  # a bundle, or a source tree that was not installed
        sys.path.insert(0, top)
    target = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if target is None:
        return int(import_module("ptb_tui.cli").main() or 0)
    module, _, function = target.partition(":")
    return int(getattr(import_module(module), function)(sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
