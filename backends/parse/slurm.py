"""Slurm's answers: `sbatch --parsable`, `squeue -o SQUEUE_FORMAT`, `sacct --parsable2` (versions 20 to 25).

Tables are asked for with their header and read by its names, so banners before it do no harm and an answer without one
is no answer. Set `ENVIRONMENT`: Slurm then prints times as seconds; local times without a zone are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from backends.parse.answer import (
    Answer,
    NotReached,
    Outcome,
    ParseError,
    Phase,
    Refused,
    SchedulerJob,
    Source,
    Submitted,
    SubmitUnknown,
    one_line,
    text_of,
    words_of,
)
from backends.parse.reasons import SLURM_HELD, slurm_reason
from backends.parse.slurm_table import STATES, Table, read_table, state_of

# Free text last: only the last column may hold a separator.
SQUEUE_FORMAT = "%i|%T|%V|%S|%N|%r|%j|%k"
SACCT_FORMAT = "JobIDRaw,JobID,State,ExitCode,Submit,Start,Restarts,NodeList,JobName,Comment"
ENVIRONMENT: Mapping[str, str] = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}

_ID = re.compile(r"(\d{1,15})(?:;([\w.-]{1,64}))?")
_SENTENCE = re.compile(r"Submitted batch job (\d{1,15})(?: on cluster ([\w.-]{1,64}))?")
_NOBODY = re.compile(r"Unable to contact slurm controller|Unable to establish configuration source", re.I)
_DOUBT = re.compile(
    r"timed? ?out|zero bytes|unexpected (?:message|end)|transport|communication|connection|socket", re.I
)
_ERROR = re.compile(r"sbatch: (?:error|fatal|unrecognized|invalid)|sbatch: option .* requires")


def parse_sbatch(stdout: bytes, stderr: bytes, rc: int | None) -> Outcome:
    """The job that `sbatch --parsable` made, with the cluster where it named one.

    Only a line that is an id, or Slurm's own whole sentence, counts; two different ids are no id (case F01).
    """
    out, err = text_of(stdout), text_of(stderr)
    lines = [line.strip() for line in out.split("\n")]
    hits = (_SENTENCE.fullmatch(line) or _ID.fullmatch(line) for line in lines)
    found = {Submitted(int(hit[1]), hit[2] or "") for hit in hits if hit}
    words = words_of(err) or words_of(out)
    if rc == 0 and len(found) == 1:
        return found.pop()
    if rc is None or rc == 0 or found:
        return SubmitUnknown(words or "sbatch named no job")
    if _NOBODY.search(err):
        return NotReached(words)
    if _ERROR.search(err) and not _DOUBT.search(err):
        return Refused(words)
    return SubmitUnknown(words or f"sbatch ended with {rc}")


def job_name(run_id: int, token: str) -> str:
    """The name of our jobs. It carries the token too: accounting keeps comments only where a site says so."""
    return f"ptb-{run_id}-{token}"


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _time(*texts: str) -> float | None:
    value = next((number for text in texts if (number := _integer(text))), None)
    return float(value) if value else None


def _given(text: str) -> str:
    return "" if text in ("None", "(null)", "N/A", "Unknown", "None assigned") else one_line(text)


def _token(row: Mapping[str, str]) -> str:
    name = re.fullmatch(r"ptb-\d+-([\w.:-]+)", row.get("JOBNAME") or row.get("NAME") or "")
    return _given(row.get("COMMENT", "")) or (name[1] if name else "")


def _job(handle: str, row: Mapping[str, str]) -> SchedulerJob | ParseError:
    state = state_of(row["STATE"])
    if state is None:
        return ParseError(handle, "unknown state", one_line(row["STATE"]))
    word, who = state
    phase, cause = STATES[word]
    reason = _given(row.get("REASON", "").removeprefix("(").removesuffix(")"))
    step = ""
    if phase is Phase.QUEUED and reason in SLURM_HELD:
        phase = Phase.HELD
    if phase in (Phase.QUEUED, Phase.HELD) and (why := slurm_reason(reason)):
        cause, step = why.cause, why.next
    if who:
        reason = f"cancelled by {one_line(who)}"
        cause = "unknown" if who == "0" else cause  # root is the site, not one of us
    waits = phase in (Phase.QUEUED, Phase.HELD)
    start = row.get("START_TIME") or row.get("START") or ""  # of a job that waits: a guess
    begun = not waits and start not in ("None", "Unknown", "N/A")
    restarts = _integer(row.get("RESTARTS", ""))
    code = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5})", row.get("EXITCODE", "")) if phase is Phase.ENDED else None
    return SchedulerJob(
        handle=handle,
        phase=phase,
        word=word,
        token=_token(row),
        reason=reason,
        cause=cause,
        next=step,
        host=_given(row.get("NODELIST", "")),
        starts=None if restarts is None else restarts + begun,
        queued=_time(row.get("SUBMIT_TIME", ""), row.get("SUBMIT", "")),
        started=_time(start) if begun else None,
        exit_code=int(code[1]) if code else None,
        signal=(int(code[2]) or None) if code else None,
    )


def _answer(table: Table, err: str, rows: list[tuple[str, Mapping[str, str]]]) -> Answer:
    jobs: dict[str, SchedulerJob] = {}
    problems = {problem.job: problem for problem in table.problems}
    for handle, row in rows:  # a job that was put back may have one row a start; the last one is now
        jobs.pop(handle, None)
        problems.pop(handle, None)
        job = _job(handle, row)
        if isinstance(job, ParseError):
            problems[handle] = job
        else:
            jobs[handle] = job
    if re.search(r"\berror:", err):
        problems.setdefault("", ParseError("", "errors beside the answer", words_of(err)))
    return Answer(Source.ANSWERED, tuple(jobs.values()), tuple(problems.values()), words_of(err))


def parse_squeue(stdout: bytes, stderr: bytes, rc: int | None) -> Answer:
    """The queue. Only a header proves that there are no jobs; nothing at all is no answer."""
    out, err = text_of(stdout), text_of(stderr)
    if rc == 1 and "Invalid job id specified" in err and not stdout:
        return Answer(Source.ANSWERED, words=words_of(err))  # asked for one job that the controller has forgotten
    if rc != 0:
        return Answer(Source.UNREACHABLE, words=words_of(err) or words_of(out))
    table = read_table(out)
    if not table.answered:
        if not out.strip():
            return Answer(Source.UNREACHABLE, words=words_of(err) or "squeue printed nothing, not even its header")
        return Answer(Source.UNREADABLE, problems=(ParseError("", "no header", one_line(out[-200:])),))
    return _answer(table, err, list(table.rows))


def parse_sacct(stdout: bytes, stderr: bytes, rc: int | None) -> Answer:
    """Accounting. It lags behind, so no rows, with or without a header, mean "not known yet" (case F02).

    Steps (`.batch`, `.extern`, `.0`) are no jobs; one killed for memory explains a job that only says FAILED.
    """
    out, err = text_of(stdout), text_of(stderr)
    if "accounting storage is disabled" in err + out:
        return Answer(Source.DISABLED, words=words_of(err) or words_of(out))
    if rc != 0:
        return Answer(Source.UNREACHABLE, words=words_of(err) or words_of(out))
    if not out.strip():
        return Answer(Source.UNREACHABLE if err.strip() else Source.ANSWERED, words=words_of(err))
    table = read_table(out)
    if not table.answered:
        return Answer(Source.UNREADABLE, problems=(ParseError("", "no header", one_line(out[-200:])),))
    rows = [(handle, row) for handle, row in table.rows if "." not in handle.partition(";")[0]]
    answer = _answer(table, err, rows)
    killed = {
        handle.partition(".")[0]
        for handle, row in table.rows
        if "." in handle.partition(";")[0] and (state_of(row["STATE"]) or ("", ""))[0] == "OUT_OF_MEMORY"
    }
    jobs = (
        replace(job, cause="oom") if job.word == "FAILED" and job.handle.partition(";")[0] in killed else job
        for job in answer.jobs
    )
    return replace(answer, jobs=tuple(jobs))
