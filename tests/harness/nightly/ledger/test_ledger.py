"""The ledger survives its writer, has one writer at a time, and is read line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.nightly.ledger.ledger import LEDGER, Ledger, is_under_way, read_ledger
from tests.harness.nightly.nights import ended, item, plan, working


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    with Ledger(tmp_path, "squall nightly x", now=lambda: 12.5) as ledger:
        for event in (plan(item("a")), working(), ended("a", "unknown", problem="a lost host")):
            ledger.write(event)
    events = read_ledger(tmp_path)
    assert [type(one).__name__ for one in events] == ["Planned", "Session", "Ended"]
    assert {one.at for one in events} == {12.5}
    assert events[0].chosen[0].item == item("a")  # type: ignore[union-attr]


def test_half_a_line_of_a_killed_writer_is_dropped_and_the_next_goes_on(tmp_path: Path) -> None:
    with Ledger(tmp_path, "c") as ledger:
        ledger.write(plan(item("a")))
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(b'{"event":"ended","item":"a","att')
    assert len(read_ledger(tmp_path)) == 1
    with Ledger(tmp_path, "c") as ledger:
        ledger.write(working())
    assert [type(one).__name__ for one in read_ledger(tmp_path)] == ["Planned", "Session"]


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    assert not is_under_way(tmp_path)
    with Ledger(tmp_path, "squall nightly suites/nightly.yaml"):
        assert is_under_way(tmp_path)
        with pytest.raises(UsageError, match=r"under way: pid \d+ on .*since .*squall nightly suites/nightly.yaml"):
            Ledger(tmp_path, "another")
    assert not is_under_way(tmp_path)


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text('{"event":"session","pid":1,"host":"h"}\n{"event":"dance"}\n')
    with pytest.raises(UsageError, match=rf"{LEDGER}:2: is not an event"):
        read_ledger(tmp_path)
