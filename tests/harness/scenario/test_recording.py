"""What the interpreter tells comes back out of the segment as it was."""

from __future__ import annotations

from pathlib import Path

from squall.harness.scenario.recording import Recorder
from squall.results.history.segments import (
    CompletionRow,
    InvocationRow,
    RegisterCompletion,
    RegisterInvocation,
    read_segment,
    segment_path,
)
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    INFO,
    MARKER,
    OK,
    POLL,
    READ,
    SEND,
    Completion,
    Event,
    Operation,
)

Rows = list[InvocationRow | CompletionRow | RegisterInvocation | RegisterCompletion]


def rows(directory: Path) -> Rows:
    _, found, torn = read_segment(segment_path(directory, 0))
    assert torn == 0
    return [row for _, row in found]


def test_an_invocation_and_its_completion_are_two_rows(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path, "run", 0)
    operation = Operation(SEND, 1, 101, 3, 900, "events", 2, 77)
    recorder.record(Event(operation, 1000))
    recorder.record(Event(operation, 1000, Completion(OK, offset=5, sequence=9, client=10003), 2000))
    recorder.close()
    invoked, completed = rows(tmp_path)
    assert invoked == InvocationRow("send", 101, 3, 1000, 900, "events", 2, 77)
    assert completed == CompletionRow(101, "ok", 2000, offset=5, sequence=9, client=10003)
    assert recorder.rows == 1


def test_what_a_poll_delivered_keeps_its_order(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path, "run", 0)
    operation = Operation(POLL, 0, 0, 4, 0, "events", 0)
    recorder.record(Event(operation, 1))
    recorder.record(Event(operation, 1, Completion(OK, offsets=(7, 8), values=(70, 80), session=2, position=7), 3))
    recorder.close()
    completed = rows(tmp_path)[1]
    assert isinstance(completed, CompletionRow)
    assert (completed.offsets, completed.values, completed.session, completed.position) == ((7, 8), (70, 80), 2, 7)


def test_what_was_flushed_is_readable_while_the_recorder_lives(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path, "run", 0)
    operation = Operation(SEND, 0, 0, 0, 0, "events", 0, 1)
    recorder.record(Event(operation, 1))
    recorder.record(Event(operation, 1, Completion(INFO, error="message_timed_out"), 3))
    recorder.flush()
    assert len(rows(tmp_path)) == 2


def test_markers_are_acks_all_whatever_the_producers_do(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path, "run", 0, acks="1", idempotent=False)
    recorder.record(Event(Operation(MARKER, 0, 0, 0, 0, "events", 0, 1), 1))
    recorder.record(Event(Operation(SEND, 1, 1, 0, 0, "events", 0, 2), 1))
    recorder.close()
    header, _, _ = read_segment(segment_path(tmp_path, 0))
    marker, send = rows(tmp_path)
    assert isinstance(marker, InvocationRow) and isinstance(send, InvocationRow)
    assert (header.acks, header.idempotent) == (1, False)
    assert (marker.acks, marker.idempotent) == (-1, True)
    assert (send.acks, send.idempotent) == (None, None)


def test_operations_on_registers_are_rows_of_their_own(tmp_path: Path) -> None:
    recorder = Recorder.open(tmp_path, "run", 0)
    creation = Operation(CAS, 1, 101, 3, 900, "side", value=77, register="topic side", expected=ABSENT)
    look = Operation(READ, 2, 102, 3, 950, "side", register="topic side")
    recorder.record(Event(creation, 1000))
    recorder.record(Event(look, 1100))
    recorder.record(Event(creation, 1000, Completion(INFO, error="topic_already_exists"), 2000))
    recorder.record(Event(look, 1100, Completion(OK, found=77), 2100))
    recorder.close()
    assert rows(tmp_path) == [
        RegisterInvocation("cas", 101, 3, 1000, 900, "topic side", 77, ABSENT),
        RegisterInvocation("read", 102, 3, 1100, 950, "topic side"),
        RegisterCompletion(101, "info", 2000, error="topic_already_exists"),
        RegisterCompletion(102, "ok", 2100, found=77),
    ]
    assert recorder.rows == 2
