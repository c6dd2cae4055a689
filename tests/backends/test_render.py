"""What goes to a scheduler: golden files, and every argument comes out as it went in."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from backends.parse import quoting
from backends.parse.render import (
    Batch,
    CondorProfile,
    SlurmProfile,
    batch_script,
    sbatch_options,
    slurm_time,
    submit_description,
)
from ptb_tui.core.backend import Job
from ptb_tui.core.errors import ConfigError

DATA = Path(__file__).parents[1] / "data" / "sched"
PROFILES = tomllib.loads((DATA / "profile_h100.toml").read_text("utf-8"))
CONDOR, SLURM = CondorProfile(**PROFILES["condor"]), SlurmProfile(**PROFILES["slurm"])
BATCH = Batch(
    job=Job(run_id=1785570000, token="0f3a9c", steps=(1, 2, 3), gpus=1, seconds=45 * 3600 + 1, priority=90),
    argv=("/shared/tools/python3", "-I", "/shared/results/_ptb/bundles/ab12/ptb", "step", "it's", 'a "b" $HOME 100% *'),
    workdir=Path("/shared/results"),
    logs=Path("/shared/results/_ptb/logs"),
    harvest_s=1800,
    env={"HOME": "/home/op", "NOTE": "two words"},
)

text = st.text(st.characters(codec="utf-8", exclude_characters=[chr(n) for n in range(32) if n != 9] + ["\x7f"]))
tricky = st.text(st.sampled_from("ab \t'\"$%*\\#()[]{}@=;&|<>~`äß世"), max_size=20)
words = st.one_of(text, tricky).filter(lambda word: "$$(" not in word and "$$[" not in word)


def changed(**values: Any) -> Batch:
    return replace(BATCH, **values)


def condor_words(value: str) -> list[str]:
    """The words of a value in HTCondor's newer syntax, read by the rules of its manual."""
    value = value.replace("$(DOLLAR)", "$")
    assert value[0] == value[-1] == '"'
    inside = re.sub('""', "\0", value[1:-1])
    assert '"' not in inside
    found, word, quoted, begun = [], "", False, False
    inside, at = inside.replace("\0", '"'), 0
    while at < len(inside):
        char = inside[at]
        if char == "'":
            if quoted and inside[at + 1 : at + 2] == "'":
                word, at = word + "'", at + 1
            else:
                quoted, begun = not quoted, True
        elif not quoted and char in " \t":
            if begun:
                found.append(word)
            word, begun = "", False
        else:
            word, begun = word + char, True
        at += 1
    assert not quoted
    return [*found, word] if begun else found


@given(st.lists(words, max_size=6))
def test_arguments_come_out_of_condor_as_they_went_in(argv: list[str]) -> None:
    value = quoting.arguments(argv)
    assert condor_words(value) == argv
    assert "\n" not in value and "$" not in value.replace("$(DOLLAR)", "")


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9]{0,8}", fullmatch=True), words, max_size=4))
def test_so_do_variables(env: dict[str, str]) -> None:
    if any(quoting._SECRET.search(name) for name in env):
        return
    assert dict(pair.split("=", 1) for pair in condor_words(quoting.environment(env))) == env


@settings(max_examples=25, deadline=None)
@given(st.lists(words, max_size=6), words)
def test_a_batch_script_starts_the_program_with_the_same_words(argv: list[str], value: str) -> None:
    tail = ("-c", 'import os,sys; sys.stdout.write("\\0".join([os.environ["NOTE"], *sys.argv[1:]]))')
    script = batch_script(
        changed(argv=("/usr/bin/python3", "-I", "-S", "-X", "utf8", *tail, *argv), env={"NOTE": value})
    )
    answer = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True, timeout=20)
    assert answer.stdout.decode().split("\0") == [value, *argv]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\x1b[31m", "\x0b", "\ud800"])
def test_line_breaks_and_control_characters_are_refused(bad: str) -> None:
    for batch in (
        changed(argv=("/bin/true", bad)),
        changed(env={"NOTE": bad}),
    ):
        for render in (lambda batch: submit_description(batch, CONDOR), batch_script):
            with pytest.raises(ConfigError):
                render(batch)
    for batch in (changed(workdir=Path("/a" + bad)), changed(logs=Path("/a" + bad))):
        with pytest.raises((ConfigError, ValueError)):
            submit_description(batch, CONDOR)
        with pytest.raises((ConfigError, ValueError)):
            sbatch_options(batch, SLURM)


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "HF_TOKEN", "my_secret", "PASSWORD", "CLAUDE_CODE_OAUTH_TOKEN", "A B", ""]
)
def test_secrets_and_bad_names_stay_out_of_public_places(name: str) -> None:
    with pytest.raises(ConfigError):
        submit_description(changed(env={name: "x"}), CONDOR)
    with pytest.raises(ConfigError):
        batch_script(changed(env={name: "x"}))


def test_what_condor_would_expand_twice_is_refused() -> None:
    for bad in ("$$(Memory)", "x$$[1]"):
        with pytest.raises(ConfigError, match="meaning of their own"):
            submit_description(changed(argv=("/bin/true", bad)), CONDOR)
    for folder in ("/a\\", "/a "):
        with pytest.raises(ConfigError):
            submit_description(changed(workdir=Path(folder)), CONDOR)


@pytest.mark.parametrize(
    "batch",
    [
        changed(argv=()),
        changed(argv=("python3",)),
        changed(workdir=Path("here")),
        changed(harvest_s=45 * 3600 + 1),
        changed(harvest_s=0),
        *(changed(job=replace(BATCH.job, token=token)) for token in ("", "a b", 'a"b', "-x", "a|b", "a\n", "x" * 200)),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(batch: Batch) -> None:
    for render in (lambda: submit_description(batch, CONDOR), lambda: sbatch_options(batch, SLURM)):
        with pytest.raises(ConfigError):
            render()


@pytest.mark.parametrize(
    "line",
    [
        "getenv = true",
        "GetEnv=true",
        "queue 20",
        "+PtbToken = 1",
        "My.PtbToken = 1",
        "+Args = 1",
        "include : x",
        "x = 1\\",
        "x",
        "x @=end",
        "log = a",
        "a = 1\nqueue",
    ],
)
def test_extra_lines_cannot_undo_ours(line: str) -> None:
    with pytest.raises(ConfigError, match="extra"):
        submit_description(BATCH, CONDOR.model_copy(update={"extra": (line,)}))


@pytest.mark.parametrize(
    "option",
    ["--requeue", "--export=ALL", "--exp=ALL", "--comm=x", "--wrap=x", "-t1", "--time=1", "x", "--no-req", "-- x"],
)
def test_extra_options_cannot_undo_ours(option: str) -> None:
    with pytest.raises(ConfigError, match="extra"):
        sbatch_options(BATCH, SLURM.model_copy(update={"extra": (option,)}))


def test_only_known_settings_of_a_site() -> None:
    for profile in (CondorProfile, SlurmProfile):
        with pytest.raises(ValidationError):
            profile.model_validate({"memmory": 1})
    bare = submit_description(changed(job=replace(BATCH.job, gpus=0), argv=("/bin/true",), env={}), CondorProfile())
    assert not re.search(r"^(request_|requirements|arguments|environment)", bare, re.MULTILINE)
    options = sbatch_options(changed(job=replace(BATCH.job, gpus=2, priority=100)), SlurmProfile())
    assert "--gres=gpu:2" in options and not any(option.startswith(("--mem", "--nice", "--qos")) for option in options)


@given(st.floats(1, 1e7))
def test_time_is_never_less_than_asked_for(seconds: float) -> None:
    days, hours, minutes, rest = map(int, re.fullmatch(r"(\d+)-(\d\d):(\d\d):(\d\d)", slurm_time(seconds)).groups())  # type: ignore[union-attr]
    assert seconds <= days * 86400 + hours * 3600 + minutes * 60 + rest < seconds + 120


def test_slurm_does_not_expand_names_of_files() -> None:
    options = sbatch_options(changed(logs=Path("/a %j b")), SLURM)
    assert "--output=/a %%j b/1785570000-1-2-3.out" in options
    with pytest.raises(ConfigError):
        sbatch_options(changed(logs=Path("/a\\b")), SLURM)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("condor.sub", submit_description(BATCH, CONDOR)),
        ("slurm.options", "\n".join(sbatch_options(BATCH, SLURM)) + "\n"),
        ("slurm.sh", batch_script(BATCH)),
    ],
)
def test_golden(name: str, made: str) -> None:
    assert made == (DATA / "golden" / name).read_text("utf-8")
