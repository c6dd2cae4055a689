"""Results that the original scripts left behind: listed, shown, followed and scored, without touching them."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, Lab
from tests.e2e.unprivileged import place_of_nobody

PROTOCOL = tomllib.loads((REPOSITORY / "tasks/protocols/1.2.toml").read_text())
METHOD = "codex_gpt-5.1_10h"
FIRST = 17_500_000  # above it the original's runs have a lookup judge
JUDGEMENTS = {
    "gpt5_4": ("contamination", "disallowed_model"),
    "api": ("disallowed_api_usage",),
    "ptb_lookup": ("disallowed_ptb_lookup",),
    "general": ("general_anomaly",),
}


def original_run(
    root: Path, method: str, task: str, model: str, run_id: int, *, accuracy: float | None, flagged: str = ""
) -> Path:
    """One run directory as the original scripts leave it (H §1.13)."""
    agent, config, hours = method.split("_")
    folder = root / method / f"{task}_{model.replace('/', '_')}_{run_id}"
    (folder / "task").mkdir(parents=True)
    texts = {
        "output.log": f"{task} {agent} {model} {run_id} {hours.rstrip('h')} {config} 1\ngrader backend: none\n",
        "error.log": "",
        "prompt.txt": "Train it.\n",
        "solve_out.txt": '[2026-08-01 10:00:00] {"type":"thread.started"}\n[2026-08-01 10:00:07] the last line\n',
        "solve_parsed.txt": "Thread started\nthe last parsed line\n",
        "time_taken.txt": "09:12:44\n",
        "system_monitor.log": "Tue Aug  1 10:00:00 UTC 2026\n",
        "task/evaluate.py": "print()\n",
    }
    for identifier, flags in JUDGEMENTS.items():
        verdict: dict[str, Any] = {flag: flag == flagged for flag in flags}
        verdict |= {f"justification_{flag}": f"what was seen of {flag}" for flag in flags}
        texts[f"judgement_{identifier}.json"] = json.dumps(verdict)
    if accuracy is not None:
        (folder / "final_model").mkdir()
        texts["final_model/config.json"] = "{}"
        texts["metrics.json"] = json.dumps({"accuracy": accuracy, "stderr": 0.01})
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def original_tree(root: Path) -> dict[tuple[str, str], float]:
    """A whole sweep of one method under protocol 1.2; returns what each cell is worth, by model and task."""
    used: dict[tuple[str, str], float] = {}
    run_id = FIRST
    for model in PROTOCOL["models"]:
        for task in PROTOCOL["tasks"]:
            base = PROTOCOL["baselines"][model][task]
            accuracy, flagged = 0.5 + (run_id % 7) / 100, ""
            if run_id == FIRST + 1:
                flagged = "contamination"
            if run_id == FIRST + 2:
                original_run(root, METHOD, task, model, run_id, accuracy=None)
            else:
                original_run(root, METHOD, task, model, run_id, accuracy=accuracy, flagged=flagged)
            used[model, task] = base if run_id in (FIRST + 1, FIRST + 2) else accuracy
            run_id += 1
    first = (PROTOCOL["tasks"][0], PROTOCOL["models"][0], run_id)
    original_run(root, "claude_opus_10h", *first, accuracy=0.9, flagged="disallowed_ptb_lookup")
    return used


def weighted(used: Mapping[tuple[str, str], float]) -> float:
    models = PROTOCOL["models"]
    return float(
        sum(
            weight * sum(used[model, task] for model in models) / len(models)
            for task, weight in PROTOCOL["weights"].items()
        )
    )


def fingerprint(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """Everything that a change of the tree would change."""
    found = {}
    for path in (root, *root.rglob("*")):
        info = path.lstat()
        found[str(path)] = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return found


def board_of(lab: Lab) -> dict[str, Any]:
    answer = lab.json("scores", "--protocol", "1.2")[-1]
    return answer.get("board", answer)  # type: ignore[no-any-return]


def rows_of(lab: Lab) -> list[dict[str, Any]]:
    return [row for line in lab.json("runs") for row in line.get("runs", [line]) if "method" in row]


def looked_at(lab: Lab, tree: Path, used: Mapping[tuple[str, str], float]) -> None:
    """Everything that only looks, and what it must say."""
    rows = {row["id"]: row for row in rows_of(lab)}
    assert len([row for row in rows.values() if row["origin"] == "upstream"]) == len(used) + 1
    worths = [rows[FIRST + n]["worth"] for n in range(4)]
    assert worths == ["scored", "flagged", "no_model", "scored"]
    assert rows[FIRST + len(used)]["worth"] == "quarantined"
    assert not any(rows[FIRST + n]["state"] for n in range(4)), "no state is invented"
    shown = lab.run("show", str(FIRST + 1))
    assert METHOD in shown and "what was seen of contamination" in shown
    path = tree / METHOD / f"aime2025_Qwen_Qwen3-1.7B-Base_{FIRST}"
    assert lab.json("show", str(path))[0]["row"]["id"] == FIRST
    assert "the last parsed line" in lab.run("tail", str(FIRST))
    assert "the last line" in lab.run("tail", str(FIRST), "--raw", "-n", "80")
    methods = {method["method"]: method for method in board_of(lab)["methods"]}
    assert methods[METHOD]["score"] == pytest.approx(weighted(used), abs=1e-12)
    assert methods["claude_opus_10h"]["score"] is None
    table = lab.run("scores", "--protocol", "1.2")
    assert f"{100 * weighted(used):.1f} %" in table, table


def test_an_original_tree_is_read_and_collected(lab: Lab) -> None:
    used = original_tree(lab.results)
    before = fingerprint(lab.results / METHOD)
    looked_at(lab, lab.results, used)
    assert "wrote" in lab.run("collect", "--protocol", "1.2", rc=5)
    csv = (lab.results / "_aggregated" / f"final_{METHOD}.csv").read_text()
    assert len(csv.splitlines()) >= 5 and "aime2025" in csv, csv
    assert fingerprint(lab.results / METHOD) == before, "runs of others stay as they are"
    rows = rows_of(lab)
    assert len(rows) == len(used) + 1, "the tables are no runs"
    for verb in ("cancel", "eval", "retry"):
        assert lab.run(verb, str(FIRST), "--yes", rc=2) == "", "this version only reads runs of others"
    assert fingerprint(lab.results / METHOD) == before


@pytest.fixture
def nobody() -> Iterator[Lab]:
    with place_of_nobody() as lab:
        yield lab


def test_a_tree_that_may_only_be_read_stays_as_it_is(nobody: Lab) -> None:
    lab = nobody
    used = original_tree(lab.results)
    for folder, _, names in os.walk(lab.results, topdown=False):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o444)
        os.chmod(folder, 0o555)
    before = fingerprint(lab.results)
    looked_at(lab, lab.results, used)
    looked_at(lab, lab.results, used)  # what was remembered says the same
    lab.run("collect", "--protocol", "1.2", rc=2)  # there is no place for the tables
    out = lab.base / "tables"
    lab.run("collect", "--protocol", "1.2", "--out", str(out), rc=5)
    assert (out / "board.json").is_file()
    lab.run("--batch", lab.sweep("exit0"), "--yes", rc=2)
    lab.run("queue")
    assert fingerprint(lab.results) == before


def test_further_roots_are_read_beside_our_own(lab: Lab) -> None:
    elsewhere, third = lab.base / "elsewhere", lab.base / "third"
    used = original_tree(elsewhere)
    original_run(third, METHOD, "gsm8k", PROTOCOL["models"][0], FIRST + 900, accuracy=0.99)
    before = fingerprint(elsewhere), fingerprint(third)
    lab.env["POST_TRAIN_BENCH_EXTRA_RESULTS_DIRS"] = f"{elsewhere}:{third}"
    lab.run("--batch", lab.sweep("model"), "--yes")
    looked_at(lab, elsewhere, used)
    rows = rows_of(lab)
    assert {row["origin"] for row in rows} == {"ptb", "upstream"}
    assert FIRST + 900 not in {row["id"] for row in rows}, "a method of an earlier root wins"
    lab.run("collect", "--protocol", "1.2", rc=5)
    assert (lab.results / "_aggregated" / f"final_{METHOD}.csv").is_file()
    assert (fingerprint(elsewhere), fingerprint(third)) == before
