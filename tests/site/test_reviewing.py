import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core.action import Review
from ptb_tui.core.errors import NotAllowed, NotFound, StorageError, UsageError
from ptb_tui.core.layout import Root
from ptb_tui.core.review import FlaggedQuery
from ptb_tui.core.settings import Settings
from ptb_tui.judging.reviews import read_reviews
from ptb_tui.site import reviewing
from ptb_tui.site.actions import Doer
from ptb_tui.site.local import LocalSite
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, verdict_text

DATA = "data_contamination_judge"
FOREIGN = 17_500_000


@pytest.fixture
def site(tmp_path: Path) -> LocalSite:
    beside = tmp_path / "beside"
    settings = Settings({"POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS": str(beside)}, {}, None, None, None, "ada")
    root = Root(tmp_path / "results")
    own_run(root, 7, verdicts={**CLEAN, DATA: ("contamination",)})
    foreign_run(Root(beside), "codex_gpt-5.1_10h", "gsm8k", MODELS[0], FOREIGN)
    return LocalSite(settings, root.path)


def action(decision: Any = "clear", run: str = "7", judge: str = "data", **more: Any) -> Review:
    return Review(run=run, judge=judge, decision=decision, reason=more.pop("reason", "because"), **more)


def worth(site: LocalSite, run: str = "7") -> str:
    return str(site.record(run).assessment.worth)


def test_a_decision_is_kept_published_journalled_and_counts(site: LocalSite) -> None:
    receipt = Doer(site).do(action(), "t1")
    assert receipt.words == (
        f"{DATA} of run 7: was flagged (contamination), now clean; the run was flagged, now scored"
    )
    review, manual = map(Path, receipt.files)
    body = json.loads(review.read_text())
    assert (body["kind"], body["operator"], body["reason"], body["decision"]) == ("verdict", "ada", "because", "clear")
    assert [(seen["source"], len(seen["sha256"])) for seen in body["seen"]] == [("inline", 64)]
    public = json.loads(manual.read_text())
    assert public["contamination"] is False and public["_meta"]["review"] == review.name
    assert worth(site) == "scored"
    assert (site.root.own("journal") / "t1.json").is_file()
    assert Doer(site).do(action(), "t1") == receipt, "the same request is done once"
    assert len(list(review.parent.iterdir())) == 1
    Doer(site).do(action("flag", field="disallowed_model"), "t2")
    assert site.record("7").assessment.letters == "M"
    assert json.loads(manual.read_text())["disallowed_model"] is True
    assert len(list(review.parent.iterdir())) == 2, "all are kept"


def test_a_rehearsal_writes_nothing(site: LocalSite, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    receipt = Doer(site).do(action(dry_run=True), "t1")
    assert receipt.words.startswith(f"would be: {DATA} of run 7: was flagged (contamination)")
    assert {path for path in set(tmp_path.rglob("*")) - set(before) if "cache" not in path.parts} <= {site.root.ptb}
    assert worth(site) == "flagged"


def test_a_run_of_a_root_that_is_only_read_goes_to_the_overlay(site: LocalSite, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "beside").rglob("*")}
    Doer(site).do(action("flag", run=str(FOREIGN), judge="api"), "t1")
    assert site.record(str(FOREIGN)).assessment.letters == "A"
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "beside").rglob("*")}
    over = site.root.own("overlay") / "codex_gpt-5.1_10h"
    assert [path.name for path in over.rglob("judgement*")] == ["judgement_api_manual.json"]


def test_a_manual_file_made_by_hand_is_kept(site: LocalSite) -> None:
    manual = site.record("7").path / "judgement_gpt5_4_manual.json"
    manual.write_text(verdict_text(DATA, ["disallowed_model"], why="edited by bob"))
    assert site.record("7").assessment.letters == "M"
    Doer(site).do(action("confirm"), "t1")
    assert site.record("7").assessment.letters == "M"
    history = site.record("7").path / ".ptb" / "verdicts" / DATA
    assert ["edited by bob" in path.read_text() for path in history.iterdir()] == [True]


def test_many_people_at_once(site: LocalSite) -> None:
    def decide(number: int) -> None:
        reviewing.review(site, action("clear" if number % 2 else "flag", field="contamination"))

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    run = site.record("7").path
    reviews, problems = read_reviews([run / ".ptb" / "reviews"])
    assert (len(reviews), problems) == (8, [])
    public = json.loads((run / "judgement_gpt5_4_manual.json").read_text())
    assert public["_meta"]["review"] == reviews[-1].name


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (action(judge="nope"), UsageError, "no judge 'nope'"),
        (action(judge=""), UsageError, "no judge ''"),
        (action("flag"), UsageError, "several flags"),
        (action(field="x"), UsageError, "no flag of this judge"),
        (action(reason=" "), UsageError, "needs its reason"),
        (action(run="99"), NotFound, "no run"),
    ],
)
def test_what_is_refused_leaves_nothing(site: LocalSite, asked: Review, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Doer(site).do(asked, "t1")
    assert not site.root.own("journal").exists()
    assert not (site.record("7").path / ".ptb" / "reviews").exists()


def test_nothing_to_confirm(site: LocalSite) -> None:
    (site.record("7").path / "judgement_gpt5_4.json").write_text("[]")
    with pytest.raises(NotAllowed, match="none to confirm"):
        Doer(site).do(action("confirm"), "t1")
    with pytest.raises(NotAllowed, match="no verdict that could stay"):
        Doer(site).do(action("clear", field="contamination"), "t2")
    Doer(site).do(action("clear"), "t3")
    assert worth(site) == "scored"


def test_a_run_that_never_started(site: LocalSite) -> None:
    own_run(site.root, 3, place="never_started")
    with pytest.raises(NotAllowed, match="never started"):
        Doer(site).do(action(run="3"), "t1")


def test_a_place_that_cannot_be_written(site: LocalSite) -> None:
    (site.record("7").path / ".ptb" / "reviews").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        Doer(site).do(action(), "t1")


def test_the_queue(site: LocalSite) -> None:
    view = reviewing.flagged(site, FlaggedQuery())
    assert [(item.run, item.verdict.judge, item.place) for item in view.verdicts] == [
        (7, DATA, "judgement_gpt5_4.json")
    ]
    Doer(site).do(action(), "t1")
    view = reviewing.flagged(site, FlaggedQuery())
    assert (view.verdicts, view.decided, view.looked) == ((), 1, 2)
    everything = reviewing.flagged(site, FlaggedQuery(all=True, judges=("gpt5_4",)))
    assert [item.run for item in everything.verdicts] == [7]
    assert os.path.isabs(everything.verdicts[0].place) or everything.verdicts[0].place.startswith(".ptb/reviews/")
    with pytest.raises(NotAllowed, match="no judge 'moon'"):
        reviewing.flagged(site, FlaggedQuery(judges=("moon",)))
