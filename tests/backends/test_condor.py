"""condor_submit, condor_q and condor_history as they really answer, and as they might."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.parse.answer import (
    WORDS_LIMIT,
    Answer,
    NotReached,
    ParseError,
    Phase,
    Refused,
    SchedulerJob,
    Source,
    Submitted,
    SubmitUnknown,
    one_line,
)
from backends.parse.condor import parse_condor_q, parse_history, parse_submit
from backends.parse.reasons import HOLD_CODES, HOLD_PAIRS, SLURM_REASONS, Why, hold_cause
from ptb_tui.core.causes import causes
from ptb_tui.core.text import sanitize

DATA = Path(__file__).parents[1] / "data" / "sched"
TWO = (DATA / "condor_q_json_two_jobs.json").read_bytes()


def sample(name: str) -> bytes:
    return (DATA / name).read_bytes()


def queue(*ads: dict[str, Any]) -> Answer:
    return parse_condor_q(json.dumps(list(ads)).encode(), b"", 0)


def job_of(answer: Answer, handle: str) -> SchedulerJob:
    job = answer.get(handle)
    assert isinstance(job, SchedulerJob)
    return job


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("condor_submit_output.txt", Submitted(812)),
        ("condor_submit_one.txt", Submitted(1)),
        ("condor_submit_20.txt", Submitted(8, count=20)),
        ("condor_submit_noise.txt", Submitted(4711, count=2)),
    ],
)
def test_the_cluster_of_a_submit(name: str, expected: Submitted) -> None:
    assert parse_submit(sample(name), b"", 0) == expected


def test_terse_names_first_and_last_job() -> None:
    assert parse_submit(b"Welcome, user 3!\n812.0 - 812.0\n", b"", 0) == Submitted(812)
    assert parse_submit(b"9.0 - 9.19\n", b"", 0) == Submitted(9, count=20)


@pytest.mark.parametrize(
    ("out", "err", "rc"),
    [
        (b"", b"", 0),
        (b"Welcome to cluster 3\nnode 17 is down\n", b"", 0),
        (b"see: 1 job(s) submitted to cluster 5. Really.\n", b"", 0),
        (b"5.0 - 5.0\n6.0 - 6.0\n", b"", 0),
        (b"5.0 - 6.0\n", b"", 0),
        (b"1 job(s) submitted to cluster 5.\n", b"", None),  # the link broke: the id may be cut
        (b"1 job(s) submitted to cluster 5.\n", b"", 1),
        (b"Submitting job(s)", b"\nERROR: Failed to commit job submission into the queue.\n", 1),
        (b"Submitting job(s)", b"", 1),
        (b"", b"Terminated\n", 143),
    ],
)
def test_an_id_is_never_guessed(out: bytes, err: bytes, rc: int | None) -> None:
    assert isinstance(parse_submit(out, err, rc), SubmitUnknown)


def test_a_refusal_and_an_absent_scheduler_leave_nothing_behind() -> None:
    refused = parse_submit(b"Submitting job(s)", b"\nERROR: on Line 3 of submit file: invalid Queue statement\n", 1)
    assert refused == Refused("ERROR: on Line 3 of submit file: invalid Queue statement")
    down = b"\nERROR: Failed to connect to local queue manager\nSECMAN:2011:Connection closed during authorization.\n"
    assert isinstance(parse_submit(b"Submitting job(s)", down, 1), NotReached)


@given(st.binary(max_size=300), st.binary(max_size=300), st.none() | st.integers(-20, 255))
def test_any_bytes_get_an_answer(out: bytes, err: bytes, rc: int | None) -> None:
    parse_submit(out, err, rc)
    for answer in (parse_condor_q(out, err, rc), parse_history(out, err, rc)):
        assert not answer.jobs


def test_two_jobs_with_a_hold_and_its_remedy() -> None:
    answer = parse_condor_q(TWO, b"", 0)
    running, held = job_of(answer, "812.0"), job_of(answer, "813.0")
    assert answer.complete and answer.absent("999.0")
    assert (running.phase, running.host, running.starts) == (Phase.RUNNING, "slot1_1@gpu01.example", 1)
    assert (held.phase, held.cause, held.starts) == (Phase.HELD, "oom", 2)
    assert "request_memory" in held.reason and "more memory" in held.next


def test_real_answers() -> None:
    running = job_of(parse_condor_q(sample("condor_q_running.json"), b"", 0), "1.0")
    assert running.phase is Phase.RUNNING and running.starts == 0  # the queue lags behind the log
    held = job_of(parse_condor_q(sample("condor_q_held.json"), b"", 0), "3.0")
    assert (held.phase, held.cause, held.reason) == (Phase.HELD, "", "operator asked (by user alice)")
    done = job_of(parse_history(sample("condor_history.json"), b"", 0), "1.0")
    assert (done.phase, done.exit_code, done.signal) == (Phase.ENDED, 0, None)
    killed = job_of(parse_history(sample("condor_history_signal.json"), b"", 0), "15.0")
    assert (killed.exit_code, killed.signal) == (None, 9)
    removed = job_of(parse_history(sample("condor_history_removed.json"), b"", 0), "3.0")
    assert (removed.word, removed.cause, removed.exit_code, removed.starts) == ("removed", "operator", None, 3)


def test_empty_and_unreachable_are_not_the_same() -> None:
    refused = sample("condor_q_cannot_connect.stderr.txt")
    assert parse_condor_q(b"", b"", 0) == Answer(Source.ANSWERED)
    for answer in (
        parse_condor_q(b"", refused, 0),
        parse_condor_q(b"", refused, 1),
        parse_condor_q(b"", b"", 1),
        parse_condor_q(TWO, b"", None),
        parse_history(b"", b"", 0),
    ):
        assert answer.source is Source.UNREACHABLE and not answer.complete and not answer.absent("812.0")
    assert parse_history(b"[\n]\n", b"", 0) == Answer(Source.ANSWERED)


def test_warnings_may_come_first() -> None:
    answer = parse_condor_q(sample("condor_q_json_warning_first.txt"), b"", 0)
    assert answer.complete and job_of(answer, "812.0").phase is Phase.QUEUED
    assert parse_condor_q(b"[1] 4711\n[INFO] hello\n" + TWO, b"", 0).jobs == parse_condor_q(TWO, b"", 0).jobs


@given(st.integers(1, len(TWO.rstrip()) - 1))
def test_half_a_list_is_never_an_empty_queue(cut: int) -> None:
    answer = parse_condor_q(TWO[:cut], b"", 0)
    assert answer.source is Source.UNREADABLE and answer.problems and not answer.absent("812.0")


@pytest.mark.parametrize("status", [0, 8, 99, -1, None, True, "2", 2.0e300, [], "undefined"])
def test_an_unknown_state_harms_one_job(status: object) -> None:
    answer = queue(
        {"ClusterId": 1, "ProcId": 0, "JobStatus": status},
        {"clusterid": 2, "PROCID": 0, "jobStatus": 2, "PtbToken": "t"},
    )
    assert isinstance(answer.get("1.0"), ParseError) and job_of(answer, "2.0").phase is Phase.RUNNING
    assert answer.complete and not answer.absent("1.0") and len(answer.by_token("t")) == 1 and not answer.by_token("")


def test_a_job_without_a_name_leaves_the_answer_incomplete() -> None:
    answer = queue({"JobStatus": 2}, {"ClusterId": 2, "ProcId": 0, "JobStatus": 6})
    assert not answer.complete and not answer.absent("7.0") and job_of(answer, "2.0").phase is Phase.ENDING
    assert not parse_condor_q(TWO + b"\n[]", b"", 0).complete
    assert isinstance(queue(*[{"ClusterId": 2, "ProcId": 0, "JobStatus": n} for n in (2, 5)]).problems[0], ParseError)


def test_documents_that_break_readers() -> None:
    deep = b"[{" + b'"a":{' * 100_000
    for out in (deep, b"[{}, 3]", b"[\n", b"{}", b"null"):
        assert parse_condor_q(out, b"", 0).source is Source.UNREADABLE
    digits = parse_condor_q(b'[{"ClusterId": ' + b"9" * 5000 + b"}]", b"", 0)  # read or not: a setting of the process
    assert not digits.jobs and (digits.problems or digits.source is Source.UNREADABLE)
    answer = parse_condor_q(b'[{"ClusterId": NaN, "ProcId": Infinity}, {"ClusterId": 1e999, "ProcId": -1}]', b"", 0)
    assert not answer.jobs and len(answer.problems) == 2


def test_a_reason_cannot_move_the_terminal() -> None:
    held = queue({"ClusterId": 1, "ProcId": 0, "JobStatus": 5, "HoldReason": "\x1b]0;x\x07a\nb", "HoldReasonCode": 1})
    assert job_of(held, "1.0").reason == "a b"


def test_holds_in_words() -> None:
    assert hold_cause(21, 102).cause == hold_cause(34, 0, "memory usage exceeded request_memory").cause == "oom"
    assert hold_cause(7, 28).cause == "disk_full" and hold_cause(12, 122).cause == "quota"
    assert hold_cause(3, 77).cause == "preempted" and "second start" in hold_cause(3, 77).words
    assert hold_cause(13, 0, "write failed: No space left on device").cause == "disk_full"
    assert hold_cause(None, None) == hold_cause(4711, 0) and hold_cause(1, 0).cause == ""


@given(st.none() | st.integers(-5, 120), st.none() | st.integers(-5, 200), st.text(max_size=80))
def test_every_hold_has_words_and_a_next_step(code: int | None, subcode: int | None, text: str) -> None:
    why = hold_cause(code, subcode, text)
    assert why.words and why.next


@pytest.mark.parametrize("why", [*HOLD_CODES.values(), *HOLD_PAIRS.values(), *SLURM_REASONS.values()])
def test_causes_are_rows_of_the_table(why: Why) -> None:
    assert why.cause in ("", *causes())


@given(st.text(max_size=500))
def test_one_line_is_what_sanitize_makes_of_it(text: str) -> None:
    assert one_line(text) == sanitize(text, limit=WORDS_LIMIT, newlines=False)
