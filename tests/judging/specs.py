"""The shipped judges, as the tests use them."""

import tomllib
from pathlib import Path

from ptb_tui.core.verdict import JudgeSpec

JUDGES = Path(__file__).parents[2] / "judges"
NAMES = ("data_contamination_judge", "api_usage_judge", "ptb_lookup_judge", "general_judge")


def spec(name: str) -> JudgeSpec:
    return JudgeSpec.model_validate(tomllib.loads((JUDGES / name / "judge.toml").read_text()))


CONTAMINATION, API, LOOKUP, GENERAL = map(spec, NAMES)
