"""What a scheduler's answer is worth: which jobs it names, and whether a missing job may be called absent (case F02).

Nothing here raises on what a scheduler printed. `rc` is None when the connection was lost before the exit code came:
such output is never read, however complete it looks (case G02).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ptb_tui.core.text import sanitize

WORDS_LIMIT = 400  # of a scheduler's own words, which others can write


class Phase(StrEnum):
    """Where a job stands for its scheduler. It is never the state of a step, only evidence for one."""

    QUEUED = "queued"
    HELD = "held"  # waits for a person
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"  # being removed, or its output on the way
    ENDED = "ended"


class Source(StrEnum):
    """How much of an answer this is."""

    ANSWERED = "answered"
    UNREACHABLE = "unreachable"  # no scheduler at the other end, or it refused to talk
    UNREADABLE = "unreadable"  # it spoke, but this is no whole answer
    DISABLED = "disabled"  # this site keeps no such records


@dataclass(frozen=True, slots=True)
class ParseError:
    """Text that was not understood. An empty `job` means nobody knows whose text it was."""

    job: str
    why: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class SchedulerJob:
    """One job as its scheduler describes it.

    `handle`: `cluster.proc` of HTCondor, the job id of Slurm (`id;cluster` where the answer named a cluster).
    `word`: the scheduler's own word for the state. `cause`: a row of `causes.toml`, empty when nothing is wrong.
    `token`: ours, empty for jobs of others. Times are seconds since the epoch, None when the text had no zone.
    `starts`: how often it began, None when unknown. `exit_code` and `signal` are of the batch command.
    """

    handle: str
    phase: Phase
    word: str
    token: str = ""
    reason: str = ""
    cause: str = ""
    next: str = ""
    host: str = ""
    starts: int | None = None
    queued: float | None = None
    started: float | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one query."""

    source: Source
    jobs: tuple[SchedulerJob, ...] = ()
    problems: tuple[ParseError, ...] = ()
    words: str = ""

    @property
    def complete(self) -> bool:
        """Whether every job the scheduler listed was at least recognised as one."""
        return self.source is Source.ANSWERED and all(problem.job for problem in self.problems)

    def get(self, handle: str) -> SchedulerJob | ParseError | None:
        """The job, or what was wrong with its text, or None."""
        for job in self.jobs:
            if job.handle == handle:
                return job
        return next((problem for problem in self.problems if problem.job == handle), None)

    def by_token(self, token: str) -> tuple[SchedulerJob, ...]:
        """All jobs with this token: more than one is a double submission."""
        return tuple(job for job in self.jobs if token and job.token == token)

    def absent(self, handle: str) -> bool:
        """Whether the scheduler said that it has no such job. A reason to look for evidence, never a state."""
        return self.complete and self.get(handle) is None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The scheduler has the job. `cluster` is the name of a Slurm cluster, where one was named."""

    id: int
    cluster: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Refused:
    """The scheduler said no and has nothing; asking again the same way gets the same answer."""

    words: str


@dataclass(frozen=True, slots=True)
class NotReached:
    """No scheduler was there to ask: nothing was submitted, asking again later is safe."""

    words: str


@dataclass(frozen=True, slots=True)
class SubmitUnknown:
    """Perhaps submitted, perhaps not: look for the token in queue and history before any second try."""

    words: str


Outcome = Submitted | Refused | NotReached | SubmitUnknown


def text_of(data: bytes) -> str:
    """Bytes as text; bad ones are replaced, line ends are \\n."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def words_of(*texts: str) -> str:
    """The end of what was said, fit for one line of a terminal."""
    said = [line.strip() for text in texts for line in text[-8192:].split("\n") if line.strip()]
    return sanitize(" · ".join(said[-4:]), limit=WORDS_LIMIT, newlines=False)


def one_line(text: str) -> str:
    """A scheduler's text inside one line, safe to show."""
    if len(text) <= WORDS_LIMIT and text.isascii() and text.isprintable():
        return text  # nearly all of it, and logs are long
    return sanitize(text, limit=WORDS_LIMIT, newlines=False)
