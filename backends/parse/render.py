"""What a scheduler is given: a submit description for HTCondor, options and a batch script for Slurm.

A job that would begin a second time is never begun silently: Slurm must not requeue it, HTCondor holds it. Slurm's
options stand on the command line: `SBATCH_*` variables in a person's profile overrule options inside a script. Values
of a site have no defaults here; what a cluster wants stands in its configuration.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from backends.parse import quoting
from backends.parse.condor import TOKEN_ATTRIBUTE
from backends.parse.reasons import SECOND_START
from backends.parse.slurm import job_name
from ptb_tui.core.backend import Job
from ptb_tui.core.errors import ConfigError

SIGNAL_LIMIT = 65535  # seconds; the most that Slurm's --signal takes


class CondorProfile(BaseModel):
    """What jobs of one kind ask for at an HTCondor site (`[backend]`). `extra`: `key = value` lines, kept as is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: int | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    disk_mb: int | None = Field(default=None, gt=0)
    requirements: str = ""
    concurrency_limits: str = ""
    extra: tuple[str, ...] = ()


class SlurmProfile(BaseModel):
    """What jobs of one kind ask for at a Slurm site (`[backend]`). `extra`: long options such as `--exclude=gpu07`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    cpus: int | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    gpu_type: str = ""
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One job as it is to be run.

    `argv` begins with an absolute path. `logs` is a folder that exists on the head and on the nodes. `harvest_s` is the
    notice the job needs before its end. `env` reaches every user of the cluster, so it never holds a secret.
    """

    job: Job
    argv: tuple[str, ...]
    workdir: Path
    logs: Path
    harvest_s: float
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """The beginning of the names of the job's own files in `logs`."""
        return f"{self.job.run_id}-{'-'.join(str(step) for step in self.job.steps)}"


def _check(batch: Batch) -> None:
    if not batch.argv or not batch.argv[0].startswith("/"):
        raise ConfigError("a job's program needs an absolute path")
    if not (batch.workdir.is_absolute() and batch.logs.is_absolute()):
        raise ConfigError("a job's folders need absolute paths")
    if not re.fullmatch(r"[A-Za-z0-9][\w.:-]{0,127}", batch.job.token, re.ASCII):
        raise ConfigError(f"{batch.job.token!r} cannot be the token of a job")
    if not 0 < batch.harvest_s < batch.job.seconds:
        raise ConfigError(f"a job of {batch.job.seconds:g} s cannot give notice {batch.harvest_s:g} s before its end")


_OURS_CONDOR = re.compile(
    r"arguments|batch_name|environment|error|executable|getenv|initialdir|job_max_vacate_time|log|output"
    r"|periodic_hold(?:_reason|_subcode)?|priority|queue|request_gpus|transfer_executable|universe"
    r"|want_graceful_removal|my\.(?:ptb(?:run|steps|token)|args|arguments|cmd|env|environment)"
)


def _extra_condor(lines: Sequence[str]) -> list[str]:
    for line in lines:
        match = re.fullmatch(r"\s*(\+?[A-Za-z_][\w.]*)\s*=(.*[^\\\s])", quoting.checked(line, "extra"))
        if match is None:
            raise ConfigError(f"extra: {line!r} is not `key = value`")
        name = re.sub(r"^\+", "my.", match[1].lower())
        if _OURS_CONDOR.fullmatch(name):
            raise ConfigError(f"extra: {match[1]} is set by us and cannot be set again")
    return list(lines)


def submit_description(batch: Batch, profile: CondorProfile) -> str:
    """The file for `condor_submit -terse`. ConfigError for values that HTCondor could misread."""
    _check(batch)
    job, logs = batch.job, str(batch.logs / batch.stem)
    lines = [
        f"# ptb-tui: run {job.run_id}",
        "universe = vanilla",
        f"executable = {quoting.plain(batch.argv[0], 'executable')}",
        "transfer_executable = false",
        f"arguments = {quoting.arguments(batch.argv[1:])}" if batch.argv[1:] else "",
        f"initialdir = {quoting.plain(str(batch.workdir), 'initialdir')}",
        "getenv = false",
        f"environment = {quoting.environment(batch.env)}" if batch.env else "",
        *(f"{name} = {quoting.plain(f'{logs}.{end}', name)}" for name, end in (("output", "out"), ("error", "err"))),
        f"log = {quoting.plain(f'{logs}.log', 'log')}",
        f"batch_name = ptb-{job.run_id}",
        f"priority = {job.priority}",
        f"request_gpus = {job.gpus}" if job.gpus else "",
        f"request_cpus = {profile.cpus}" if profile.cpus else "",
        f"request_memory = {profile.memory_mb}" if profile.memory_mb else "",
        f"request_disk = {profile.disk_mb}M" if profile.disk_mb else "",
        f"requirements = {quoting.whole_line(profile.requirements, 'requirements')}" if profile.requirements else "",
        f"concurrency_limits = {quoting.plain(profile.concurrency_limits, 'concurrency_limits')}"
        if profile.concurrency_limits
        else "",
        f"job_max_vacate_time = {math.ceil(batch.harvest_s)}",
        "want_graceful_removal = true",
        "periodic_hold = NumJobStarts >= 1 && JobStatus == 1",
        'periodic_hold_reason = "stopped before a second start"',
        f"periodic_hold_subcode = {SECOND_START}",
        f"+{TOKEN_ATTRIBUTE} = {quoting.classad_string(job.token, 'token')}",
        f"+PtbRun = {job.run_id}",
        f"+PtbSteps = {quoting.classad_string(','.join(str(step) for step in job.steps), 'steps')}",
        *_extra_condor(profile.extra),
        "queue",
    ]
    return "\n".join(line for line in lines if line) + "\n"


# sbatch takes any unique beginning of an option, so beginnings of these are refused too.
_OURS_SLURM = (
    "array",
    "chdir",
    "comment",
    "export",
    "export-file",
    "error",
    "get-user-env",
    "job-name",
    "no-requeue",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "signal",
    "test-only",
    "time",
    "wait",
    "wrap",
)


def _extra_slurm(options: Sequence[str]) -> list[str]:
    for option in options:
        match = re.fullmatch(r"--([a-z][a-z-]*)(?:=.*)?", quoting.checked(option, "extra"))
        if match is None:
            raise ConfigError(f"extra: {option!r} is not a long option of sbatch, such as --exclude=gpu07")
        if any(ours.startswith(match[1]) for ours in _OURS_SLURM):
            raise ConfigError(f"extra: --{match[1]} is set by us and cannot be set again")
    return list(options)


def slurm_time(seconds: float) -> str:
    """`D-HH:MM:00`, rounded up: Slurm counts minutes."""
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00"


def sbatch_options(batch: Batch, profile: SlurmProfile) -> tuple[str, ...]:
    """Options for `sbatch`, one argument each; the script comes after them. ConfigError for values we cannot pass."""
    _check(batch)
    job = batch.job
    output = quoting.checked(str(batch.logs / batch.stem), "logs").replace("%", "%%")
    if "\\" in output:
        raise ConfigError(f"logs: a backslash in {output!r} would change Slurm's file names")
    gpus = f"gpu:{profile.gpu_type}:{job.gpus}" if profile.gpu_type else f"gpu:{job.gpus}"
    asked = {
        "partition": profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "gres": gpus if job.gpus else "",
        "cpus-per-task": str(profile.cpus or ""),
        "mem": f"{profile.memory_mb}M" if profile.memory_mb else "",
        "nice": str(100 - job.priority) if job.priority < 100 else "",
    }
    return (
        "--parsable",
        f"--job-name={job_name(job.run_id, job.token)}",
        f"--comment={job.token}",
        f"--time={slurm_time(job.seconds)}",
        "--no-requeue",
        "--export=NONE",
        f"--signal=B:USR1@{min(math.ceil(batch.harvest_s), SIGNAL_LIMIT)}",
        "--open-mode=append",
        f"--chdir={quoting.checked(str(batch.workdir), 'workdir')}",
        f"--output={output}.out",
        f"--error={output}.err",
        "--nodes=1",
        "--ntasks=1",
        *(f"--{name}={quoting.checked(value, name)}" for name, value in asked.items() if value),
        *_extra_slurm(profile.extra),
    )


def batch_script(batch: Batch) -> str:
    """The script for `sbatch`. It becomes our program, which therefore gets Slurm's signals itself."""
    _check(batch)
    words = [shlex.quote(quoting.checked(word, "arguments")) for word in batch.argv]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in quoting.checked_environment(batch.env).items()]
    return "\n".join(["#!/bin/sh", f"# ptb-tui: run {batch.job.run_id}", *exports, f"exec {' '.join(words)}"]) + "\n"
