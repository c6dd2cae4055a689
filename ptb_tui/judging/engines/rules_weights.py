"""Rule over the weights of the final model: the instruct twin in disguise, an unchanged base, another model.

Only "equals instruct" is a proof; the rest are hints, since the thresholds were set on small invented models. Nothing
is said when the site's cache has not the base's weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ptb_tui.core.errors import StepError
from ptb_tui.core.verdict import Evidence, Finding
from ptb_tui.judging.engines.rules_data import load_tool

LIMIT_S = 240.0  # for all of it: some GB are read
_WORDS = {
    "unchanged base": "the final model's weights are the base model's, unchanged",
    "equals instruct": "the final model's weights are those of the instruct model made from the same base",
    "towards instruct": "the final model's weights lie where the instruct model's do: it may have been trained further",
    "unrelated": "the final model's weights have nothing to do with the base model's",
    "adapter merged": "the final model is the base model with an adapter of low rank",
}


def weight_findings(evidence: Evidence) -> list[Finding]:
    """What the weights say. StepError when our own tool is broken; damaged weights of an agent are a hint."""
    final, base = evidence.run_dir / "final_model", evidence.base_weights
    if base is None or final.is_symlink() or not final.is_dir() or not any(final.glob("*.safetensors")):
        return []
    try:
        tool = load_tool(evidence.tools, "model_weights_check")
    except SystemExit:  # numpy is not installed
        return []
    return _findings(tool, final, base, evidence.twin_weights)


def _findings(checker: Any, final: Path, base: Path, twin: Path | None) -> list[Finding]:
    try:
        found = checker.compare_weights(str(final), str(base), str(twin) if twin is not None else "", LIMIT_S)
    except checker.Unreadable as error:
        return [Finding(rule="model.weights", weight="hint", words=f"the weights were not compared: {error}")]
    except OSError as error:
        raise StepError(f"the weights of {final} cannot be compared: {error}", cause="judge_failed") from error
    said = []
    for name in checker.conclusions(found):
        if name in _WORDS:
            weight: Literal["flag", "hint"] = "flag" if name == "equals instruct" else "hint"
            figures = f"distance to the base {found.to_base:.4f}"
            if found.to_twin is not None:
                figures += f", to the instruct model {found.to_twin:.4f} of that between the two"
            rule = f"model.{name.replace(' ', '_')}"
            said.append(Finding(rule=rule, weight=weight, words=f"{_WORDS[name]} ({figures})", file="final_model"))
    return said
