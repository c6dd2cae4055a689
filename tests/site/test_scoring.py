"""Scores at a site: decisions about runs, further roots, files, and what is not computed again."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.action import Action, Collect, Pin, Receipt, Undo, Void
from ptb_tui.core.errors import NotAllowed, PtbError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.query import ScoresQuery
from ptb_tui.core.scores import CellScore
from ptb_tui.core.settings import load
from ptb_tui.core.spec import ProtocolRef
from ptb_tui.site import scoring
from ptb_tui.site.actions import Doer
from ptb_tui.site.local import LocalSite
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, settle

METHOD = "codex_gpt-5.1_10h"
OURS: dict[str, Any] = {"agent": "codex", "config": "gpt-5.1", "hours": 10.0, "gpus": 1, "benchmark": "gsm8k",
                        "base_model": MODELS[0], "protocol": ProtocolRef(name="1.2", fingerprint="f1")}  # fmt: skip


def site(root: Path, *extra: Path) -> LocalSite:
    return LocalSite(load(results=root, extra=extra, cwd=root, environ={"HOME": str(root.parent)}), root)


def done(place: LocalSite, action: Action, token: str) -> Receipt:
    return Doer(place).do(action.model_copy(update={"operator": "ann"}), token)


def cell(place: LocalSite, policy: str = "finished") -> CellScore:
    board = scoring.board(place, "1.2", policy)
    return next(
        cell for row in board.methods for cell in row.cells if (cell.benchmark, cell.model) == ("gsm8k", MODELS[0])
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    (root / "_ptb").mkdir(parents=True)
    return root


def test_what_never_ended_displaces_nothing_and_what_was_scored_later_does(results: Path) -> None:
    root, place = Root(results), site(results)
    foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001, started="2026-08-01T00:00:00Z")
    before = cell(place).model_copy(update={"other_runs": ()})
    assert (before.run_id, before.used, before.by) == (17_500_001, 0.5, "finished")
    own_run(root, 1_800_000_001, place="queue", outcome="queued", **OURS)
    own_run(root, 1_800_000_002, place="never_started", outcome="cancelled", **OURS)
    own_run(root, 1_800_000_003, outcome="failed", cause="gpu", metrics=None, verdicts=None, **OURS)
    after = cell(place)
    assert after.model_copy(update={"other_runs": ()}) == before
    assert after.other_runs == (1_800_000_001, 1_800_000_002, 1_800_000_003)
    assert cell(place, "upstream").run_id == 1_800_000_003
    foreign_run(
        root, METHOD, "gsm8k", MODELS[0], 17_500_002, started="2026-08-02T00:00:00Z", metrics='{"accuracy": 0.6}'
    )
    later = cell(place)
    assert (later.run_id, later.used) == (17_500_002, 0.6) and 17_500_001 in later.other_runs
    assert cell(place, "upstream").run_id == 1_800_000_003  # the highest id, whatever it holds


def test_a_pin_stands_until_it_is_undone(results: Path) -> None:
    root, place = Root(results), site(results)
    first = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001, started="2026-08-01T00:00:00Z")
    foreign_run(
        root, METHOD, "gsm8k", MODELS[0], 17_500_002, started="2026-08-02T00:00:00Z", metrics='{"accuracy": 0.6}'
    )
    listed = sorted(path.name for path in first.iterdir())
    assert done(place, Pin(run="17500001", reason="the other had a broken image"), "t1").runs[0].words == "pinned"
    found = cell(place)
    assert (found.run_id, found.by, found.other_runs) == (17_500_001, "pin", (17_500_002,))
    assert "pinned: the other had a broken image (ann)" in found.reason
    assert cell(place, "upstream").run_id == 17_500_002
    done(place, Pin(run="17500002"), "t2")  # the newest pin of a cell counts
    assert cell(place).run_id == 17_500_002
    done(place, Undo(run="17500002"), "t3")
    assert cell(place).run_id == 17_500_001
    done(place, Undo(run="17500001", what="pin"), "t4")
    assert (cell(place).run_id, cell(place).by) == (17_500_002, "finished")
    assert sorted(path.name for path in first.iterdir()) == listed  # a run of others is never written to
    with pytest.raises(NotAllowed, match="no pin and no void in force"):
        done(place, Undo(run="17500001"), "t5")


def test_void_and_undo_of_a_run_of_ours(results: Path) -> None:
    root, place = Root(results), site(results)
    run = own_run(root, 1_800_000_001, start="2026-08-02T00:00:00.000Z", **OURS)
    assert cell(place).used == 0.7
    with pytest.raises(UsageError, match="needs its reason"):
        done(place, Void(run="1800000001", reason=" "), "t0")
    done(place, Void(run="1800000001", reason="leaked\x1b[31m key"), "t1")
    found = cell(place)
    assert (found.worth.value, found.run_id, found.other_runs) == ("void", None, (1_800_000_001,))
    assert "leaked key" in found.reason
    with pytest.raises(NotAllowed, match="is void"):
        done(place, Pin(run="1800000001"), "t2")
    done(place, Undo(run="1800000001", reason="it was another key"), "t3")
    assert cell(place).used == 0.7
    reviews = sorted((run / ".ptb" / "reviews").iterdir())
    kept = [json.loads(path.read_text()) for path in reviews]
    assert [(review["kind"], review["operator"]) for review in kept] == [("void", "ann"), ("undo", "ann")]


def test_runs_of_a_root_that_is_only_read_are_decided_about_beside_ours(results: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    run = foreign_run(Root(theirs), METHOD, "gsm8k", MODELS[0], 17_500_001)
    foreign_run(Root(theirs), "other_x_10h", "gsm8k", MODELS[0], 17_500_003)
    foreign_run(Root(results), "other_x_10h", "gsm8k", MODELS[0], 17_500_002, metrics='{"accuracy": 0.9}')
    settle(theirs)
    place = site(results, theirs, results)
    assert len(place.stores) == 2
    before = sorted(str(path) for path in theirs.rglob("*"))
    assert cell(place).run_id == 17_500_001
    done(place, Void(run=str(run), reason="not this one"), "t1")
    board = scoring.board(place, "1.2", "finished")
    void = next(
        cell for row in board.methods if row.method == METHOD for cell in row.cells if cell.benchmark == "gsm8k"
    )
    assert void.worth.value == "void"
    ours = next(cell for row in board.methods if row.method == "other_x_10h" for cell in row.cells if cell.run_id)
    assert ours.run_id == 17_500_002  # a method of an earlier root wins
    assert any("other_x_10h: also in another results root" in words for words in board.problems)
    assert sorted(str(path) for path in theirs.rglob("*")) == before


def test_collect_writes_once_and_again_when_something_changed(results: Path) -> None:
    run = foreign_run(Root(results), METHOD, "gsm8k", MODELS[0], 17_500_001)
    settle(results)
    place = site(results)
    first = done(place, Collect(protocol="1.2"), "t1")
    assert "_aggregated/cells.json" in first.files and first.cells == {"scored": 1, "missing": 23}
    rows = json.loads((results / "_aggregated" / "cells.json").read_text())["cells"]
    row = next(row for row in rows if row["run_id"] == 17_500_001)
    assert {"raw": 0.5, "used": 0.5, "status": "scored", "by": "finished"}.items() <= row.items()
    assert (results / "_aggregated" / "cells.csv").read_text().count("\n") == 25
    again = done(site(results), Collect(protocol="1.2"), "t2")
    assert again.words == f"nothing changed: the {len(first.files)} files in _aggregated are up to date"
    assert again.files == () and again.cells == first.cells
    assert not done(site(results), Collect(protocol="1.2", policy="upstream"), "t3").words.startswith("nothing")
    (results / "_aggregated" / "cells.csv").unlink()
    assert not done(site(results), Collect(protocol="1.2", policy="upstream"), "t4").words.startswith("nothing")
    (run / "metrics.json").write_text('{"accuracy": 0.25}')
    done(site(results), Collect(protocol="1.2", policy="upstream"), "t5")
    assert '"raw":0.25' in (results / "_aggregated" / "cells.json").read_text()


class Page(HTMLParser):
    """Tags that are open, and everything a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]
        self.active += [tag] if tag in ("script", "iframe", "object", "link", "img") or names else []
        self.open += [tag] if tag not in ("meta", "br") else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_page_that_runs_and_fetches_nothing(results: Path, tmp_path: Path) -> None:
    root = Root(results)
    evil = '<script>alert(1)</script>"><img src=x onerror=y>|`[x](http://x)`'
    run = foreign_run(root, METHOD, "gsm8k", MODELS[0], 17_500_001, verdicts={**CLEAN, "api_usage_judge": ()})
    (run / "metrics.json").write_text(json.dumps({"accuracy": evil}))
    foreign_run(root, "other_x_10h", "gsm8k", MODELS[1], 17_500_002,
                verdicts={**CLEAN, "data_contamination_judge": ("contamination",)})  # fmt: skip
    groups = {evil[:60].replace("/", "-"): (METHOD, "other_x_10h")}
    receipt = done(site(results), Collect(protocol="1.2", groups=groups, report=str(tmp_path / "report")), "t1")
    assert str(tmp_path / "report" / "report.html") in receipt.files
    text = (tmp_path / "report" / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == [] and page.active == []
    assert text.count("<svg") >= 2 and "Published references" in text and "default-src 'none'" in text
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert re.search(r"(?<!\\)[<`\[]", markdown) is None


def test_where_results_may_only_be_read_the_tables_go_elsewhere(results: Path, tmp_path: Path) -> None:
    foreign_run(Root(results), METHOD, "gsm8k", MODELS[0], 17_500_001)
    place = site(results)
    receipt = done(place, Collect(protocol="1.2", out=str(tmp_path / "out")), "t1")
    assert (tmp_path / "out" / "board.json").is_file() and not (results / "_aggregated").exists()
    assert receipt.files[0].startswith(str(tmp_path / "out"))
    with pytest.raises(PtbError, match="absolute"):
        done(place, Collect(protocol="1.2", out="out"), "t2")
    board = scoring.answer(place, ScoresQuery(protocol="1.2", files=True)).board
    assert "_aggregated/board.json" in board.files and not (results / "_aggregated").exists()
