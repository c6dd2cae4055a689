"""Results trees out of published tables: `tests/data/results/golden.json`."""

import json
from pathlib import Path
from typing import Any

from ptb_tui.content.lookup import Content
from ptb_tui.content.protocols import load_protocol
from ptb_tui.content.references import load_references
from ptb_tui.core.layout import Root
from ptb_tui.results.collect import Rules, rules_of
from tests.results.trees import CLEAN, MODELS, foreign_run

DATA = Path(__file__).parents[1] / "data" / "results"
GOLDEN: dict[str, Any] = json.loads((DATA / "golden.json").read_text())
PUBLISHED: dict[str, Any] = json.loads((DATA / "published.json").read_text())
FULL = {model.rpartition("/")[2]: model for model in MODELS}
FIRST_ID = 17_500_000


def rules(protocol: str) -> Rules:
    content = Content.of()
    return rules_of(load_protocol(content, protocol), load_references(content, protocol))


def method_name(name: str) -> str:
    """A published name as a method directory."""
    return name if name.endswith("h") or "h_" in name else f"agent_{name.replace(' ', '-')}_10h"


def tree(root: Root, version: str) -> dict[str, dict[str, Any]]:
    """A run for each published cell of one version; returns the published rows by method."""
    rows = {method_name(row["name"]): row for row in GOLDEN["methods"] if row["version"] == f"v{version}"}
    number = FIRST_ID
    for method, row in rows.items():
        for model, cells in row["cells"].items():
            for benchmark, value in cells.items():
                number += 1
                foreign_run(root, method, benchmark, FULL[model], number, metrics=json.dumps({"accuracy": value}),
                            verdicts=CLEAN)  # fmt: skip
    return rows
