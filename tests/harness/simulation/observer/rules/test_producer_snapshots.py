"""DP-05 as the observer asserts it of snapshots: a roll writes all that is known, a start loses none of it; by hand."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.producer_snapshots import ProducerSnapshots, unneeded_snapshots
from squall.harness.simulation.observer.rules.rule import ReplicaTurn
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, ObservedLog, SeenReplica
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.log import Log
from squall.nodes.storage.producers import ProducerStates

PRODUCER = 7


class Host:
    """One host with one replica whose producers write batches of one record; the rule looks after each turn."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(0))
        self.incarnation = 1
        self.start, self.base, self.end, self.segments, self.crashes = 0, 0, 0, 1, 0
        self.producers = ProducerStates(self.disk, "events-0")
        self.rule = ProducerSnapshots(ObservedCluster())
        self.look()

    def produce(self, count: int, *, producer: int = PRODUCER, epoch: int = 0, timestamp: int = 1_000) -> None:
        for offset in range(self.end, self.end + count):
            self.producers.update(producer, epoch, offset, offset, offset, timestamp)
        self.end += count

    def roll(self) -> None:
        self.producers.take_snapshot(self.end)
        self.base, self.segments = self.end, self.segments + 1

    def stop(self) -> None:
        """Stop cleanly: that writes a snapshot at the log's end."""
        self.producers.take_snapshot(self.end)
        self.die()

    def die(self) -> None:
        self.rule.died(SimpleNamespace(name="b1", disk=self.disk))  # type: ignore[arg-type]

    def restart(self, *, restored: bool = True) -> None:
        """Start again; all records are deleted, so only the newest snapshot tells of producers."""
        self.incarnation += 1
        self.producers = ProducerStates(self.disk, "events-0")
        if restored:
            self.producers.restore(self.end)

    def look(self, cut: int | None = None) -> None:
        log = SimpleNamespace(
            directory="events-0",
            start_offset=self.start,
            active_base_offset=self.base,
            segment_count=self.segments,
            producers=self.producers,
            config=LogConfig(),
        )
        process: Any = SimpleNamespace(
            name="b1", incarnation=self.incarnation, disk=self.disk, crashes_in_calls=self.crashes, disk_failures=0
        )
        watched: Any = SimpleNamespace(log=ObservedLog("events-0"))
        replica: Any = SimpleNamespace(topic_id=b"", partition=0, log=log, end_offset=self.end)
        self.rule.replica_examined(ReplicaTurn(process, watched, replica, SeenReplica(0, 0), cut), 0)


def rolled(count: int) -> Host:
    """A host that has rolled its log after so many batches."""
    host = Host()
    host.produce(count)
    host.roll()
    host.look()
    return host


# -- a roll -------------------------------------------------------------------------------------------------------


def test_a_roll_that_writes_what_is_known_is_sound() -> None:
    host = rolled(3)
    host.produce(1, producer=8)
    host.produce(1)
    host.roll()
    host.produce(2)
    host.look()


def test_dp_05_breaks_when_a_roll_writes_no_snapshot() -> None:
    host = Host()
    host.produce(2)
    host.base, host.segments = 2, 2
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* rolled its log at 2, and there is no snapshot"):
        host.look()


def test_dp_05_breaks_when_a_snapshot_lacks_earlier_batches() -> None:
    host = Host()
    host.produce(3)
    whole = list(host.producers.state_of(PRODUCER).batches)  # type: ignore[union-attr]
    host.producers.state_of(PRODUCER).batches[:] = whole[-1:]  # type: ignore[union-attr]
    host.roll()
    host.producers.state_of(PRODUCER).batches[:] = whole  # type: ignore[union-attr]
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* knew sequences 0 to 0, 1 to 1, 2 to 2 of producer 7"):
        host.look()


def test_dp_05_breaks_when_a_snapshot_holds_what_comes_after_it() -> None:
    host = Host()
    host.produce(3)
    host.producers.take_snapshot(2)
    host.base, host.segments = 2, 2
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* snapshot of producers at 2, and in it sequences 0 to 0"):
        host.look()


# -- a start ------------------------------------------------------------------------------------------------------


def test_dp_05_breaks_when_a_start_forgets_what_the_snapshot_held() -> None:
    host = rolled(3)
    host.restart(restored=False)
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* knows nothing of producer 7; its snapshot at 3 has"):
        host.look()


def test_a_start_that_remembers_the_snapshot_is_sound() -> None:
    host = rolled(3)
    host.restart()
    host.look()


def test_later_batches_may_push_out_what_a_snapshot_has() -> None:
    host = rolled(4)
    host.restart()
    host.produce(3)
    host.look()


def test_a_producer_that_was_silent_for_long_is_forgotten_at_a_start() -> None:
    host = rolled(1)
    host.restart(restored=False)
    host.produce(1, producer=8, timestamp=2_000 + LogConfig().producer_expiration_ms)
    host.look()


def test_a_producer_in_a_new_epoch_needs_no_earlier_batches() -> None:
    host = rolled(3)
    host.restart()
    host.produce(1, epoch=1)
    host.look()


def test_a_log_that_was_truncated_below_a_snapshot_owes_nothing_to_it() -> None:
    host = rolled(3)
    host.end = 2
    host.producers.restore(2)
    host.restart(restored=False)
    host.look(cut=2)


def test_a_log_that_began_again_owes_nothing_to_its_snapshots() -> None:
    host = rolled(3)
    host.start = host.base = host.end = 9
    host.segments = 1
    host.look()
    host.produce(1, producer=8)
    host.restart(restored=False)
    host.look()


def test_a_disk_that_was_wiped_owes_no_snapshot() -> None:
    host = rolled(3)
    host.disk.wipe()
    host.restart(restored=False)
    host.look()


@pytest.mark.parametrize("records_left", [True, False])
def test_dp_05_breaks_when_a_start_forgets_what_a_clean_stop_wrote(records_left: bool) -> None:
    host = rolled(3)
    host.produce(1, producer=8)
    host.start = 2 if records_left else host.end
    host.look()
    host.stop()
    host.restart(restored=False)
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* knows nothing of producer \d; its snapshot at 4 has"):
        host.look()


def test_a_start_that_remembers_what_a_clean_stop_wrote_is_sound() -> None:
    host = rolled(3)
    host.produce(1, producer=8)
    host.look()
    host.stop()
    host.restart()
    host.look()


@pytest.mark.parametrize("wiped", [True, False])
def test_a_snapshot_that_went_with_the_power_is_not_missed(wiped: bool) -> None:
    host = Host()
    host.produce(1)
    host.stop()
    host.rule.power_lost("b1")
    if wiped:
        host.disk.wipe()
    host.end = 0
    host.producers.restore(0)
    host.restart()
    host.look()


def test_a_log_that_is_truncated_at_its_start_owes_nothing_to_what_a_stop_wrote() -> None:
    host = Host()
    host.produce(3)
    host.stop()
    host.end = 2
    host.producers.restore(2)
    host.restart(restored=False)
    host.produce(1, producer=8)
    host.look(cut=2)


def test_a_damaged_snapshot_is_passed_over_at_a_start() -> None:
    host = Host()
    host.produce(1)
    host.producers.take_snapshot(1)
    host.disk.open(f"events-0/{2:020d}.snapshot", create=True).append(b"nonsense")
    host.die()
    host.end = 2
    host.restart(restored=False)
    with pytest.raises(InvariantBroken, match=r"^DP-05: .* knows nothing of producer 7; its snapshot at 1 has"):
        host.look()


# -- a truncation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("starts_again", [False, True])
def test_dp_05_breaks_when_a_snapshot_is_left_above_the_logs_end(starts_again: bool) -> None:
    host = rolled(3)
    host.end = host.base = 2
    if starts_again:
        host.restart(restored=False)
    with pytest.raises(InvariantBroken, match=r"^DP-05: events-0: b1 has a snapshot of producers at 3, .* ends at 2"):
        host.look(cut=None if starts_again else 2)


def test_a_snapshot_at_the_logs_end_may_stay() -> None:
    host = rolled(3)
    host.produce(1)
    host.look()
    host.end = 3
    host.producers.restore(3)
    host.look(cut=3)


# -- the snapshots of segments ------------------------------------------------------------------------------------


class Segmented(Host):
    """A host whose log has rolled at 3, 5 and 7, and has lost all before 3 since."""

    def __init__(self) -> None:
        super().__init__()
        for count in (3, 2, 2):
            self.produce(count)
            self.disk.open(f"events-0/{self.end:020d}.log", create=True)
            self.roll()
            self.look()
        self.start, self.segments = 3, 3
        self.look()

    def loses(self, at: int) -> None:
        self.disk.remove(f"events-0/{at:020d}.snapshot")


LOST = r"^DP-05: events-0: b1 has a segment that begins at 3, and has removed the snapshot of producers that it wrote"


@pytest.mark.parametrize("starts_again", [False, True])
def test_dp_05_breaks_when_a_segments_snapshot_is_removed(starts_again: bool) -> None:
    host = Segmented()
    host.loses(3)
    if starts_again:
        host.restart()
    else:
        host.produce(1)
        host.roll()
    with pytest.raises(InvariantBroken, match=LOST):
        host.look()


def test_a_segments_snapshot_goes_with_it() -> None:
    host = Segmented()
    host.loses(3)
    host.disk.remove(f"events-0/{3:020d}.log")
    host.start, host.segments = 5, 2
    host.look()


def test_a_truncation_leaves_the_snapshots_of_the_segments_that_stay() -> None:
    host = Segmented()
    host.disk.remove(f"events-0/{7:020d}.log")
    host.end, host.base, host.segments = 6, 5, 2
    host.producers.restore(6)
    host.look(cut=6)
    host.loses(3)
    host.restart()
    with pytest.raises(InvariantBroken, match=LOST):
        host.look()


def test_a_process_that_died_within_a_turn_may_have_begun_its_log_again() -> None:
    host = Segmented()
    host.loses(3)
    host.crashes = 1
    host.restart()
    host.look()


def test_a_log_that_begins_again_at_a_segment_of_before_has_no_snapshot_there() -> None:
    host = Segmented()
    host.start = host.base = host.end = 3
    host.segments = 1
    host.producers.forget_all()
    host.look(cut=3)
    host.produce(1)
    host.disk.open(f"events-0/{4:020d}.log", create=True)
    host.roll()
    host.look()


# -- the end of a run ---------------------------------------------------------------------------------------------


class Ended:
    """A host whose log has six segments of one batch each, and began at the first; the run ends."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(0))
        self.log = Log.open(self.disk, "events-0", LogConfig(segment_bytes=1), now_ms=0, trace=NullTrace())
        for sequence in range(6):
            batch = build_batch([Record(value=b"v")], producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)
            self.log.append_as_leader(batch, 0, 0)
        self.process: Any = SimpleNamespace(name="b1", disk=self.disk, node=object())
        cluster = ObservedCluster()
        cluster.processes = {"b1": self.process}
        self.rule = ProducerSnapshots(cluster)

    def removes_segments(self) -> None:
        self.log.advance_start(5)
        assert self.log.drop_before_start()


def test_snapshots_go_with_the_segments_that_they_began() -> None:
    ended = Ended()
    ended.rule.at_end()
    ended.removes_segments()
    ended.rule.at_end()


def test_dp_05_breaks_when_snapshots_stay_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "prune", lambda self, needed: None)
    ended = Ended()
    ended.removes_segments()
    with pytest.raises(InvariantBroken, match=r"^DP-05: b1 keeps snapshots .* needs: events-0/0{19}1\.snapshot$"):
        ended.rule.at_end()


def test_a_node_may_die_before_it_has_removed_them_and_does_it_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Ended()
    with monkeypatch.context() as dies_first:
        dies_first.setattr(ProducerStates, "prune", lambda self, needed: None)
        ended.removes_segments()
    assert len(unneeded_snapshots(ended.disk)) > 0
    Log.open(ended.disk, "events-0", LogConfig(segment_bytes=1), now_ms=0, trace=NullTrace(), start_offset=5)
    ended.rule.at_end()


def test_of_a_host_that_is_down_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "prune", lambda self, needed: None)
    ended = Ended()
    ended.removes_segments()
    ended.process.node = None
    ended.rule.at_end()
