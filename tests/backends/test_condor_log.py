"""The job event log: real logs, in any pieces, in both forms of dates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.parse.answer import Phase
from backends.parse.condor_log import JobLog, LogEvent, LogReader, apply, fold

DATA = Path(__file__).parents[1] / "data" / "sched"
LOGS = {path.name: path.read_bytes() for path in sorted(DATA.glob("*.log"))}
EVENTS = LOGS["condor_event.log"]


def read(data: bytes) -> dict[str, JobLog]:
    return fold(LogReader().feed(data))


def only(name: str) -> JobLog:
    (job,) = read(LOGS[name]).values()
    return job


def test_starts_holds_and_ends() -> None:
    jobs = read(EVENTS)
    first, second = jobs["812.0"], jobs["813.0"]
    assert (first.phase, first.starts, first.exit_code, first.reason) == (Phase.ENDED, 2, 0, "")
    assert (first.queued, first.ended) == ("2026-08-01 07:40:00", "2026-08-01 19:50:00")
    assert (second.phase, second.starts, second.cause) == (Phase.ENDED, 0, "operator")


def test_real_logs() -> None:
    assert (only("userlog_exit_7.log").phase, only("userlog_exit_7.log").exit_code) == (Phase.ENDED, 7)
    assert only("userlog_normal.log").exit_code == 0 and only("userlog_normal.log").host == "slot1_1@head.ptb.test"
    killed = only("userlog_killed_by_signal.log")
    assert (killed.exit_code, killed.signal) == (None, 9)
    memory = only("userlog_memory_exceeded.log")
    assert (memory.phase, memory.cause, memory.starts) == (Phase.HELD, "oom", 1)
    unstarted = only("userlog_held_at_start.log")
    assert (unstarted.phase, unstarted.starts) == (Phase.HELD, 0) and "/nosuch/dir/out" in unstarted.reason
    removed = only("userlog_hold_release_evict_rm.log")
    assert (removed.phase, removed.starts, removed.cause) == (Phase.ENDED, 3, "operator")
    assert (only("userlog_node_crashed.log").phase, only("userlog_node_crashed.log").starts) == (Phase.QUEUED, 1)
    again = only("userlog_head_crashed.log")
    assert (again.phase, again.starts, again.disconnected) == (Phase.RUNNING, 2, False)
    kept = only("userlog_schedd_killed.log")
    assert (kept.phase, kept.starts, kept.disconnected) == (Phase.RUNNING, 1, False)
    assert only("userlog_starter_killed.log").starts == 2


def test_the_phase_after_each_event() -> None:
    job, phases = JobLog("812.0"), []
    for event in LogReader().feed(EVENTS):
        if event.handle == "812.0":
            job = apply(job, event)
            phases.append((event.code, job.phase, job.disconnected))
    queued, running = Phase.QUEUED, Phase.RUNNING
    assert phases == [
        *[(0, queued, False), (1, running, False), (22, running, True), (24, queued, False), (4, queued, False)],
        *[(1, running, False), (12, Phase.HELD, False), (13, queued, False), (5, Phase.ENDED, False)],
    ]


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
def test_any_split_gives_the_same(name: str, data: st.DataObject) -> None:
    log = LOGS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=12)))
    reader, events = LogReader(), []
    for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        events += reader.feed(log[begin:end])
    assert events == LogReader().feed(log) and reader.offset == reader.settled == len(log)


@given(st.integers(0, len(EVENTS)))
def test_a_new_reader_goes_on_where_the_last_one_had_settled(cut: int) -> None:
    first = LogReader()
    before = first.feed(EVENTS[:cut])
    second = LogReader(first.settled)
    assert fold(second.feed(EVENTS[first.settled :]), fold(before)) == read(EVENTS)
    assert second.settled == len(EVENTS)


@given(st.integers(0, 700))
def test_every_single_cut(cut: int) -> None:
    reader = LogReader()
    assert reader.feed(EVENTS[:cut]) + reader.feed(EVENTS[cut:]) == LogReader().feed(EVENTS)


def _shape(jobs: dict[str, JobLog]) -> list[tuple[str, Phase, int, str]]:
    return [(job.handle, job.phase, job.starts, job.cause) for job in jobs.values()]


@pytest.mark.parametrize("name", LOGS)
def test_both_forms_of_dates_and_line_ends(name: str) -> None:
    old = re.sub(rb"\) \d{4}-(\d\d)-(\d\d) ", rb") \1/\2 ", LOGS[name])
    iso = re.sub(rb"(\) \d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)", rb"\1T\2.123+02:00", LOGS[name])
    assert old != LOGS[name] != iso
    for other in (old, iso, LOGS[name].replace(b"\n", b"\r\n")):
        assert _shape(read(other)) == _shape(read(LOGS[name]))


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_no_trouble(pieces: list[bytes]) -> None:
    reader = LogReader()
    for piece in pieces:
        reader.feed(piece)
    assert reader.offset == sum(map(len, pieces)) >= reader.settled


codes = st.sampled_from([0, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 21, 22, 23, 24, 28, 40, 999])


@given(st.lists(codes, max_size=20), st.lists(codes, max_size=20))
def test_an_end_absorbs_and_unknown_codes_change_nothing(before: list[int], after: list[int]) -> None:
    event = {code: LogEvent(code, "1.0", "2026-01-01 00:00:00", "") for code in [*before, *after, 5, 6, 999]}
    job = fold([event[code] for code in before]).get("1.0", JobLog("1.0"))
    assert apply(apply(job, event[6]), event[999]) == job
    if job.phase is not Phase.ENDED:
        assert job.starts == before.count(1)
    ended = apply(job, event[5])
    assert fold([event[code] for code in after], {"1.0": ended}) == {"1.0": ended}


def test_an_eviction_written_late_releases_no_hold() -> None:
    def happens(job: JobLog, code: int, *body: str) -> JobLog:
        return apply(job, LogEvent(code, "1.0", "", "", body))

    held = happens(happens(JobLog("1.0"), 1), 12, "stopped before a second start", "Code 3 Subcode 77")
    assert (held.phase, held.cause, held.reason) == (Phase.HELD, "preempted", "stopped before a second start")
    assert happens(happens(held, 4), 10) == held
    lost = happens(happens(happens(JobLog("1.0"), 1), 22), 24, "Job not found at execution machine")
    assert (lost.phase, lost.reason, lost.disconnected) == (Phase.QUEUED, "Job not found at execution machine", False)
    assert happens(happens(lost, 1), 10).phase is Phase.SUSPENDED and happens(lost, 10) == lost


def test_an_event_whose_writer_died_still_counts() -> None:
    torn = b"001 (5.000.000) 2026-08-01 07:45:00 Job executing on host: <192.0.2.21:9618>\n\tSlotNa"
    assert read(torn + b"\n" + EVENTS)["5.0"].starts == 1
    reader = LogReader()
    assert reader.feed(torn) == [] and reader.settled == 0


def test_memory_is_bounded() -> None:
    reader = LogReader()
    reader.feed(b"008 (5.000.000) 2026-08-01 07:45:00 x\n")
    for _ in range(200):
        reader.feed(b"y" * 50_000)
        reader.feed(b"\nz\n")
    (event,) = reader.feed(b"...\n")
    assert len(event.body) <= 64 and all(len(line) <= 4096 for line in event.body)
