"""The quick list says exactly what the site answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import settings
from ptb_tui.core.layout import Root
from ptb_tui.core.query import RunsQuery
from ptb_tui.site.local import LocalSite
from ptb_tui.site.open import local_rows
from tests.results.trees import foreign_run, own_run


@pytest.mark.parametrize("wanted", [{}, {"active": True}, {"failed": True}, {"match": "codex"}, {"sweep": "no such"}])
async def test_quick_and_asked_are_the_same(tmp_path: Path, wanted: dict[str, Any]) -> None:
    root = Root(tmp_path / "results")
    root.ptb.mkdir(parents=True)
    own_run(root, 1_800_000_000, experiment="_run1")
    foreign_run(root, "codex_gpt-5_10h", "gsm8k", "Qwen/Qwen3-4B-Base", 17_500_000, started="2026-08-01T10:00:00Z")
    (root.path / "codex_gpt-5_10h" / "odd name").mkdir()
    known = settings.load(results=root.path, cwd=tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path)})
    answer = await LocalSite(known, root.path).ask(RunsQuery(**wanted))
    rows, problems = local_rows(known, **wanted)
    assert json.loads(json.dumps(rows)) == [row.model_dump(mode="json") for row in answer.runs]
    assert problems == answer.problems and len(rows) == {"{}": 2, "{'match': 'codex'}": 1}.get(str(wanted), 0)
