"""The base model an agent trains, and the cache of the hub (H §1.8)."""

from __future__ import annotations

from ptb_tui.core.errors import StepError
from ptb_tui.core.spec import Problem
from ptb_tui.run import hubview
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.run.steps import base_model_folder
from ptb_tui.sandbox.base import Bind
from ptb_tui.supplies import hub

TARGET = "/opt/ptb/base_model"


def problems(look: Look) -> list[Problem]:
    """A base model that no content folder has (StepError), or that the site's cache of the hub has not whole."""
    model = look.spec.base_model
    if base_model_folder(look.content, model) is not None:
        return []
    words = _missing(look)
    return [Problem(words=words, remedy=f"ptb-tui data cache --only {model}")] if words else []


def provide(look: Look, ready: Ready) -> Provision:
    """A model `local/NAME` lies at `/opt/ptb/base_model`, named by PTB_BASE_MODEL_PATH. One of the hub is found under
    its name in HF_HOME, which shows the site's cache. StepError when the model is not there.
    """
    model = base_model_folder(look.content, look.spec.base_model)
    if model is None:
        return _of_the_hub(look, ready)
    return Provision(
        binds=(Bind(model, TARGET),),
        env={
            "PTB_BASE_MODEL": look.spec.base_model,
            "PTB_BASE_MODEL_PATH": TARGET if ready.sandbox.isolated else str(model),
            "OMP_NUM_THREADS": "1",  # spinning OpenMP threads cost a factor of ten on shared cores
            "HF_HUB_OFFLINE": "1",
        },
    )


def _missing(look: Look) -> str:
    home = hub.home(look.settings.values)
    found = hub.state(home, hub.Repo("model", look.spec.base_model))
    if found.state == "cached":
        return ""
    if found.state == "partial":
        return f"the base model {look.spec.base_model} is in the cache {home} only in part: {found.words}"
    return f"the base model {look.spec.base_model} is not in the cache {home}"


def _of_the_hub(look: Look, ready: Ready) -> Provision:
    if words := _missing(look):
        raise StepError(
            words, cause="prepare_failed", hint=f"`ptb-tui data cache --only {look.spec.base_model}`, then retry"
        )
    home = hub.home(look.settings.values)
    view = hubview.lay_out(home, ready.home / "hf_cache", isolated=ready.sandbox.isolated)
    commit = hub.state(home, hub.Repo("model", look.spec.base_model)).commit
    return Provision(
        binds=tuple(view.binds),
        env={"HF_HUB_OFFLINE": "1"} if look.spec.network == "none" else {},
        notes=view.notes,
        facts={"model": look.spec.base_model, "commit": commit, "files": view.files},
    )
