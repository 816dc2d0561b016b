"""Operations recorded by different clocks: what is certain is told, what the clocks' error could explain is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.results.checkers.log.partition import Task, check_table
from squall.results.history.history import history_of, joined
from squall.results.history.segments import SegmentHeader
from squall.results.synthetic.forge import ORIGIN, Forged, rows_of

A, B, MARK = 1 << 40 | 1, 2 << 40 | 1, 9 << 40 | 1


def send(value: int, invoked: int, completed: int, offset: int, f: str = "send") -> Forged:
    return Forged(f, process=value >> 40, client=0, invoked=invoked, completed=completed, value=value, offset=offset)


def anomalies(*operations_and_clocks: tuple[list[Forged], int, int, int]) -> dict[str, int]:
    """By name; each group of operations with its clock's id, offset and error."""
    tables = [
        joined(
            Path("segment"),
            SegmentHeader("test", number, clock_id=clock_id, clock_offset=offset, clock_error=error),
            enumerate(rows_of(operations), 2),
        )
        for number, (operations, clock_id, offset, error) in enumerate(operations_and_clocks)
    ]
    task = Task(0, "", "events", 0, (), ORIGIN, 10**9, ORIGIN + 10**9, False)
    return check_table(task, history_of(tables, 0, Path("history")).of("events", 0)).anomalies


@pytest.mark.parametrize(("error", "found"), [(4, {"rt_order": 1}), (6, {})])
def test_sends_of_two_clocks_are_out_of_order_only_beyond_the_error(error: int, found: dict[str, int]) -> None:
    earlier, later = [send(A, 0, 10, 1)], [send(B, 20, 30, 0)]
    assert anomalies((earlier, 1, 0, error), (later, 2, 0, error)) == found


def test_sends_of_one_clock_are_compared_exactly_however_far_off_it_is() -> None:
    earlier, later = [send(A, 0, 10, 1)], [send(B, 20, 30, 0)]
    assert anomalies((earlier, 1, 5, 1000), (later, 1, 5, 1000)) == {"rt_order": 1}


@pytest.mark.parametrize(("error", "found"), [(4, {"lost_write": 1}), (6, {})])
def test_a_send_is_lost_past_the_final_read_only_if_ended_before_marker(error: int, found: dict[str, int]) -> None:
    marker = send(MARK, 20, 30, 0, f="marker")
    read = Forged("final_poll", 500, 500, 40, 50, run=((0, MARK),))
    last = send(A, 0, 10, 7)
    assert anomalies(([marker, read], 1, 0, error), ([last], 2, 0, error)) == found
