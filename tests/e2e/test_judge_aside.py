"""Runs that are not written to, judged, reviewed and scored through the overlay (design §5; E §4)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.e2e.conftest import CONTENT, Lab
from tests.e2e.test_foreign import FIRST, fingerprint, original_run

METHOD = "toy_model_0.5h"


def closed(root: Path) -> None:
    """Nothing in the tree may be written, as on a disk that is only mounted for reading."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)


def cell(lab: Lab) -> dict[str, Any]:
    """The cell of the method in the table of scores."""
    board = json.loads(lab.run("scores", "--protocol", "toy", "--json", rc=None).splitlines()[-1])
    methods = {method["method"]: method for method in board.get("board", board)["methods"]}
    return dict(next(found for found in methods[METHOD]["cells"] if found["worth"] != "missing"))


def test_an_original_run_of_a_tree_that_is_only_read(lab: Lab) -> None:
    elsewhere = lab.base / "elsewhere"
    folder = original_run(elsewhere, METHOD, "toy", "local/toy-base", FIRST, accuracy=0.5)
    (folder / "judgement_gpt5_4.json").unlink()
    shutil.copyfile(CONTENT / "containers/models/toy-base/config.json", folder / "final_model" / "config.json")
    works = original_run(elsewhere, METHOD, "toy", "local/toy-base", FIRST + 1, accuracy=None)
    (works / "time_taken.txt").unlink()
    closed(elsewhere)
    before = fingerprint(elsewhere)
    lab.env["POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS"] = str(elsewhere)
    lab.results.mkdir()
    above, run = lab.results / "_ptb" / "overlay" / METHOD / folder.name, str(FIRST)

    view = lab.json("judge", run, "--dry-run")[0]
    assert view["place"] == str(above) and not above.exists()
    asked = {line["judge"]: (line["action"], [seat["engine"] for seat in line["seats"]]) for line in view["lines"]}
    assert asked == {name: ("ask", ["rules"]) for name in ("data_contamination_judge", "general_judge")}
    lab.run("judge", str(FIRST + 1), rc=2)  # its agent has not ended

    assert "2 verdicts in" in lab.run("judge", run, "--wait")
    inline = json.loads((above / "judgement_gpt5_4.json").read_text())
    assert inline["contamination"] is False and inline["_meta"]["engine"] == "rules"
    record = json.loads((above / ".ptb" / "verdicts" / "data_contamination_judge" / "001.json").read_text())
    assert record["source"] == "judge" and len(record["evidence_hash"]) == 64
    general = json.loads((above / ".ptb" / "verdicts" / "general_judge" / "001.json").read_text())
    assert general["source"] == "evidence", "rules go before nothing that a model said"
    assert not (above / "judgement_general_rerun.json").exists()
    found = cell(lab)
    assert (found["worth"], found["used"]) == ("scored", 0.5), found
    lab.run("review", run, "data", "flag", "--field", "contamination", "--reason", "line 3 is item 12")
    found = cell(lab)
    assert (found["worth"], found["used"]) == ("flagged", 0.1), found
    assert fingerprint(elsewhere) == before, "the tree stays as it is"
