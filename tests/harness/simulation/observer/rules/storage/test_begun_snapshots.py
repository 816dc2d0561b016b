"""SN-01 as the observer asserts it: snapshots are begun when the settings require them, and at no other time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.begun_snapshots import BegunSnapshots
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.node import Node
from squall.nodes.raft.snapshots import SnapshotId

MS, SIZE, NUMBER = 1000, 100, 7
"""Each record of the metadata log has `SIZE` bytes."""


class Voter:
    """A node whose settings require a snapshot after each ten records, or after a while."""

    def __init__(self, *, interval_ms: int = 500) -> None:
        self.node: Any = Node.__new__(Node)
        self.node.config = SimpleNamespace(
            metadata_log_max_record_bytes_between_snapshots=10 * SIZE,
            metadata_log_max_snapshot_interval_ms=interval_ms,
        )
        self.node.snapshot_generator = SimpleNamespace(made_at=0)
        log = SimpleNamespace(start_offset=0, raw_batches=lambda begin, end: [bytes(SIZE)] * (end - begin))
        self.raft = SimpleNamespace(log=log, high_watermark=0, snapshots=SimpleNamespace(latest=None))
        self.node.raft = self.raft
        self.process: Any = SimpleNamespace(name="c1", incarnation=1, now=0)
        self.rule = BegunSnapshots(SimpleNamespace(names={NUMBER: "c1"}))  # type: ignore[arg-type]
        self.turn(0)

    def turn(self, at_ms: float, committed: int = 0, *, begins: bool = False, early: bool = False) -> None:
        """A turn in which so many more records are committed; it may begin a snapshot of all that is."""
        self.process.now = round(at_ms * MS)
        self.raft.high_watermark += committed
        if early:
            self.rule.traced("buggify", {"node": NUMBER, "place": "snapshot-early"})
        if begins:
            self.rule.traced("snapshot_begun", {"node": NUMBER, "end": self.raft.high_watermark})
        self.rule.turned(self.process, self.node)

    def finishes(self, end: int) -> None:
        self.raft.snapshots.latest = SnapshotId(end, 1)
        self.rule.traced("snapshot", {"node": NUMBER, "end": end})

    def restarts(self) -> None:
        self.rule.died(self.process)
        self.process.incarnation += 1
        self.raft.high_watermark = 0
        self.node.snapshot_generator.made_at = self.process.now


def test_a_snapshot_is_begun_after_enough_bytes() -> None:
    voter = Voter()
    voter.turn(1, committed=9)
    voter.turn(2, committed=1, begins=True)
    voter.finishes(10)
    voter.turn(3, committed=10, begins=True)


def test_a_snapshot_is_begun_after_too_few_bytes() -> None:
    voter = Voter()
    told = "^SN-01: c1 has begun a snapshot 1 ms and 900 bytes of records after the last .*snapshots=1000 and .*=500$"
    with pytest.raises(InvariantBroken, match=told):
        voter.turn(1, committed=9, begins=True)


def test_what_an_earlier_snapshot_holds_does_not_count_again() -> None:
    voter = Voter()
    voter.turn(1, committed=10, begins=True)
    voter.finishes(10)
    with pytest.raises(InvariantBroken, match="begun a snapshot 1 ms and 900 bytes"):
        voter.turn(2, committed=9, begins=True)


def test_a_snapshot_is_begun_after_its_time() -> None:
    voter = Voter()
    voter.turn(500, committed=1, begins=True)
    voter.finishes(1)
    with pytest.raises(InvariantBroken, match="begun a snapshot 499 ms and 100 bytes"):
        voter.turn(999, committed=1, begins=True)


def test_buggify_may_want_a_snapshot_early_once() -> None:
    voter = Voter()
    voter.turn(1, committed=1, begins=True, early=True)
    voter.finishes(1)
    with pytest.raises(InvariantBroken, match="begun a snapshot 1 ms and 100 bytes"):
        voter.turn(2, committed=1, begins=True)


def test_without_an_interval_no_time_is_enough() -> None:
    voter = Voter(interval_ms=0)
    for at_ms in range(0, 100_000, 1_000):
        voter.turn(at_ms, committed=at_ms == 0)
    with pytest.raises(InvariantBroken, match="begun a snapshot"):
        voter.turn(100_000, begins=True)


@pytest.mark.parametrize(("records", "due_ms"), [(10, 1), (1, 500)])
def test_a_due_snapshot_is_not_begun(records: int, due_ms: int) -> None:
    voter = Voter()
    voter.turn(1, committed=records)
    for more_ms in range(0, 1001, 40):
        voter.turn(due_ms + more_ms)
    told = f"^SN-01: c1 has begun no snapshot for {due_ms + 1001} ms and {records}00 bytes of records, with "
    with pytest.raises(InvariantBroken, match=told):
        voter.turn(due_ms + 1001)


def test_a_node_that_is_seldom_called_has_twenty_turns() -> None:
    voter = Voter()
    for number in range(20):
        voter.turn(number * 10_000, committed=10 if number == 0 else 0)
    with pytest.raises(InvariantBroken, match="has begun no snapshot"):
        voter.turn(200_000)


def test_no_other_snapshot_is_due_while_one_is_written() -> None:
    voter = Voter()
    voter.turn(1, committed=10, begins=True)
    for at_ms in range(2, 10_000, 100):
        voter.turn(at_ms, committed=1)
    voter.finishes(10)
    voter.turn(10_000)
    voter.turn(10_001, begins=True)


def test_without_news_no_snapshot_is_due() -> None:
    voter = Voter()
    voter.turn(1, committed=10, begins=True)
    voter.finishes(10)
    for at_ms in range(2, 10_000, 100):
        voter.turn(at_ms)


def test_before_the_first_record_no_snapshot_is_due() -> None:
    """Seed 1012601 of `worlds`: a broker that no controller had answered."""
    voter = Voter()
    for at_ms in range(0, 10_000, 100):
        voter.turn(at_ms)


def test_a_new_process_counts_from_its_newest_snapshot() -> None:
    voter = Voter()
    voter.turn(1, committed=30, begins=True)
    voter.finishes(30)
    voter.restarts()
    with pytest.raises(InvariantBroken, match="begun a snapshot 0 ms and 500 bytes"):
        voter.turn(1, committed=35, begins=True)


def test_after_a_download_nobody_can_tell_how_much_was_applied() -> None:
    voter = Voter()
    voter.turn(1, committed=9)
    voter.raft.log.start_offset = 50
    voter.raft.snapshots.latest = SnapshotId(50, 1)
    voter.turn(2, committed=42, begins=True)
    voter.finishes(51)
    with pytest.raises(InvariantBroken, match="begun a snapshot 1 ms and 100 bytes"):
        voter.turn(3, committed=1, begins=True)
