"""sbatch, squeue and sacct as they really answer, and as they might."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.parse.answer import (
    Answer,
    NotReached,
    ParseError,
    Phase,
    Refused,
    SchedulerJob,
    Source,
    Submitted,
    SubmitUnknown,
)
from backends.parse.reasons import SLURM_HELD, SLURM_REASONS
from backends.parse.slurm import job_name, parse_sacct, parse_sbatch, parse_squeue
from backends.parse.slurm_table import STATES, state_of
from ptb_tui.core.causes import causes

DATA = Path(__file__).parents[1] / "data" / "sched"
QUEUE = (DATA / "squeue.txt").read_bytes()
ACCOUNTS = (DATA / "sacct_parsable2.txt").read_bytes()
DOWN = (DATA / "slurm_down.stderr.txt").read_bytes()
HEADER = b"JOBID|STATE|SUBMIT_TIME|START_TIME|NODELIST|REASON|NAME|COMMENT\n"


def sample(name: str) -> bytes:
    return (DATA / name).read_bytes()


def job_of(answer: Answer, handle: str) -> SchedulerJob:
    job = answer.get(handle)
    assert isinstance(job, SchedulerJob)
    return job


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sbatch_parsable_cluster.txt", Submitted(519605, "clusterb")),
        ("sbatch_banner.txt", Submitted(519605)),
        ("sbatch_charge_note.txt", Submitted(519606)),
    ],
)
def test_the_id_of_a_submit(name: str, expected: Submitted) -> None:
    assert parse_sbatch(sample(name), b"", 0) == expected


def test_the_sentence_may_name_a_cluster() -> None:
    assert parse_sbatch(b"Submitted batch job 7 on cluster b\r\n", b"", 0) == Submitted(7, "b")


@pytest.mark.parametrize(
    ("out", "err", "rc"),
    [
        (b"", b"", 0),
        (b"Welcome to the Example3 Supercomputer\nYou have 12 jobs\n", b"", 0),
        (b"notice: Submitted batch job 5\n", b"", 0),
        (b"2026\n519606\n", b"", 0),
        (b"5196", b"", None),
        (b"519606\n", b"sbatch: error: something\n", 1),
        (b"", b"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", 1),
        (b"", b"sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received\n", 1),
        (b"", b"", 1),
    ],
)
def test_an_id_is_never_guessed(out: bytes, err: bytes, rc: int | None) -> None:
    assert isinstance(parse_sbatch(out, err, rc), SubmitUnknown)


def test_a_refusal_and_an_absent_controller_leave_nothing_behind() -> None:
    limit = (
        b"sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)\n"
    )
    refused = parse_sbatch(b"", limit, 1)
    assert isinstance(refused, Refused) and "time limit" in refused.words
    down = b"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"
    assert isinstance(parse_sbatch(b"", down, 1), NotReached)


@given(st.binary(max_size=300), st.binary(max_size=300), st.none() | st.integers(-20, 255))
def test_any_bytes_get_an_answer(out: bytes, err: bytes, rc: int | None) -> None:
    parse_sbatch(out, err, rc)
    for answer in (parse_squeue(out, err, rc), parse_sacct(out, err, rc)):
        assert not answer.jobs


@given(st.lists(st.lists(st.sampled_from(["1", "RUNNING", "CANCELLED+", "", "JOBID", "STATE", "1_[2-3]", "1;b"]))))
def test_any_table_gets_an_answer(rows: list[list[str]]) -> None:
    text = "".join("|".join(row) + "\n" for row in rows).encode()
    for answer in (parse_squeue(HEADER + text, b"", 0), parse_sacct(HEADER + text, b"", 0)):
        assert answer.source is Source.ANSWERED
        assert not {job.handle for job in answer.jobs} & {problem.job for problem in answer.problems}


def test_a_queue() -> None:
    answer = parse_squeue(QUEUE, b"", 0)
    assert answer.complete and len(answer.jobs) == 6 and answer.absent("1")
    running = job_of(answer, "519605")
    assert (running.phase, running.host, running.reason, running.started) == (Phase.RUNNING, "gpu01", "", None)
    limited = job_of(answer, "519606")
    assert (limited.phase, limited.reason, limited.cause) == (Phase.QUEUED, "QOSMaxJobsPerUserLimit", "")
    assert limited.next and job_of(answer, "519608_[3-9%2]").phase is Phase.QUEUED
    assert job_of(answer, "519609").phase is Phase.ENDING
    held = job_of(answer, "519610")
    assert (held.phase, held.reason) == (Phase.HELD, "launch failed requeued held")


def test_real_queues() -> None:
    ended = parse_squeue(sample("squeue_after_cancel.txt"), b"", 0)
    assert [(job.handle, job.phase, job.cause) for job in ended.jobs] == [
        ("3", Phase.ENDED, "operator"),
        ("1", Phase.ENDED, ""),
        ("2", Phase.ENDED, "unknown"),
        ("4", Phase.QUEUED, ""),
        ("5", Phase.HELD, ""),
    ]
    assert len(parse_squeue(sample("squeue_pending.txt"), b"", 0).jobs) == 3
    assert job_of(parse_squeue(sample("squeue_running.txt"), b"", 0), "1").phase is Phase.RUNNING


def test_our_own_format() -> None:
    name = job_name(17, "ab12").encode()
    rows = (
        b"7|RUNNING|1785570000|1785570300|gpu01|None|" + name + b"|ab12\n"
        b"8|PENDING|1785570000|1785599999|(null)|Priority|x|a|b\n"
        b"9|PENDING|N/A|N/A||ReqNodeNotAvail, UnavailableNodes:gpu01|x|(null)\n"
    )
    answer = parse_squeue(b"motd: 3 nodes down\n" + HEADER + rows, b"", 0)
    ours, other, third = (job_of(answer, handle) for handle in "789")
    assert (ours.token, ours.queued, ours.started) == ("ab12", 1785570000.0, 1785570300.0)
    assert (other.token, other.started, other.next) == ("a|b", None, "nothing")
    assert (third.token, third.queued) == ("", None) and "exclude" in third.next
    assert answer.by_token("ab12") == (ours,)


def test_answers_of_several_clusters_stay_apart() -> None:
    row = b"7|RUNNING|1|1|n|None|x|t\n"
    answer = parse_squeue(b"CLUSTER: a\n" + HEADER + row + b"\nCLUSTER: b\n" + HEADER + row, b"", 0)
    assert [job.handle for job in answer.jobs] == ["7;a", "7;b"] and len(answer.by_token("t")) == 2


def test_header_only_and_nothing_and_unreachable() -> None:
    assert parse_squeue(HEADER, b"", 0) == Answer(Source.ANSWERED)
    assert parse_squeue(b"", b"slurm_load_jobs error: Invalid job id specified\n", 1).complete
    for answer in (
        parse_squeue(b"", b"", 0),
        parse_squeue(b"", DOWN, 1),
        parse_squeue(b"", DOWN, 0),
        parse_squeue(QUEUE, b"", None),
        parse_sacct(b"", DOWN, 1),
        parse_sacct(b"", DOWN, 0),
        parse_sacct(ACCOUNTS, b"", None),
    ):
        assert answer.source is Source.UNREACHABLE and not answer.absent("519605") and not answer.jobs
    assert parse_squeue(b"Welcome!\n", b"", 0).source is Source.UNREADABLE
    partly = parse_squeue(HEADER, b"squeue: error: cluster b does not answer\n", 0)
    assert partly.source is Source.ANSWERED and not partly.complete


def test_accounting_that_knows_nothing_is_no_end() -> None:
    header = ACCOUNTS.split(b"\n")[0] + b"\n"
    assert parse_sacct(sample("sacct_empty.txt"), b"", 0) == parse_sacct(header, b"", 0) == Answer(Source.ANSWERED)
    assert parse_sacct(b"", b"Slurm accounting storage is disabled\n", 1).source is Source.DISABLED
    assert not parse_sacct(b"", b"Slurm accounting storage is disabled\n", 1).absent("5")


def test_accounts() -> None:
    answer = parse_sacct(ACCOUNTS, b"", 0)
    assert answer.complete
    assert [(job.handle, job.word, job.phase.value, job.cause, job.starts) for job in answer.jobs] == [
        ("519605", "COMPLETED", "ended", "", 1),
        ("519611", "CANCELLED", "ended", "operator", 0),
        ("519612", "OUT_OF_MEMORY", "ended", "oom", 1),
        ("519613", "TIMEOUT", "ended", "walltime", 1),
        ("519614", "PREEMPTED", "ended", "preempted", 2),
        ("519615", "NODE_FAIL", "ended", "host_lost", 1),
        ("519608_3", "REQUEUED", "queued", "", 2),
        ("519617", "RUNNING", "running", "", 1),
    ]
    assert job_of(answer, "519611").reason == "cancelled by 1021"
    assert (job_of(answer, "519615").exit_code, job_of(answer, "519617").exit_code) == (1, None)


def test_a_step_explains_a_failed_job_and_a_later_row_wins() -> None:
    table = (
        b"JobIDRaw|JobID|State|ExitCode|Restarts|JobName|Comment\n"
        b"5|5|PREEMPTED|0:0|0|ptb-17-ab12|\n5|5|FAILED|9:0|1|ptb-17-ab12|\n5.batch|5.batch|OUT_OF_ME+|0:125||batch|\n"
        b"6|6|CANCELLED by 0|0:15|0|x|\n"
    )
    answer = parse_sacct(table, b"", 0)
    job, other = job_of(answer, "5"), job_of(answer, "6")
    assert (job.cause, job.exit_code, job.starts, job.token) == ("oom", 9, 2, "ab12")
    assert (other.cause, other.signal) == ("unknown", 15) and len(answer.jobs) == 2


@given(st.sampled_from(sorted(STATES)), st.integers(1, 20))
def test_a_cut_word_is_read_only_when_one_state_is_meant(word: str, length: int) -> None:
    stem = word[:length]
    found = state_of(stem + "+")
    meant = [name for name in STATES if name.startswith(stem)]
    assert found is None or found == (word, "") or stem in STATES
    if len(meant) == 1 and length >= 4:
        assert found == (word, "")
    assert state_of(word) == (word, "") and (stem in STATES or state_of(stem) is None)


def test_words_for_states() -> None:
    assert state_of("CANCELLED by 123") == ("CANCELLED", "123") and state_of("CANCELLED+") == ("CANCELLED", "")
    assert (
        state_of("OUT_OF_ME+") == ("OUT_OF_MEMORY", "") and state_of("COMPLET+") is None and state_of("BURNING") is None
    )
    assert all(cause in ("", *causes()) for _, cause in STATES.values()) and set(SLURM_REASONS) >= SLURM_HELD


def test_an_unknown_state_or_a_short_row_harms_one_job() -> None:
    answer = parse_squeue(QUEUE + b"7|BURNING|None|n|N/A|0:00\n8|RUN\n", b"", 0)
    assert isinstance(answer.get("7"), ParseError) and isinstance(answer.get("8"), ParseError)
    assert answer.complete and len(answer.jobs) == 6 and not answer.absent("8")
    assert not parse_squeue(QUEUE + b"bye bye\n", b"", 0).complete


@pytest.mark.parametrize(("whole", "parse"), [(QUEUE, parse_squeue), (ACCOUNTS, parse_sacct)])
@given(data=st.data())
def test_a_cut_table_loses_no_job_silently(
    whole: bytes, parse: Callable[[bytes, bytes, int | None], Answer], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(whole) - 1))
    answer = parse(whole[:cut], b"", 0)
    if whole[cut - 1 : cut] != b"\n":
        assert not answer.complete
    known = {job.handle: job for job in parse(whole, b"", 0).jobs}
    assert all(known[job.handle] == job for job in answer.jobs)
