"""The history of a reproduction: processes have one operation open at a time, and it is judged with its faults."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from squall.harness.gallery.core.clients import Sent
from squall.harness.gallery.core.entry import BROKEN
from squall.harness.gallery.core.observations import MARKER, Marked, Position, Read
from squall.harness.gallery.entries import chosen
from squall.harness.gallery.history import operations_of, write_run
from squall.results.check import verdict_of
from squall.results.history.segments import FaultWindow
from squall.results.synthetic.forge import ORIGIN, Forged

S = 1_000_000_000


def sent(value: int, invoked: int, completed: int, type: str = "ok", offset: int | None = 0) -> Sent:
    return Sent(1, "events", 0, value, type, 100 + invoked, 100 + completed, offset if type == "ok" else None)


def test_a_process_is_used_again_only_after_a_known_end() -> None:
    listed = [sent(1, 0, 10), sent(2, 5, 8, "info"), sent(3, 20, 30), sent(4, 21, 22), sent(5, 40, 50)]
    operations = operations_of(listed, [], [], began=100, idempotent=True)
    by_value = {one.value: one.process for one in operations}
    assert by_value[3] == by_value[1], "free again"
    assert by_value[2] not in {by_value[value] for value in (1, 3, 4, 5)}, "of unknown outcome: never again"
    assert by_value[4] != by_value[3], "both are open at once"
    assert [(one.invoked, one.completed) for one in operations][:2] == [(0, 10), (5, 8)]


def history(*values: int) -> list[Forged]:
    marked = [Marked("events", 0, 100 + 60, 100 + 70, MARKER, len(values))]
    records = tuple(enumerate([*values, MARKER]))
    return operations_of([sent(1, 0, 10)], marked, [Read("events", 0, 180, 190, records)], began=100, idempotent=True)


@pytest.mark.parametrize(
    ("values", "took", "undone", "verdict"),
    [
        ((1,), True, True, "valid"),
        ((1, 1), True, True, "invalid"),
        ((1,), False, True, "unknown"),
        ((1,), None, True, "unknown"),
        ((1,), True, False, "unknown"),
    ],
)
def test_a_schedule_that_did_not_act_is_never_valid(
    tmp_path: Path, values: tuple[int, ...], took: bool | None, undone: bool, verdict: str
) -> None:
    fault = FaultWindow(
        id="gap", fault="rpc-hold", targets=("broker 1",), summary="", injected=ORIGIN + 1, healed=ORIGIN + 9,
        took=took, undone=undone,
    )  # fmt: skip
    arm = chosen(["D1"])[0].arm(BROKEN)
    write_run(tmp_path, arm, history(*values), topics={"events": 1}, faults=[fault])
    assert verdict_of(tmp_path).verdict == verdict


@pytest.mark.parametrize(
    ("second", "read", "verdict"),
    [("ok", 10, "valid"), ("ok", 5, "invalid"), ("fail", 5, "valid"), ("fail", 10, "invalid")],
)
def test_a_groups_position_is_a_register(
    tmp_path: Path, second: Literal["ok", "fail"], read: int, verdict: str
) -> None:
    """A committed transaction has moved it, an aborted one has not."""
    positions = [
        Position("p", "write", 100 + 5, 100 + 10, 5),
        Position("p", "write", 100 + 20, 100 + 30, 10, second),
        Position("p", "read", 100 + 40, 100 + 50, read),
    ]
    arm = chosen(["T3"])[0].arm(BROKEN)
    operations = history(1)
    write_run(
        tmp_path, arm, operations, topics={"events": 1}, faults=[], positions=positions, began=100, fault_free=True
    )
    assert verdict_of(tmp_path).verdict == verdict


def test_a_position_that_was_never_committed_is_an_absent_one(tmp_path: Path) -> None:
    positions = [Position("p", "read", 140, 150, -1)]
    arm = chosen(["T3"])[0].arm(BROKEN)
    write_run(
        tmp_path, arm, history(1), topics={"events": 1}, faults=[], positions=positions, began=100, fault_free=True
    )
    assert verdict_of(tmp_path).anomalies == ()
