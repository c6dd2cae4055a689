from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ptb_tui.core import events
from ptb_tui.core.layout import Root, StepName
from ptb_tui.core.triage import COSTS, Finding
from ptb_tui.results.records import RunRecord
from ptb_tui.results.rules import Rule, rules
from ptb_tui.results.signs import SIGNS
from ptb_tui.results.store import scan
from ptb_tui.results.triage import missing, newest, of_run, of_site, triage
from tests.results.trees import CLEAN, MODELS, foreign_run, own_run, step

TRACES = Path(__file__).parents[1] / "data" / "traces"
STAMP = b"[2026-08-01T09:00:00Z] "


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def look(root: Root, family: str = "plain", **options: bool) -> list[Finding]:
    return triage(scan(root, ("codex", "claude")), lambda agent: family, **options)


def only(root: Root, family: str = "plain") -> Finding:
    (finding,) = look(root, family)
    return finding


def broken(root: Root, trace: bytes | str = b"", run_id: int = 7, **more: object) -> Path:
    """A run of others that has no score."""
    folder = foreign_run(root, "codex_gpt_10h", "gsm8k", MODELS[0], run_id, metrics=None, final_model=False)
    if trace:
        lines = (TRACES / trace).read_bytes() if isinstance(trace, str) else trace
        (folder / "solve_out.txt").write_bytes(b"".join(STAMP + line + b"\n" for line in lines.splitlines()))
    return folder


def test_nothing_is_wrong(root: Root) -> None:
    own_run(root, 1)
    foreign_run(root, "codex_gpt_10h", "gsm8k", MODELS[0], 2)
    assert look(root) == [] == look(root, everything=True)


def test_every_rule_can_be_read_and_has_words() -> None:
    table = rules()
    assert len(table) == len({rule.id for rule in table}) > 30
    for rule in table:
        assert rule.cost in COSTS and (rule.why or rule.cause or rule.on == "cause")
        assert rule.runs != "others" or rule.others, rule.id
        if rule.on in ("event", "file"):
            assert rule.pattern.search("") is None, rule.id
        if rule.on == "fact":
            assert set(rule.match) <= set(SIGNS)


@pytest.mark.parametrize(
    "row",
    [
        {"on": "file", "why": "x"}, {"on": "path", "file": "a", "why": "x"}, {"on": "cause", "match": ["nonsense"]},
        {"on": "flag"}, {"on": "flag", "cause": "nonsense"}, {"on": "flag", "why": "x", "extra": 1},
    ],
)  # fmt: skip
def test_a_slip_in_the_table_is_an_error(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"rule|extra"):
        Rule.model_validate({"id": "a", "cost": "note", "match": ["x"], **row})


@pytest.mark.parametrize(
    ("cause", "rule", "cost"),
    [
        ("provider_limit", "provider_limit", "limit"), ("credential", "credential", "limit"), ("gpu", "gpu", "queue"),
        ("disk_full", "disk", "queue"), ("sandbox", "supplies", "queue"), ("preempted", "taken_away", "queue"),
        ("provider_error", "provider", "queue"),
    ],
)  # fmt: skip
def test_causes_of_our_runs(root: Root, cause: str, rule: str, cost: str) -> None:
    own_run(root, 5, outcome="failed", cause=cause)
    finding = only(root)
    assert (finding.rule, finding.cost, finding.cause, finding.run, finding.hint) == (rule, cost, cause, 5, False)
    assert finding.evidence.startswith(".ptb/steps/001-agent: ") and "RUN" not in finding.next
    assert "5" in finding.next or cause in ("sandbox", "disk_full", "preempted", "gpu")


def test_when_a_limit_ends(root: Root) -> None:
    folder = own_run(root, 5)
    for name in os.listdir(folder / ".ptb/steps"):
        if name.startswith("001"):
            for file in (folder / ".ptb/steps" / name).iterdir():
                file.unlink()
            (folder / ".ptb/steps" / name).rmdir()
    run = root.run(folder.parent.name, folder.name)
    step(run, 1, StepName("agent"), state="failed", cause="provider_limit", facts={"resets": 1785570600})
    finding = next(found for found in look(root) if found.rule == "provider_limit")
    assert finding.resets == "2026-08-01T07:50:00.000Z"


def test_a_judge_and_an_evaluation(root: Root) -> None:
    own_run(root, 5, benchmark="a", verdicts={name: flags for name, flags in CLEAN.items() if name != "general_judge"})
    own_run(root, 6, benchmark="b", evaluation="failed", eval_cause="eval_failed", metrics=None)
    own_run(root, 7, benchmark="c", evaluation="failed", eval_cause="grading_incomplete", metrics=None)
    folder = own_run(root, 8, benchmark="d")
    (folder / "judgement_gpt5_4.json").write_text('{"contamination": null}')
    own_run(root, 9, benchmark="e", verdicts={**CLEAN, "ptb_lookup_judge": ("disallowed_ptb_lookup",)})
    found = {finding.run: finding for finding in look(root)}
    assert {run: finding.rule for run, finding in found.items()} == {
        6: "eval_failed", 7: "grader", 8: "bad_verdict", 9: "quarantined", 5: "no_verdict",
    } or 5 not in found  # a judge that may only warn is not required  # fmt: skip
    assert found[6].next.endswith("`ptb-tui eval 6` tries again") and found[8].next == "`ptb-tui judge 8`"
    assert {finding.cost for finding in found.values()} == {"grade"}


def test_the_order_is_the_cost_of_waiting(root: Root) -> None:
    own_run(root, 1, benchmark="a", verdicts={**CLEAN, "data_contamination_judge": ("contamination",)})
    own_run(root, 2, benchmark="b", outcome="failed", cause="gpu")
    own_run(root, 3, benchmark="c", outcome="failed", cause="provider_limit")
    folder = own_run(root, 4, benchmark="d", evaluation="failed", eval_cause="eval_failed", metrics=None)
    at_risk = own_run(root, 6, benchmark="e", outcome="failed", cause="unknown")
    line = events.encode("model_at_risk", 9, {"host": "h", "path": "/x", "why": "disk"})
    with open(at_risk / ".ptb/steps/001-agent/events.jsonl", "ab") as file:
        file.write(line)
    assert folder.is_dir()
    found = look(root)
    assert [finding.cost for finding in found] == ["idle", "limit", "queue", "grade", "note"]
    assert found[0].rule == "model_at_risk" and found[-1].rule == "flagged"


def test_only_the_newest_of_a_cell(root: Root) -> None:
    own_run(root, 1, outcome="failed", cause="gpu")
    own_run(root, 2)
    assert look(root) == []
    assert [finding.run for finding in look(root, everything=True)] == [1]
    own_run(root, 3, outcome="failed", cause="prepare_failed", place="never_started")
    assert [(finding.run, finding.rule) for finding in look(root)] == [(3, "supplies")]
    assert {record.id for record in newest(scan(root))} == {2, 3}
    own_run(root, 4, outcome="queued", place="queue")
    assert look(root) == []  # somebody is at it already


LIMITS = ["codex.usage_plan.jsonl", "codex.usage.jsonl", "codex.e429.jsonl"]


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_in_a_trace_of_others(root: Root, name: str) -> None:
    broken(root, name)
    finding = only(root, "codex")
    assert (finding.rule, finding.cause, finding.cost, finding.hint) == (
        "foreign_limit", "provider_limit", "limit", False,
    )  # fmt: skip
    assert finding.evidence.startswith("solve_out.txt, byte ")
    offset = int(finding.evidence.split(",")[1].split()[1].rstrip(":"))
    data = next(root.path.rglob("solve_out.txt")).read_bytes()
    assert data[offset:].startswith(STAMP) and any(
        word in finding.evidence.lower() for word in ("limit", "quota", "429")
    )


def test_what_else_a_trace_of_others_says(root: Root) -> None:
    for name, family, rule in (
        ("codex.e401.jsonl", "codex", "foreign_login"), ("gemini.refused.stderr.txt", "gemini", None),
        ("claude.e500.jsonl", "claude", "foreign_provider"), ("opencode.refused.jsonl", "opencode", "foreign_provider"),
        ("claude_limit_2.1.jsonl", "claude", "foreign_limit"),
    ):  # fmt: skip
        broken(root, name)
        found = [finding.rule for finding in look(root, family)]
        assert found[:1] == ([rule] if rule else []), name
        for folder in root.path.rglob("gsm8k_*_7"):
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            folder.rmdir()


WORDS = " ".join((
    "You've hit your limit. insufficient_quota token_expired ERROR: unexpected status 401 Unauthorized HfHubHTTPError:",
    "429 Client Error No space left on device API Error: 529 Loop detected, stopping execution",
))  # fmt: skip


def claude_reads(words: str, *, failed: bool = False) -> bytes:
    """A trace in which an agent prints words, and ends well."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": words, "is_error": failed}
    lines = [
        {"type": "user", "message": {"content": [result]}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": words}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": words},
    ]
    return "\n".join(map(json.dumps, lines)).encode()


def test_words_that_an_agent_prints_are_nothing(root: Root) -> None:
    broken(root, claude_reads(WORDS))
    assert look(root, "claude") == []


def test_a_failed_command_is_a_hint(root: Root) -> None:
    broken(root, claude_reads(WORDS, failed=True))
    found = look(root, "claude")
    assert {finding.rule for finding in found} == {"hub", "tmpfs"} and all(finding.hint for finding in found)


def test_text_alone_is_a_hint(root: Root) -> None:
    broken(root, WORDS.encode())
    found = look(root, "plain")
    assert len(found) >= 6 and all(finding.hint for finding in found)


def test_a_good_run_is_not_read(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt_10h", "gsm8k", MODELS[0], 7)
    (folder / "solve_out.txt").write_text(WORDS)
    (folder / "error.log").write_text("Terminated\n")
    assert look(root, everything=True) == []


@pytest.mark.parametrize(
    ("log", "rule", "place"),
    [
        ("Terminated\nmore\n", "terminated", "error.log:1: Terminated"),
        ("a\nsrc/run_task.sh: line 88:  1234 Killed   timeout x\n", "killed", "error.log:2: "),
        ("x\nbash: error reading input file: Stale file handle\n", "stale_handle", "error.log:2: bash"),
    ],
)
def test_the_error_log(root: Root, log: str, rule: str, place: str) -> None:
    (broken(root) / "error.log").write_text(log)
    finding = only(root)
    assert finding.rule == rule and finding.evidence.startswith(place)


def test_a_line_far_down_a_long_log(root: Root) -> None:
    path = broken(root) / "error.log"
    path.write_text("é noise\n" * 100_000 + "cat: Stale file handle\n")
    finding = only(root)
    offset = int(finding.evidence.removeprefix("error.log, byte ").partition(":")[0])
    assert path.read_bytes()[offset:] == b"cat: Stale file handle\n"


def test_no_cuda(root: Root) -> None:
    (broken(root) / "task" / "cuda_not_available").write_text("")
    own = own_run(root, 8)
    (own / "task").mkdir()
    (own / "task" / "cuda_not_available").write_text("")
    assert {(finding.run, finding.rule, finding.cause) for finding in look(root)} == {
        (7, "cuda", "gpu"), (8, "cuda", "gpu"),
    }  # fmt: skip


def test_no_metrics_with_a_model(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt_10h", "gsm8k", MODELS[0], 7, metrics=None)
    assert only(root).rule == "no_metrics"
    (folder / "final_eval_3.txt").write_text("ValueError: Can't load image processor for '/final_model'\n")
    (folder / "final_eval_2.txt").write_text("torch.OutOfMemoryError: CUDA out of memory\n")
    found = look(root)
    assert [finding.rule for finding in found] == ["eval_memory", "image_processor"] or [
        finding.rule for finding in found
    ] == ["image_processor", "eval_memory"]
    assert "agent's fault" in next(finding.why for finding in found if finding.rule == "image_processor")


def test_a_run_of_others_without_an_end(root: Root) -> None:
    folder = foreign_run(root, "codex_gpt_10h", "gsm8k", MODELS[0], 7, metrics=None, time_taken=None, harvested=False,
                         final_model=False)  # fmt: skip
    assert look(root) == []  # it may be running
    old = time.time() - 86_400
    os.utime(folder, (old, old))
    assert only(root).rule == "unfinished"


def running(root: Root, quiet: float, samples: list[dict[str, object]]) -> None:
    folder = own_run(root, 5, outcome="running", evaluation="queued", metrics=None, verdicts=None, model=False)
    trace, telemetry = folder / "solve_out.txt", folder / ".ptb/steps/001-agent/telemetry.jsonl"
    trace.write_text("x\n")
    telemetry.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    now = time.time()
    os.utime(trace, (now - quiet, now - quiet))
    os.utime(telemetry, (now, now))


def sample(mono: float, cpu: float, gpu: float | None = None) -> dict[str, object]:
    gpus = {} if gpu is None else {"gpus": [{"util_percent": gpu}]}
    return {"v": 1, "mono": mono, "job": {"cpu_s": cpu}, **gpus}


@pytest.mark.parametrize(
    ("quiet", "samples", "found"),
    [
        (7200, [sample(0, 10), sample(1800, 11), sample(3600, 12)], True),
        (7200, [sample(0, 10), sample(3600, 900)], False),  # training works
        (7200, [sample(0, 10, 95), sample(3600, 11, 0)], False),  # the GPU did
        (7200, [sample(0, 10, 0), sample(3600, 11, 1)], True),
        (60, [sample(0, 10), sample(3600, 10)], False),
        (7200, [sample(0, 10)], False),
        (7200, [], False),
    ],
)
def test_silence_needs_two_signs(root: Root, quiet: float, samples: list[dict[str, object]], found: bool) -> None:
    running(root, quiet, samples)
    assert [finding.rule for finding in look(root)] == (["silent"] if found else [])


def test_cells_without_a_run(root: Root) -> None:
    for model in MODELS[:2]:
        foreign_run(root, "codex_gpt_10h", "gsm8k", model, 7 + MODELS.index(model))
    foreign_run(root, "codex_gpt_10h", "bfcl", MODELS[0], 20)
    records = scan(root)
    assert [(finding.benchmark, finding.model) for finding in missing(records, (), ())] == [("bfcl", MODELS[1])]
    named = missing(records, ("gsm8k", "humaneval"), ("Qwen3-1.7B-Base", "new/model"))
    assert {(finding.benchmark, finding.model) for finding in named} == {
        ("humaneval", MODELS[0]), ("gsm8k", "new/model"), ("humaneval", "new/model"),
    }  # fmt: skip


def test_a_full_disk_stops_everything(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptb_tui.results.triage.LOW_SPACE", float("inf"))
    (finding,) = of_site(root.path)
    assert (finding.cost, finding.run, finding.cause) == ("queue", None, "disk_full")
    assert of_site(root.path / "absent") == []


HOSTILE: list[Callable[[Path], object]] = [
    lambda folder: (folder / "solve_out.txt").symlink_to("/etc/passwd"),
    lambda folder: os.mkfifo(folder / "solve_out.txt"),
    lambda folder: os.mkfifo(folder / "error.log"),
    lambda folder: (folder / "error.log").write_bytes(b"\0\xff\n" * 1000 + b"y" * 300_000 + b"Stale file handle"),
    lambda folder: (folder / "final_eval_1.txt").mkdir(),
    lambda folder: (folder / "solve_out.txt").write_bytes(b"{" * 200_000),
    lambda folder: (folder / "solve_out.txt").write_bytes(b"[" * 200_000 + b"\n" + b"\xff" * 9),
]


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize("family", ["plain", "claude", "codex", "gemini", "cursor"])
def test_odd_folders_raise_nothing(root: Root, make: Callable[[Path], object], family: str) -> None:
    make(broken(root))
    for finding in look(root, family):
        assert finding.evidence.isprintable() and len(finding.evidence) <= 400


def test_a_linked_task_folder_is_not_looked_into(root: Root, tmp_path: Path) -> None:
    folder = broken(root)
    (folder / "task").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cuda_not_available").write_text("")
    (folder / "task").symlink_to(tmp_path / "elsewhere")
    assert look(root) == []


def test_terminal_codes_do_not_come_through(root: Root) -> None:
    (broken(root) / "error.log").write_text("Terminated \x1b]52;c;AAAA\x07\x1b[31m\u202e\n")
    assert only(root).evidence == "error.log:1: Terminated"


def test_a_node_without_a_gpu_is_named(root: Root) -> None:
    for number in range(3):
        folder = own_run(root, number, benchmark=str(number), outcome="failed", cause="gpu")
        log = folder / ".ptb/steps/001-agent/events.jsonl"
        host = "node-7" if number else "node-8"
        log.write_bytes(events.encode("claimed", 1, {"host": f"{host}\x1b[31m"}) + log.read_bytes().partition(b"\n")[2])
    found = look(root)
    assert [finding.rule for finding in found].count("gpu") == 3
    (node,) = [finding for finding in found if finding.rule == "bad_node"]
    assert (node.why, node.evidence) == ("node-7 gave no GPU to 2 runs", "runs 1, 2")


def test_a_record_can_be_looked_at_alone(root: Root) -> None:
    own_run(root, 5, outcome="failed", cause="gpu")
    (record,) = scan(root)
    assert isinstance(record, RunRecord) and [found.rule for found in of_run(record, "plain", 0.0)] == ["gpu"]
