"""Lines of a client program: what is an answer, what each operation needs of one, and how a wrong one is reported."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from squall.workloads.clients.programs.lines import BadLine, completion_of, decoded, request_of
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    FINAL_POLL,
    LIST_OFFSETS,
    MARKER,
    POLL,
    READ,
    SEND,
    WRITE,
    Completion,
    Operation,
)


def operation(f: str, **fields: Any) -> Operation:
    return Operation(f, 0, 0, 0, 0, **fields)


def completed(f: str, **said: Any) -> Completion:
    return completion_of(operation(f), decoded(json.dumps({"id": 1, **said}).encode(), 1))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"hello\n", r"line 9: 'hello': JSON is malformed"),
        (b'{"type": "ok"}', "line 9: .*missing required field `id`"),
        (b'{"id": 1, "type": "perhaps"}', r"line 9: .*Invalid enum value 'perhaps' - at `\$.type`"),
        (b'{"id": 1, "type": "ok", "ofset": 3}', "line 9: .*unknown field `ofset`"),
        (b'{"id": 1, "type": "ok", "offset": -1}', r"line 9: .*>= 0 - at `\$.offset`"),
        (b'{"id": 1, "type": "ok", "records": [[1]]}', r"line 9: .*`\$.records\[0\]`"),
        (b"\xff\xfe", "line 9: "),
        (b"x" * 1000, f"line 9: '{'x' * 120}…'"),
    ],
)
def test_a_line_that_is_no_answer_is_named_with_what_would_be_right(line: bytes, problem: str) -> None:
    with pytest.raises(BadLine, match=problem):
        decoded(line, 9)


@pytest.mark.parametrize(
    ("f", "field"),
    [
        (SEND, "offset"),
        (MARKER, "offset"),
        (POLL, "records"),
        (FINAL_POLL, "records"),
        (LIST_OFFSETS, "high_watermark"),
        (READ, "found"),
    ],
)
def test_an_answer_that_is_ok_must_state_what_its_operation_is_about(f: str, field: str) -> None:
    with pytest.raises(BadLine, match=f"answer 1: a .* that is ok must state `{field}`"):
        completed(f, type="ok")


def test_records_are_told_as_they_were_delivered() -> None:
    found = completed(POLL, type="ok", records=[[7, 70], [5, 50]], high_watermark=8, log_start=2)
    assert (found.offsets, found.values, found.high_watermark, found.log_start) == ((7, 5), (70, 50), 8, 2)


def test_a_register_that_holds_nothing_is_null() -> None:
    assert completed(READ, type="ok", found=None).found == ABSENT
    assert completed(READ, type="ok", found=5, version=9) == Completion("ok", found=5, version=9)


def test_a_refused_compare_and_set_says_what_it_found() -> None:
    found = completed(CAS, type="fail", refused=True, found=4, version=2)
    assert (found.type, found.refused, found.found, found.version, found.error) == ("fail", True, 4, 2, "refused")
    assert completed(CAS, type="fail", refused=True).found is None


@pytest.mark.parametrize(("f", "type"), [(CAS, "ok"), (CAS, "info"), (WRITE, "fail"), (SEND, "fail")])
def test_nothing_else_can_be_refused(f: str, type: str) -> None:
    with pytest.raises(BadLine, match="`refused` is for a cas that is `fail`"):
        completed(f, type=type, refused=True, offset=1)


@pytest.mark.parametrize(("f", "outcome"), [(SEND, "info"), (WRITE, "info"), (POLL, "fail"), (READ, "fail")])
def test_a_read_of_unknown_outcome_has_certainly_changed_nothing(f: str, outcome: str) -> None:
    assert completed(f, type="info", error="late") == Completion(outcome, error="late")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (
            operation(SEND, topic="a", partition=1, value=5),
            {"f": "send", "topic": "a", "partition": 1, "value": 5, "size": 100},
        ),
        (
            operation(MARKER, topic="a", partition=0, value=5),
            {"f": "send", "topic": "a", "partition": 0, "value": 5, "size": 100},
        ),
        (
            operation(FINAL_POLL, topic="a", partition=0),
            {"f": "poll", "topic": "a", "partition": 0, "position": 3, "most": 10, "wait_ms": 50},
        ),
        (operation(READ, register="r"), {"f": "read", "register": "r"}),
        (operation(WRITE, register="r", value=1), {"f": "write", "register": "r", "value": 1}),
        (
            operation(CAS, register="r", value=2, expected=1),
            {"f": "cas", "register": "r", "value": 2, "expected": 1},
        ),
        (
            operation(CAS, register="r", value=2, expected=ABSENT),
            {"f": "cas", "register": "r", "value": 2, "expected": None},
        ),
    ],
)
def test_a_request_has_the_fields_of_its_operation_alone(asked: Operation, line: dict[str, Any]) -> None:
    made = request_of(4, asked, size=100, position=3, most=10, wait_ms=50)
    assert json.loads(msgspec.json.encode(made)) == {"id": 4, **line}
