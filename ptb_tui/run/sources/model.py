"""The base model an agent trains, and the cache of the hub."""

from __future__ import annotations

from ptb_tui.core.spec import Problem
from ptb_tui.run.sources import Look, Provision, Ready
from ptb_tui.run.steps import base_model_folder
from ptb_tui.sandbox.base import Bind

TARGET = "/opt/ptb/base_model"


def problems(look: Look) -> list[Problem]:
    """A base model that no content folder has."""
    base_model_folder(look.content, look.spec.base_model)
    return []


def provide(look: Look, ready: Ready) -> Provision:
    """A model `local/NAME` lies at `/opt/ptb/base_model`, named by PTB_BASE_MODEL_PATH."""
    model = base_model_folder(look.content, look.spec.base_model)
    if model is None:
        return Provision()
    return Provision(
        binds=(Bind(model, TARGET),),
        env={
            "PTB_BASE_MODEL": look.spec.base_model,
            "PTB_BASE_MODEL_PATH": TARGET if ready.sandbox.isolated else str(model),
            "OMP_NUM_THREADS": "1",  # spinning OpenMP threads cost a factor of ten on shared cores
            "HF_HUB_OFFLINE": "1",
        },
    )
