"""INDEX as the observer asserts it, on logs of the nodes' own: what is found is what a scan finds."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.observer.rules.storage.indexed_logs import mistakes, untouched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.log import Log, LogConfig
from squall.nodes.storage.segment import Segment
from tests.harness.simulation.observer.observed import Cluster

SETTINGS = LogConfig(index_interval_bytes=200, segment_bytes=1_000, retention_ms=-1)
TIMES = ((300, 310), (100,), (200, 500, 400), (450,), (5, 6), (600,), (600, 20), (10,))


def opened(disk: SimDisk) -> Log:
    return Log.open(disk, "t-0", SETTINGS, now_ms=0, trace=NullTrace(), clean_shutdown=True, start_offset=0)


def filled(disk: SimDisk | None = None) -> Log:
    """Batches of several segments, whose times rise and fall; a record of each time, 100 bytes each."""
    log = opened(SimDisk(Random(1)) if disk is None else disk)
    for times in TIMES * 3:
        log.append_as_leader(build_batch([Record(timestamp=time, value=b"v" * 100) for time in times]), 0, 0)
    return log


def test_a_log_finds_what_a_scan_finds() -> None:
    disk = SimDisk(Random(1))
    log = filled(disk)
    assert log.segment_count > 2 and list(mistakes(log)) == []
    log.close()
    assert list(mistakes(opened(disk))) == []


def test_an_empty_log_finds_nothing() -> None:
    assert list(mistakes(opened(SimDisk(Random(1))))) == []


def test_a_log_that_begins_within_a_batch_has_the_times_from_there_on() -> None:
    """Of the batch of 300 and 310 only 310 is left, and of the next but one only 400."""
    for start in (1, 5):
        log = filled()
        log.advance_start(start)
        assert list(mistakes(log)) == []


def test_a_truncated_log_forgets_the_times_of_what_it_had() -> None:
    log = filled()
    log.truncate_to(4)
    assert list(mistakes(log)) == []


def test_a_largest_time_that_no_batch_has_is_a_mistake() -> None:
    log = filled()
    segment = list(log._segments)[-1]
    segment.max_timestamp()
    segment._max_timestamp = 700
    assert "the largest time is said to be 700, and a batch has 600" in set(mistakes(log))


def test_a_segment_that_hides_its_times_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled()
    monkeypatch.setattr(Segment, "not_older", lambda self, timestamp, offset: iter(()))
    assert any(one.startswith("the first record not older than 600 is said to be None") for one in mistakes(log))


def test_a_position_of_another_batch_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a segment only: a scan reads on from one batch to the next."""
    log = filled()
    position_of = Segment.position_of

    def misses(self: Segment, offset: int) -> int:
        return position_of(self, self.base_offset if offset == 5 else offset)

    monkeypatch.setattr(Segment, "position_of", misses)
    assert list(mistakes(log)) == ["a read at 5 begins with offset 0, and the batch there with 3"]


def test_a_scan_that_comes_to_no_end_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled()
    monkeypatch.setattr(Segment, "position_of", lambda self, offset: 0)
    assert list(mistakes(log)) == ["a scan ends at offset 0, and the log at 39"]


def test_the_observer_asserts_it_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    cluster.observer.final()
    monkeypatch.setattr(type(cluster.replica("b2").log), "max_timestamp", lambda self: 7)
    with pytest.raises(InvariantBroken, match=r"^INDEX: events-0: at b\d the largest time is said to be 7, and"):
        cluster.observer.final()


def test_a_look_up_during_a_run_leaves_no_trace_in_the_log() -> None:
    """A log determines its largest time on first use, and reads for that."""
    disk = SimDisk(Random(1))
    filled(disk).close()
    log, twin = opened(disk), untouched(opened(disk))
    assert list(mistakes(untouched(log))) == []
    disk.take_cost()
    log.max_timestamp()
    paid = disk.take_cost()
    twin.max_timestamp()
    assert disk.take_cost() == paid > 0
    log.max_timestamp()
    assert disk.take_cost() == 0
