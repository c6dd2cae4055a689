"""Mistakes a person makes: one line that says what, where and what would be right, before anything is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.core import errors
from tests.e2e.conftest import Lab
from tests.e2e.unprivileged import place_of_nobody

TITLES = tuple(f"{error.title}:" for error in errors._tree(errors.PtbError).values())
AGENT = 'agent = "toy"\nconfig = "exit0"'


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def ask(lab: Lab, *arguments: str) -> tuple[int, str, str]:
    process = lab.start(*arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def refused(lab: Lab, *arguments: str) -> tuple[str, list[str]]:
    """Run a command that must be refused before anything is done: the error's line and everything on stderr."""
    before = listing(lab.results)
    code, out, err = ask(lab, *arguments)
    lines = err.splitlines()
    told = [line for line in lines if line.startswith(TITLES)]
    assert code == 2, f"{arguments} → {code}\n{out}\n{err}"
    assert len(told) == 1, err
    assert not [line for line in lines if not line.startswith((*TITLES, "  ", "blocked: "))], err
    assert "Traceback" not in out + err
    assert listing(lab.results) == before, "a refused command leaves nothing behind"
    return told[0], lines


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def batch(lab: Lab, old: str = "", new: str = "", **keys: Any) -> tuple[str, ...]:
    path = lab.sweep("exit0", **keys)
    if old:
        change(Path(path), old, new)
    return ("--batch", path, "--yes")


def without(lab: Lab, name: str) -> tuple[str, ...]:
    (lab.cwd / name).unlink()
    return batch(lab)


def instead(lab: Lab, name: str, text: str) -> tuple[str, ...]:
    path = lab.base / name if name.startswith("config/") else lab.cwd / name
    path.write_text(text)
    return batch(lab)


def foreign(lab: Lab, *ids: int) -> None:
    for run_id in ids:
        folder = lab.results / "codex_m_10h" / f"gsm8k_Qwen_Qwen3-4B-Base_{run_id}"
        folder.mkdir(parents=True)
        (folder / "time_taken.txt").write_text("01:00:00\n")


def ambiguous(lab: Lab) -> tuple[str, ...]:
    foreign(lab, 17001, 17002)
    return ("show", "1700")


def unknown_run(lab: Lab) -> tuple[str, ...]:
    foreign(lab, 17001)
    return ("show", "99")


def file_as_results(lab: Lab) -> tuple[str, ...]:
    lab.env["POST_TRAIN_BENCH_RESULTS_DIR"] = str(lab.base / "note.txt")
    (lab.base / "note.txt").write_text("a note")
    return batch(lab)


def sandbox(lab: Lab, name: str) -> tuple[str, ...]:
    change(lab.base / "config" / "ptb-tui" / "config.toml", 'sandbox = "process"', f'sandbox = "{name}"')
    return batch(lab)


def no_sandbox(lab: Lab) -> tuple[str, ...]:
    """A machine that forbids namespaces: there is a `bwrap`, and it cannot do anything."""
    program = lab.base / "home" / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    lab.env["PATH"] = f"{program.parent}:{lab.env['PATH']}"
    return sandbox(lab, "auto")


def unknown_sandbox(lab: Lab) -> tuple[str, ...]:
    return sandbox(lab, "jail")


def with_table(lab: Lab, text: str) -> tuple[str, ...]:
    arguments = batch(lab)
    with open(arguments[1], "a") as file:
        file.write(text)
    return arguments


def engine(lab: Lab) -> tuple[str, ...]:
    return with_table(lab, '[judging]\nengine = "openai_api"\n')


def judges_lack(lab: Lab) -> tuple[str, ...]:
    return with_table(lab, '[judging]\nengine = "codex"\n')


def key_nobody_has(lab: Lab) -> tuple[str, ...]:
    return instead(lab, "agents/toy/api_keys.json", '{"allowed_api_keys": ["NOBODY_HAS_THIS_KEY"]}')


def no_results(lab: Lab) -> tuple[str, ...]:
    del lab.env["POST_TRAIN_BENCH_RESULTS_DIR"]
    return batch(lab)


@dataclass(frozen=True)
class Mistake:
    name: str
    make: Callable[[Lab], tuple[str, ...]]
    words: tuple[str, ...]


MISTAKES = (
    Mistake("unknown agent", lambda lab: batch(lab, '"toy"\nconfig', '"toyy"\nconfig'), ("'toyy'", "mean 'toy'")),
    Mistake("unknown task", lambda lab: batch(lab, 'tasks = ["toy"]', 'tasks = ["gsmk8"]'), ("'gsmk8'", "tasks")),
    Mistake("unknown protocol", lambda lab: batch(lab, protocol="9.9"), ("'9.9'", "known:", "1.2", "toy")),
    Mistake("unknown model", lambda lab: batch(lab, "local/toy-base", "A/B"), ("A/B", "protocol toy", "toy-base")),
    Mistake("unknown local model", lambda lab: batch(lab, "toy-base", "absent"), ("local/absent", "containers/models")),
    Mistake("no hours", lambda lab: batch(lab, hours=0), ("toy.toml", "hours", "above zero")),
    Mistake("negative hours", lambda lab: batch(lab, hours=-1), ("toy.toml", "hours", "above zero")),
    Mistake("hours in words", lambda lab: batch(lab, hours="ten"), ("toy.toml", "hours", "10 or 0.5")),
    Mistake("misspelt key", lambda lab: batch(lab, hourz=1), ("toy.toml", "hourz", "did you mean `hours`")),
    Mistake("key at the wrong place", lambda lab: batch(lab, engine="rules"), ("toy.toml", "engine", "unknown key")),
    Mistake("key of the sweep", lambda lab: batch(lab, 'config = "exit0"', 'config = "x"\ntasks = ["toy"]'),
            ("toy.toml", "agents.0.tasks", "unknown key")),
    Mistake("no config", lambda lab: batch(lab, 'config = "exit0"\n', ""), ("toy.toml", "agents.0.config", "missing")),
    Mistake("config is a path", lambda lab: batch(lab, '"exit0"', '"../.."'), ("agents.0.config", "directory name")),
    Mistake("not TOML", lambda lab: batch(lab, "gpus = 0", "gpus 0"), ("toy.toml", "not TOML", "line")),
    Mistake("no file", lambda lab: ("--batch", "absent.toml"), ("absent.toml", "cannot be read")),
    Mistake("cell twice", lambda lab: batch(lab, "[[agents]]", f"[[agents]]\n{AGENT}\n[[agents]]"),
            ("more than once", "toy_exit0_0.5h", "experiment")),
    Mistake("a key without a value", key_nobody_has, ("NOBODY_HAS_THIS_KEY", "no value", ".env")),
    Mistake("results are a file", file_as_results, ("note.txt", "POST_TRAIN_BENCH_RESULTS_DIR")),
    Mistake("no results configured", no_results, ("POST_TRAIN_BENCH_RESULTS_DIR", ".env")),
    Mistake("no api_keys.json", lambda lab: without(lab, "agents/toy/api_keys.json"),
            ("agent toy", "api_keys.json", "[]")),
    Mistake("no solve.sh", lambda lab: without(lab, "agents/toy/solve.sh"), ("agent toy", "solve.sh")),
    Mistake("no evaluate.py", lambda lab: without(lab, "tasks/toy/evaluate.py"), ("task toy", "evaluate.py")),
    Mistake("no test data", lambda lab: without(lab, "tasks/toy/test_data.json"), ("test_data.json", "missing")),
    Mistake("info.json broken", lambda lab: instead(lab, "tasks/toy/info.json", "{"), ("info.json",)),
    Mistake("info.json lacks a key", lambda lab: instead(lab, "tasks/toy/info.json", "{}"), ("info.json", "benchmark")),
    Mistake("agent.toml", lambda lab: instead(lab, "agents/toy/agent.toml", 'labl = "x"'), ("agent.toml", "`label`")),
    Mistake("extends nobody", lambda lab: instead(lab, "agents/toy/agent.toml", 'extends = "x"'), ("no agent 'x'",)),
    Mistake("judge engine", engine, ("openai_api need a sandbox", "OPENAI_API_KEY has no value", "api.openai.com")),
    Mistake("judges without all they need", judges_lack,
            ("codex need a sandbox", "agents update codex --version 0.144.5", "credentials login codex-judge")),
    Mistake("a budget nobody would keep", lambda lab: with_table(lab, "[limits]\nbudget_usd = 5\n"),
            ("limits.budget_usd is not carried out", "take limits.budget_usd out")),
    Mistake("an endpoint without a network", lambda lab: with_table(lab, '[endpoints]\ntoy = "http://127.0.0.1:1"\n'),
            ("http://127.0.0.1:1", "protocol toy have no network", "gateway")),
    Mistake("an endpoint of nobody", lambda lab: with_table(lab, '[endpoints]\nclade = "http://127.0.0.1:1"\n'),
            ("'clade'", "neither an agent nor a CLI", "did you mean 'claude'")),
    Mistake(".env broken", lambda lab: instead(lab, ".env", "# fine\nSOME KEY\n"), (".env: line 2", "KEY=value")),
    Mistake("config.toml", lambda lab: instead(lab, "config/ptb-tui/config.toml", "operater = 'x'"),
            ("config.toml", "operater", "`operator`")),
    Mistake("no sandbox", no_sandbox, ("no sandbox for agents here", "install", "bubblewrap")),
    Mistake("unknown sandbox", unknown_sandbox, ("'jail'", "bubblewrap", "process")),
    Mistake("site", lambda lab: (*batch(lab), "--site", "moon"), ("'moon'", "config.toml", "local", "served")),
    Mistake("unknown run", unknown_run, ("'99'", "ptb-tui runs")),
    Mistake("ambiguous run", ambiguous, ("17001", "17002")),
    Mistake("unknown verb", lambda lab: ("frobnicate",), ("frobnicate", "--help")),
    Mistake("timeout", lambda lab: (*batch(lab), "--timeout", "0"), ("--timeout", "above zero")),
)  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_said_before_anything_is_done(lab: Lab, mistake: Mistake) -> None:
    _, lines = refused(lab, *mistake.make(lab))
    said = "\n".join(lines)
    assert not [word for word in mistake.words if word not in said], said


def test_all_problems_are_said_at_once(lab: Lab) -> None:
    key_nobody_has(lab)
    (lab.cwd / "tasks/toy/test_data.json").unlink()
    line, lines = refused(lab, *engine(lab))
    said = [line for line in lines if line.startswith("blocked: ")]
    assert "4 things in the way" in line and len(said) == 4, lines  # two of them are the judges'
    for word in ("NOBODY_HAS_THIS_KEY", "test_data.json", "need a sandbox", "OPENAI_API_KEY"):
        assert sum(word in one for one in said) == 1, said


def test_a_program_reads_the_mistake_too(lab: Lab) -> None:
    code, out, err = ask(lab, *batch(lab, hourz=1), "--json")
    error = json.loads(out.splitlines()[-1])["error"]
    assert (code, error["type"], error["exit_code"], err) == (2, "ConfigError", 2, "")
    assert "hourz" in error["message"]


@pytest.fixture
def nobody() -> Iterator[Lab]:
    with place_of_nobody() as lab:
        yield lab


def test_results_that_cannot_be_written(nobody: Lab) -> None:
    nobody.results.mkdir(mode=0o555)
    arguments = batch(nobody)
    line, lines = refused(nobody, *arguments)
    assert line.startswith("Cannot write:") and str(nobody.results) in line and "POST_TRAIN_BENCH" in lines[-1], lines
    nobody.env["POST_TRAIN_BENCH_RESULTS_DIR"] = str(nobody.results / "deeper")
    line, _ = refused(nobody, *arguments)
    assert str(nobody.results / "deeper") in line
