"""What a breach is told with: the operations, leaders and faults of its moment, and nothing of another one."""

from __future__ import annotations

from squall.harness.simulation.observer.failure_context import (
    NO_FAULT,
    UNDER_FAULT,
    RecentOperations,
    as_text,
    fault_lines,
    leader_line,
    place_in,
    with_faults_named,
)
from squall.results.history.segments import FaultWindow
from squall.results.witnesses.witness import WitnessLine
from squall.workloads.core.operation import FAIL, INFO, OK, POLL, SEND, Completion, Event, Operation

SECOND = 1_000_000_000
VALUE = (4 << 40) + 9
ACKNOWLEDGED = Completion(type=OK, offset=51, leader_epoch=4)


def operation(f: str, thread: int = 0, *, partition: int | None = 0, value: int | None = None) -> Operation:
    return Operation(
        f=f, thread=thread, process=thread, client=0, at=0, topic="events", partition=partition, value=value
    )


def completed(one: Operation, completion: Completion, at: int = 2) -> Event:
    return Event(one, SECOND, completion, at * SECOND)


def kill(injected: int | None, healed: int | None) -> FaultWindow:
    return FaultWindow(
        id=f"{injected}-kill",
        fault="kill -9",
        targets=("b2",),
        summary="b2 (leader of events/0)",
        injected=None if injected is None else injected * SECOND,
        healed=None if healed is None else healed * SECOND,
        during="process gone",
    )


def told(recent: RecentOperations, place: str = "events-0") -> list[str]:
    return [one.text for one in recent.lines(place, 0)]


# -- operations -----------------------------------------------------------------------------------------------------


def test_a_send_is_told_with_its_value_its_offset_its_leader_epoch_and_its_times() -> None:
    recent = RecentOperations()
    recent.note(completed(operation(SEND, value=VALUE), ACKNOWLEDGED))
    (line,) = recent.lines("events-0", 0)
    assert line.text == "send of value 4·9 acknowledged at offset 51, leader epoch 4, begun at 1.000 s"
    assert line.time == "2.000 s"


def test_a_send_that_has_no_answer_is_told_as_such_until_it_has_one() -> None:
    recent, send = RecentOperations(), operation(SEND, value=VALUE)
    recent.note(Event(send, SECOND))
    assert told(recent) == ["send of value 4·9, not answered yet, begun at 1.000 s"]
    recent.note(completed(send, Completion(type=INFO, error="request_timed_out")))
    assert told(recent) == ["send of value 4·9, outcome unknown (request_timed_out), begun at 1.000 s"]


def test_a_definite_failure_is_not_told_as_an_unknown_outcome() -> None:
    recent = RecentOperations()
    recent.note(completed(operation(SEND, value=VALUE), Completion(type=FAIL, error="disconnected")))
    assert told(recent) == ["send of value 4·9 failed (disconnected), begun at 1.000 s"]


def test_a_poll_that_delivered_nothing_takes_no_place_from_one_that_did() -> None:
    recent = RecentOperations()
    recent.note(completed(operation(POLL), Completion(type=OK, offsets=(7, 8), values=(1, 2), leader_epoch=3)))
    for _ in range(5):
        recent.note(completed(operation(POLL), Completion(type=OK)))
        recent.note(completed(operation(POLL), Completion(type=FAIL, error="disconnected")))
    assert told(recent) == ["poll of offsets 7 to 8, leader epoch 3, begun at 1.000 s"]


def test_operations_of_another_topic_partition_are_left_out_of_context() -> None:
    recent = RecentOperations()
    recent.note(completed(operation(SEND, value=VALUE), ACKNOWLEDGED))
    recent.note(completed(operation(SEND, 1, partition=1, value=VALUE + 1), Completion(type=OK, offset=3), at=3))
    recent.note(completed(operation("delete_topic", 2, partition=None), Completion(type=OK), at=4))
    assert [text.partition(",")[0] for text in told(recent)] == ["send of value 4·9 acknowledged at offset 51"]
    assert [text.partition(",")[0] for text in told(recent, "")] == [
        "send of value 4·9 on events-0 acknowledged at offset 51",
        "send of value 4·10 on events-1 acknowledged at offset 3",
        "delete_topic on events answered",
    ]


# -- the place, and who led ------------------------------------------------------------------------------------------


def test_the_place_is_the_first_topic_partition_that_a_sentence_names() -> None:
    known = {"events-1", "events-12"}
    assert place_in("events-12: b1 is in the ISR, unlike in events-1", known) == "events-12"
    assert place_in("c3: snapshot 98-1 holds something else", known) == ""
    assert place_in("__cluster_metadata-0: two leaders", known) == ""


def test_leaders_are_told_newest_first_with_their_epochs() -> None:
    assert [one.text for one in leader_line({0: "b1", 2: "b3", 1: "b2"})] == [
        "b3, leader epoch 2; before it b2, leader epoch 1"
    ]
    assert leader_line({}) == []


# -- faults ---------------------------------------------------------------------------------------------------------


def test_a_fault_that_holds_is_told_with_its_beginning_and_what_was_seen_of_it() -> None:
    assert fault_lines([kill(5, None)], 6 * SECOND, 0) == [
        WitnessLine(UNDER_FAULT, "kill -9 b2 (leader of events/0): process gone", "5.000 s")
    ]


def test_a_healed_fault_does_not_hold_but_is_shown_as_the_last_before() -> None:
    lines = fault_lines([kill(1, 2), kill(3, 4)], 6 * SECOND, 0)
    assert [(one.subject, one.time) for one in lines] == [(NO_FAULT.subject, ""), ("after fault", "4.000 s")]


def test_beside_a_holding_fault_a_recent_one_is_shown_and_an_old_is_not() -> None:
    lines = fault_lines([kill(0, 1), kill(2, 5), kill(4, None)], 6 * SECOND, 0)
    assert [(one.subject, one.time) for one in lines] == [(UNDER_FAULT, "4.000 s"), ("after fault", "5.000 s")]


def test_a_fault_that_is_still_to_come_or_was_never_injected_did_not_hold() -> None:
    assert fault_lines([kill(7, None), kill(None, None)], 6 * SECOND, 0) == [NO_FAULT]


def test_only_a_checkers_witness_without_a_fault_says_that_there_is_none() -> None:
    held, before = WitnessLine(UNDER_FAULT, "kill -9 b2 (1.0–4.0 s)"), WitnessLine("after fault", "kill -9 b2")
    assert with_faults_named([held]) == [held]
    assert with_faults_named([before]) == [before, NO_FAULT]


def test_a_long_text_does_not_push_the_times_of_the_others_away() -> None:
    short, long = as_text([WitnessLine("leader", "b1", "1.000 s"), WitnessLine("leader", "x" * 200, "2.000 s")])
    assert short == "leader  b1     1.000 s" and long.endswith("x     2.000 s")
