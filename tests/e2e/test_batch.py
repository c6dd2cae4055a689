"""Sweeps from one command, at hand and behind `serve`."""

from __future__ import annotations

import json

from tests.e2e.conftest import Lab


def test_a_sweep_from_plan_to_table(any_lab: Lab) -> None:
    lab = any_lab
    sweep = lab.sweep("saystart+model+sayend", "exit3", "model+exit1")
    dry = lab.run("--batch", sweep, "--dry-run")
    assert "3 to submit" in dry and not lab.run_dirs()
    lines = lab.run("--batch", sweep, "--yes", "--json", rc=0)
    board = [json.loads(line) for line in lines.splitlines()][-1]
    assert board
    table = lab.run("scores")
    assert "75.0" in table and "no model" in table
    rows = {row["method"]: row for row in (cell for line in lab.json("runs") for cell in line.get("runs", [line]))}
    assert rows["toy_saystart+model+sayend_0.5h"]["worth"] == "scored"
    assert rows["toy_exit3_0.5h"]["worth"] == "no_model"
    assert rows["toy_model+exit1_0.5h"]["worth"] == "scored", "an agent's exit status is not its result"
    again = lab.run("--batch", sweep, "--yes")
    assert "3 exist" in again and len(lab.ids()) == 3, again
    for run in lab.run_dirs():
        names = {path.name for path in run.iterdir()}
        assert {"output.log", "error.log", "prompt.txt", "solve_out.txt", "solve_parsed.txt", "time_taken.txt"} <= names
        assert {"judgement_gpt5_4.json", "judgement_general.json", "task"} <= names
    scratch = lab.base / "scratch"
    assert not [path for path in scratch.glob("*/*/*") if path.is_dir()], "scratch is removed after the harvest"


def test_a_failed_evaluation_can_be_made_good(any_lab: Lab) -> None:
    lab = any_lab
    switch = lab.cwd / "containers" / "models" / "toy-base" / "switch"
    switch.write_text("ok")
    sweep = lab.sweep("model")
    lab.run("--batch", sweep, "--yes")
    good = lab.run("scores")

    other = Lab(lab.base / "other", site=lab.site)
    try:
        (other.cwd / "containers" / "models" / "toy-base" / "switch").write_text("fail")
        sweep = other.sweep("model")
        other.run("--batch", sweep, "--yes", rc=None)
        run_id = str(other.ids()[0])
        assert "told to fail" in other.run("show", run_id)
        bundle = next(other.results.glob("_ptb/bundles/*/containers/models/toy-base/switch"))
        bundle.write_text("ok")  # what made it fail is gone
        dry = other.run("eval", run_id, "--dry-run")
        assert "evaluation_2" in dry and "the run gets it" in dry
        other.run("eval", run_id, "--wait")
        after = other.run("scores").replace(str(other.ids()[0]), "ID")
        assert after == good.replace(str(lab.ids()[0]), "ID")
        script = next(other.results.glob("_ptb/bundles/*/tasks/toy/evaluate.py"))
        script.write_text(script.read_text() + "# edited\n")
        assert "the content has fingerprint" in other.run("eval", run_id, "--dry-run", rc=1)
        other.run("eval", run_id, rc=2)
    finally:
        other.close()
