"""Agents that attack what runs them: each ends with the right cause, and nothing of it reaches anybody else."""

from __future__ import annotations

import json
import os
import stat

import pytest

from ptb_tui.evaluation import fingerprint
from tests.e2e.conftest import until
from tests.hostile.conftest import ATTACKS, Arena
from tests.hostile.lab import GIVEN, Attack, Run, planted_key, state_of, unsafe_bytes

pytestmark = [pytest.mark.hostile]

DONE, BUDGET, FAILED = ("done", ""), ("done", "agent_budget"), ("done", "agent_exit")
ENDS = {
    "model+stubborn": (BUDGET, "scored"),
    "model+plants+sleep600": (BUDGET, "scored"),
    "model+kills": (FAILED, "scored"),
    "exit3": (FAILED, "no_model"),
    "modelhost": (DONE, "no_model"),
    "modelbase": (DONE, "no_model"),
    "modelfile": (DONE, "no_model"),
    "flood+model": (DONE, "scored"),
}
EVALUATED = [one for one in ATTACKS if ENDS.get(one.words, (DONE, "scored"))[1] == "scored"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: f"{one.agent}-{one.words}")
def test_every_run_ends_with_the_right_cause_and_worth(arena: Arena, attack: Attack) -> None:
    run = arena.of(attack)
    assert (run.end, run.worth) == ENDS.get(attack.words, (DONE, "scored"))
    record = run.record("steps/001-agent/exit.json")
    assert record["left_alive"] == [] and record["problem"] == ""


@pytest.mark.parametrize("attack", EVALUATED, ids=lambda one: f"{one.agent}-{one.words}")
def test_the_score_is_the_models_own_and_the_judges_see_a_clean_run(arena: Arena, attack: Attack) -> None:
    run = arena.of(attack)
    metrics = json.loads((run.dir / "metrics.json").read_text())
    assert metrics["accuracy"] == 0.75
    if attack.protocol == "hostile":
        assert run.verdicts == arena.run("model").verdicts
        assert set(run.verdicts) == {"data_contamination_judge", "general_judge"}
    digest, count = fingerprint.of_folder(run.dir / "final_model")
    assert count and run.record("final_model.json")["digest"] == digest == run.record("harvest.json")["model_digest"]


def test_nothing_is_left_alive(arena: Arena) -> None:
    until(lambda: not arena.lab.alive(), "nothing alive but what looks after the queue once more", 20)


def test_the_host_is_as_it_was(arena: Arena) -> None:
    after = state_of(*arena.lab.watched)
    assert [path for path in arena.before.keys() | after.keys() if arena.before.get(path) != after.get(path)] == []
    assert set(os.listdir(arena.lab.base / "home")) <= {".codex", ".apptainer"}
    assert not arena.lab.connected()
    scratch = arena.lab.base / "scratch"
    assert not [path for path in scratch.glob("*/*") if path.name != "bundle"], "every scratch is gone"


def test_nothing_the_operator_sees_steers_a_terminal(arena: Arena) -> None:
    lab = arena.lab
    shown = [arena.out, lab.run("runs").encode(), lab.run("queue").encode(), lab.run("scores", rc=None).encode()]
    for words, agent in (("model+shout", "hostile"), ("model+shout", "hostile_claude"), ("model+odd", "hostile"),
                         ("model+plants", "hostile")):  # fmt: skip
        run = arena.run(words, agent)
        name = str(run.row["id"])
        shown.append(lab.run("show", name).encode())
        if words == "model+shout":
            shown += [lab.run("tail", name, *more, "--from", "0").encode() for more in ((), ("--raw",))]
        shown.append((run.dir / "solve_parsed.txt").read_bytes())
        shown += [(run.dir / name).read_bytes() for name in ("output.log", "system_monitor.log", "cli_version.txt")
                  if (run.dir / name).exists()]  # fmt: skip
    assert [found for text in shown if (found := unsafe_bytes(text))] == []
    assert any(b"escape: " in text for text in shown), "it was shown"


def test_the_trace_keeps_every_byte_that_was_said(arena: Arena) -> None:
    for agent in ("hostile", "hostile_claude"):
        said = arena.run("model+shout", agent).raw_trace
        for part in (b"\x1b]52;c;ZXZpbCBjbGlwYm9hcmQ=\x07 :end\n", b"nul\0nul", b"\xff\xfe\xc3\x28", b"x" * (5 << 20)):
            assert part in said
        assert said.endswith(b"a last line without its end \x1b[8m")
    flood = arena.runs.get(("hostile", "flood+model"))
    if flood is not None:
        lines = flood.raw_trace.split(b"\n")
        said_lines = [line[line.index(b"] ") + 2 :] for line in lines if line]
        assert said_lines[-1] == b"did flood" and len(said_lines) == 500_001
        assert all(said_lines[n].startswith(b"line %09d " % n) for n in range(0, 500_000, 997))


@pytest.mark.parametrize("words", ["model+plants", "model+plants+sleep600"])
def test_what_an_agent_plants_is_evidence_and_nothing_else(arena: Arena, words: str) -> None:
    run = arena.run(words)
    assert "did plants" in run.trace
    public = b"".join(path.read_bytes() for path in run.dir.glob("*.json"))
    assert b"PLANTED" not in public and b"PLANTED" not in run.logs()
    assert (run.dir / "task" / "judgement.json").is_file(), "kept for people to see"
    assert (run.dir / "task" / "AGENTS.md").is_file()
    names = {path.name for path in run.files.ptb.rglob("*")}
    assert not names & {"launch.json", "reference_configs", "AGENTS.md", "sitecustomize.py"}
    kinds = [path.parent.name for path in sorted(run.files.verdicts.glob("*/*.json"))]
    assert kinds == ["data_contamination_judge", "general_judge"], "one verdict of each judge, its own"
    assert "PLANTED" not in (run.dir / "output.log").read_text().replace("PLANTED TITLE", "")


def test_a_planted_timer_gives_no_time(arena: Arena) -> None:
    record = arena.run("model+plants+sleep600").record("steps/001-agent/exit.json")
    assert record["stopped"] == "deadline" and record["elapsed_s"] < 60


def test_links_lead_nowhere_but_where_they_may(arena: Arena) -> None:
    run = arena.run("model+links")
    assert run.after("hard links to what is not its own:") == "[]" and "did links" in run.trace
    assert not [path for path in run.harvested() if path.is_symlink()]
    assert (run.dir / "final_model" / "model.safetensors").stat().st_size > 0, "a link within the task is followed"
    for path in run.harvested():
        assert not path.is_file() or b"canary-" not in path.read_bytes(), path
        assert not path.is_file() or path.stat().st_nlink == 1
    left = {entry["path"] for entry in run.record("final_model.json")["left_out"]}
    assert {"link-secret", "link-root", "link-self", "link-nowhere", "link-environ", "link-zero"} <= left
    for words in ("modelhost", "modelbase", "modelfile"):
        if ("hostile", words) not in arena.runs:
            continue
        other = arena.run(words)
        assert f"did {words}" in other.trace
        assert not os.path.lexists(other.dir / "final_model") and not (other.dir / "metrics.json").exists()


def test_odd_things_are_left_out_or_kept_as_they_are(arena: Arena) -> None:
    run = arena.run("model+odd")
    assert run.after("devices made:") == "[]" and "did odd" in run.trace
    for path in run.harvested():
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
        assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX), path
    for name in ("task.json", "final_model.json"):
        why = {entry["path"]: entry["why"] for entry in run.record(name)["left_out"]}
        assert {"pipe", "socket"} <= set(why) and any("too deep" in reason for reason in why.values())
    why = {entry["path"]: entry["why"] for entry in run.record("final_model.json")["left_out"]}
    assert "hole" in why["huge.dat"] and not (run.dir / "final_model" / "huge.dat").exists()
    names = {os.fsencode(name) for name in os.listdir(run.dir / "task")}
    assert {b"new\nline", b"bad\xff\xfebytes", b"-rf", b"a" * 255} <= names


def test_a_hundred_thousand_files_come_home(arena: Arena) -> None:
    if ("hostile", "model+many") not in arena.runs:
        pytest.skip("done once, as another user")
    run = arena.run("model+many")
    assert "did many" in run.trace
    assert sum(len(os.listdir(path)) for path in (run.dir / "task" / "many").iterdir()) == 100_000


def test_rights_taken_away_are_taken_back(arena: Arena) -> None:
    run = arena.run("model+dark")
    assert "did dark" in run.trace
    assert (run.dir / "task" / "kept" / "inner" / "notes.txt").read_text() == "still here"
    assert run.record("task.json")["left_out_count"] == 0


def test_daemons_change_nothing_any_more(arena: Arena) -> None:
    run = arena.run("model+daemons")
    assert "did daemons" in run.trace and (run.dir / "final_model" / "late.txt").is_file()
    assert "did forks 500" in arena.run("model+forks").trace
    record = arena.run("model+stubborn").record("steps/001-agent/exit.json")
    assert record["stopped"] == "deadline" and record["killed"], "it took a KILL"


def test_one_that_kills_everything_kills_itself(arena: Arena) -> None:
    run = arena.run("model+kills")
    assert "did kills" in run.trace
    assert run.record("steps/001-agent/exit.json")["rc"] not in (0, None)


def test_memory_is_bounded_and_the_rest_read_only(arena: Arena) -> None:
    run = arena.run("model+fill")
    assert "did fill" in run.trace
    if arena.lab.sandbox == "apptainer":
        return  # there all of it is on the scratch, whose size is watched
    for place in ("/tmp", "/dev/shm", "/var/tmp"):
        size, _, reason = run.after(f"{place}: ").partition(" MB, ")
        assert int(size) <= 32 and "No space left" in reason
    for place in ("/run", "/dev", "/"):
        assert run.after(f"{place}: ").startswith("0 MB, ")


def test_models_of_all_runs_cannot_be_changed(arena: Arena) -> None:
    run = arena.run("model+cache")
    assert "did cache" in run.trace
    assert run.after("could change of the base model:") == "[]"


def _said(run: Run, name: str) -> object:
    return json.loads(run.after(f"{name} "))


def test_nothing_is_found_that_was_not_given(arena: Arena) -> None:
    run = arena.run("look+tty+model")
    assert {"did look", "did tty"} <= set(run.trace) and "has a terminal" not in run.trace
    found = _said(run, "FOUND")
    assert isinstance(found, dict)
    assert set(found) == {GIVEN[::-1]}, {value[::-1]: where for value, where in found.items()}
    assert _said(run, "OPENED") == []
    written = _said(run, "WRITTEN")
    assert isinstance(written, list)
    # its own memory and what its own first process says of itself; never what is the host's
    own: tuple[str, ...] = ("/tmp/", "/var/tmp/", "/proc/1/oom_score_adj", "/proc/1/mem")
    if arena.lab.sandbox == "apptainer":
        own = ("/",)  # its own layer over the image; what is the host's is compared elsewhere
    assert [path for path in written if not path.startswith(own)] == []
    descriptors = _said(run, "DESCRIPTORS")
    assert isinstance(descriptors, list)
    assert {entry.partition(":")[0] for entry in descriptors} <= {"0", "1", "2"}
    processes = _said(run, "PROCESSES")
    assert isinstance(processes, int) and processes < 12, "its own, nobody else's"
    if arena.has_keyring:
        assert not planted_key(), "nothing is left in the operator's keyring"


def test_the_gateway_opens_nothing_of_the_host(arena: Arena) -> None:
    run = arena.run("model+gateway")
    assert "did gateway" in run.trace and run.after("sockets:") == "1"
    assert int(run.after("connections held:")) == 400 and int(run.after("answers:")) == 12
    for what in ("could change:", "reached on the host:", "reached without the gateway:"):
        assert run.after(what) == "[]", what
    lines = (run.files.ptb / "egress.jsonl").read_text().splitlines()
    refused = [record for record in map(json.loads, lines) if record["outcome"] == "refused"]
    assert {"127.0.0.1", "169.254.169.254"} <= {record["host"] for record in refused}
    assert unsafe_bytes((run.files.ptb / "egress.jsonl").read_bytes()) == b""
