"""The fold: strength of evidence, whatever the order in which it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.events import Event
from ptb_tui.core.states import Observation, State, StepFiles, Strength, fold

KINDS = ("claimed", "phase", "started", "requeued", "adopted", "stopping", "harvested", "something new")


def event(kind: str, seq: int, writer: int = 1, **data: object) -> Event:
    return Event(kind, seq, writer, data=data)


CLAIMED, STARTED = event("claimed", 1), event("started", 2)


def ended(outcome: str, cause: str = "", seq: int = 9) -> Event:
    return event("ended", seq, outcome=outcome, cause=cause)


def test_the_life_of_an_agent_step() -> None:
    assert fold(StepFiles()).state is State.QUEUED
    assert fold(StepFiles(waits=True)).state is State.WAITING
    assert fold(StepFiles([CLAIMED])).state is State.STARTING
    assert fold(StepFiles([CLAIMED, STARTED])).state is State.RUNNING
    exited = StepFiles([CLAIMED, STARTED], exit={"rc": 0}, harvests=True)
    assert fold(exited).state is State.RUNNING, "an agent step ends with its harvest"
    done = fold(StepFiles([CLAIMED, STARTED, ended("done", "agent_budget")], exit={"rc": None}, harvests=True))
    assert (done.state, done.cause, done.strength) == (State.DONE, "agent_budget", Strength.EXIT)


def test_the_exit_record_decides_a_judge_or_an_evaluation() -> None:
    files = StepFiles([CLAIMED, STARTED, ended("failed", "host_lost")], exit={"rc": 0})
    assert fold(files).state is State.DONE, "the supervisor may have missed it; the shim knows"
    failed = fold(StepFiles([CLAIMED, STARTED, ended("failed", "no_model")], exit={"rc": 1}))
    assert (failed.state, failed.cause) == (State.FAILED, "no_model")
    assert fold(StepFiles([STARTED], exit={"rc": 0, "stopped": "deadline"})).cause == "step_limit"


def test_lost_is_an_inference_and_is_revoked() -> None:
    lost = Observation("lost", Strength.INFERENCE, "gone from the queue", seen=(1, 2))
    assert fold(StepFiles([CLAIMED, STARTED], observed=[lost])).state is State.LOST
    grown = fold(StepFiles([CLAIMED, STARTED, event("phase", 3, name="agent")], observed=[lost]))
    assert grown.state is State.RUNNING and "lost 1x, then seen again" in grown.flags
    came_back = fold(StepFiles([CLAIMED, STARTED, ended("done")], observed=[lost], harvests=True))
    assert came_back.state is State.DONE


def test_what_never_started_ends_by_a_cancel_record() -> None:
    assert fold(StepFiles(cancelled=True)).state is State.CANCELLED
    assert fold(StepFiles([CLAIMED, STARTED], cancelled=True)).state is State.RUNNING
    assert "cancelling" in fold(StepFiles([CLAIMED, STARTED], cancelled=True)).flags
    requeued = [CLAIMED, event("requeued", 2)]
    assert fold(StepFiles(requeued)).state is State.QUEUED


def test_a_weak_answer_ends_nothing() -> None:
    gone = Observation("removed", Strength.ANSWER, "not in the queue")
    assert fold(StepFiles(observed=[gone])).state is State.QUEUED
    removed = Observation("removed", Strength.JOB_LOG, "removed by its owner")
    assert fold(StepFiles(observed=[removed])).state is State.CANCELLED
    held = Observation("held", Strength.ANSWER, "memory")
    assert fold(StepFiles([CLAIMED, STARTED], observed=[held, removed])).state is State.RUNNING


events_lists = st.lists(
    st.builds(
        Event,
        st.sampled_from((*KINDS, "ended")),
        st.integers(1, 30),
        st.integers(1, 3),
        data=st.fixed_dictionaries({"outcome": st.sampled_from(["done", "failed", "cancelled", "?"])}),
    ),
    max_size=8,
    unique_by=lambda event: event.order,
)
observations = st.lists(
    st.builds(
        Observation,
        st.sampled_from(["lost", "held", "released", "removed", "queued", "running", "submit_unknown"]),
        st.sampled_from(list(Strength)),
        seen=st.tuples(st.integers(0, 3), st.integers(0, 30)),
        seq=st.integers(0, 9),
    ),
    max_size=5,
)
exits = st.none() | st.fixed_dictionaries(
    {"rc": st.sampled_from([0, 1, None]), "stopped": st.sampled_from(["", "deadline", "cancel", "fence", "signal"])}
)


@given(events_lists, observations, exits, st.booleans(), st.booleans(), st.booleans(), st.randoms())
def test_order_of_reading_does_not_matter(
    log: list[Event],
    seen: list[Observation],
    exit_record: dict[str, object] | None,
    cancelled: bool,
    harvests: bool,
    waits: bool,
    random: object,
) -> None:
    shuffled, mixed = list(log), list(seen)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one = fold(StepFiles(log, exit_record, seen, cancelled, harvests, waits))
    two = fold(StepFiles(shuffled, exit_record, mixed, cancelled, harvests, waits))
    assert (one.state, one.cause, one.strength) == (two.state, two.cause, two.strength)


@given(events_lists, observations, exits, st.booleans(), st.booleans())
def test_weaker_evidence_never_changes_what_stronger_decided(
    log: list[Event], seen: list[Observation], exit_record: dict[str, object] | None, cancelled: bool, harvests: bool
) -> None:
    without = fold(StepFiles(log, exit_record, (), False, harvests))
    if without.strength >= Strength.SUPERVISOR and without.state.ended:
        with_all = fold(StepFiles(log, exit_record, seen, cancelled, harvests, waits=True))
        assert with_all.state is without.state
