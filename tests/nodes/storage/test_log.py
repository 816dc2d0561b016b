"""The log against its contract: offsets, reading by whole batches, duplicates, truncation, rolling, opening again."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.compression import Compression
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, iterate_batches, parse_records
from squall.nodes.storage.errors import LogError
from squall.nodes.storage.log import Log, LogConfig
from tests.facts import naming

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def batch(count: int = 1, *, producer: int = -1, epoch: int = 0, sequence: int = 0, time: int = 1000) -> bytearray:
    records = [Record(timestamp=time + at, value=b"value-%04d" % at) for at in range(count)]
    if producer < 0:
        return build_batch(records)
    return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(1))


def opened(disk: SimDisk, config: LogConfig = SMALL, *, clean: bool = False, recovery_point: int = 0) -> Log:
    return Log.open(
        disk, "t-0", config, now_ms=0, trace=NullTrace(), clean_shutdown=clean, recovery_point=recovery_point
    )


def offsets(log: Log) -> list[int]:
    return [record.offset for one in log.batches(log.start_offset, log.end_offset) for record in parse_records(one)]


def refusal(log: Log, content: bytearray) -> str:
    with pytest.raises(LogError) as caught:
        log.append_as_leader(content, 0, 0, from_client=True)
    return caught.value.kind


class TestAppending:
    def test_offsets_are_dense_and_stamped_with_the_epoch(self, disk: SimDisk) -> None:
        """Rule 4: by the leader."""
        log = opened(disk)
        assert log.append_as_leader(batch(3), 7, 0).first_offset == 0
        appended = log.append_as_leader(batch(2), 7, 0)
        assert (appended.first_offset, appended.last_offset, log.end_offset) == (3, 4, 5)
        assert offsets(log) == [0, 1, 2, 3, 4]
        assert [BatchHeader.read(one).leader_epoch for one in log.batches(0, 5)] == [7, 7]
        assert log.epochs.entries == [(7, 0)]

    def test_the_buffer_of_the_request_is_stamped_not_copied(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(batch(3), 1, 0)
        content = batch(1)
        log.append_as_leader(memoryview(content), 1, 0)
        assert BatchHeader.read(content).base_offset == 3

    def test_a_read_only_buffer_is_left_alone(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(batch(3), 1, 0)
        content = bytes(batch(1))
        log.append_as_leader(memoryview(content), 1, 0)
        assert BatchHeader.read(content).base_offset == 0
        assert offsets(log) == [0, 1, 2, 3]

    def test_what_a_client_may_not_send_is_refused_and_changes_nothing(self, disk: SimDisk) -> None:
        log = opened(disk, LogConfig(max_message_bytes=200))
        damaged = batch(1)
        damaged[-1] ^= 1
        assert refusal(log, damaged) == "CORRUPT_MESSAGE"
        assert refusal(log, build_batch([Record(value=b"x" * 300)])) == "MESSAGE_TOO_LARGE"
        assert refusal(log, build_batch([Record(value=b"")], control=True)) == "INVALID_RECORD"
        assert refusal(log, batch(1) + batch(1)) == "INVALID_RECORD"
        assert log.end_offset == 0 and log.epochs.entries == []

    def test_a_leader_may_append_control_batches_of_its_own(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(build_batch([Record(value=b"")], control=True), 1, 0)
        assert log.end_offset == 1

    def test_a_duplicate_answers_the_first_offsets_and_writes_nothing(self, disk: SimDisk) -> None:
        """Rule 5."""
        log = opened(disk)
        log.append_as_leader(batch(2), 0, 0)
        log.append_as_leader(batch(3, producer=9), 0, 0)
        again = log.append_as_leader(batch(3, producer=9), 0, 0)
        assert again.duplicate and (again.first_offset, again.last_offset) == (2, 4)
        assert log.end_offset == 5

    def test_a_follower_keeps_offsets_and_epochs_and_leaves_out_a_cut_off_batch(self, disk: SimDisk) -> None:
        """Rule 4: followers learn epochs from the batches."""
        leader, follower = opened(disk), Log.open(disk, "f-0", SMALL, now_ms=0, trace=NullTrace())
        for epoch in (1, 1, 4):
            leader.append_as_leader(batch(2, producer=5, sequence=leader.end_offset), epoch, 0)
        sent = bytes(leader.read(0, 10_000, upper=6, at_least_one=True))
        appended = follower.append_as_follower(memoryview(sent)[:-3])
        assert (appended.first_offset, appended.last_offset) == (0, 3)
        rest = leader.read(4, 10_000, upper=6, at_least_one=True)
        follower.append_as_follower(rest)
        assert offsets(follower) == offsets(leader)
        assert follower.epochs.entries == [(1, 0), (4, 4)]
        state = follower.producers.state_of(5)
        assert state is not None and state.batches[-1].last_sequence == 5

    def test_a_follower_takes_nothing_that_leaves_a_gap_or_is_damaged(self, disk: SimDisk) -> None:
        leader, follower = opened(disk), Log.open(disk, "f-0", SMALL, now_ms=0, trace=NullTrace())
        leader.append_as_leader(batch(2), 1, 0)
        leader.append_as_leader(batch(2), 1, 0)
        with pytest.raises(LogError, match="begins at offset 2, expected 0"):
            follower.append_as_follower(leader.read(2, 10_000, upper=4, at_least_one=True))
        damaged = bytearray(leader.read(0, 10_000, upper=4, at_least_one=True))
        damaged[-1] ^= 1
        with pytest.raises(LogError, match=naming("offset 2", "damaged")):
            follower.append_as_follower(damaged)
        assert follower.end_offset == 2, "the sound batch before it stays"

    def test_many_fetched_batches_fall_into_segments_by_size(self, disk: SimDisk) -> None:
        leader, follower = (
            Log.open(disk, name, LogConfig(segment_bytes=size), now_ms=0, trace=NullTrace())
            for name, size in (("l-0", 1 << 20), ("f-0", 500))
        )
        for _ in range(20):
            leader.append_as_leader(batch(2), 1, 0)
        follower.append_as_follower(leader.read(0, 1 << 20, upper=40, at_least_one=True))
        assert offsets(follower) == list(range(40))
        segments = [name for name in disk.list("f-0") if name.endswith(".log")]
        assert len(segments) > 3
        assert all(disk.open(f"f-0/{name}").size() <= 500 for name in segments)


class TestReading:
    @pytest.fixture
    def log(self, disk: SimDisk) -> Log:
        log = opened(disk)
        for count in (3, 1, 4, 1, 5, 9, 2, 6):
            log.append_as_leader(batch(count), 0, 0)
        return log

    def bounds(self, content: memoryview) -> tuple[int, int]:
        headers = [header for header, _ in iterate_batches(content)]
        return headers[0].base_offset, headers[-1].last_offset

    @pytest.mark.parametrize("reopened", [False, True])
    def test_a_read_is_whole_batches_from_the_one_that_holds_the_offset(
        self, disk: SimDisk, log: Log, reopened: bool
    ) -> None:
        if reopened:
            log.close()
            log = opened(disk, clean=True)
        starts = {0: 0, 1: 0, 2: 0, 3: 3, 4: 4, 7: 4, 8: 8, 9: 9, 13: 9, 14: 14, 30: 25}
        for offset, first in starts.items():
            content = log.read(offset, 1 << 20, upper=log.end_offset, at_least_one=True)
            assert self.bounds(content)[0] == first, offset

    def test_a_read_stops_below_the_upper_bound(self, log: Log) -> None:
        assert self.bounds(log.read(0, 1 << 20, upper=8, at_least_one=True)) == (0, 7)
        assert self.bounds(log.read(0, 1 << 20, upper=7, at_least_one=True)) == (0, 3), "a batch counts as a whole"
        assert len(log.read(0, 1 << 20, upper=2, at_least_one=True)) == 0
        assert len(log.read(8, 1 << 20, upper=8, at_least_one=True)) == 0

    def test_a_read_is_bounded_in_bytes_but_may_bring_one_larger_batch(self, log: Log) -> None:
        first = len(next(log.batches(0, 31)))
        assert self.bounds(log.read(0, first, upper=31, at_least_one=False)) == (0, 2)
        assert self.bounds(log.read(0, first + 1, upper=31, at_least_one=False)) == (0, 2)
        assert self.bounds(log.read(0, first - 1, upper=31, at_least_one=True)) == (0, 2)
        assert len(log.read(0, first - 1, upper=31, at_least_one=False)) == 0

    def test_reading_on_from_each_answer_gives_the_whole_log(self, log: Log) -> None:
        for size in (1, 100, 150, 300, 5000):
            offset, seen = 0, []
            while offset < log.end_offset:
                content = log.read(offset, size, upper=log.end_offset, at_least_one=True)
                first, last = self.bounds(content)
                seen.append(first)
                offset = last + 1
            assert offset == 31 and seen[0] == 0

    def test_an_offset_outside_the_log_is_out_of_range(self, log: Log) -> None:
        with pytest.raises(LogError, match="OFFSET_OUT_OF_RANGE"):
            log.read(32, 100, upper=40, at_least_one=True)
        assert len(log.read(31, 100, upper=40, at_least_one=True)) == 0

    def test_recent_data_costs_one_read(self, disk: SimDisk, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []
        charge = SimDisk.charge
        monkeypatch.setattr(SimDisk, "charge", lambda self, *cost: (calls.append(1), charge(self, *cost))[1])
        log.read(30, 1 << 20, upper=31, at_least_one=True)
        assert len(calls) == 1

    @pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
    def test_a_time_leads_to_the_first_record_not_older(self, disk: SimDisk, compression: Compression) -> None:
        log = opened(disk)
        for time in (1000, 2000, 3000):
            records = [Record(timestamp=time + at, value=b"v" * 40) for at in range(5)]
            log.append_as_leader(build_batch(records, compression=compression), 0, 0)
        assert log.offset_for_timestamp(0, 15) == (1000, 0)
        assert log.offset_for_timestamp(1003, 15) == (1003, 3)
        assert log.offset_for_timestamp(1500, 15) == (2000, 5)
        assert log.offset_for_timestamp(3004, 15) == (3004, 14)
        assert log.offset_for_timestamp(3005, 15) is None
        assert log.offset_for_timestamp(3000, 10) is None, "not below the upper bound"
        assert log.max_timestamp() == 3004


class TestTruncating:
    def test_truncation_removes_records_epochs_and_producer_state(self, disk: SimDisk) -> None:
        """Rules 7 and 14."""
        log = opened(disk)
        for at in range(20):
            log.append_as_leader(batch(1, producer=3, sequence=at), 1 + at // 5, 0)
        log.truncate_to(7)
        assert offsets(log) == list(range(7))
        assert log.epochs.entries == [(1, 0), (2, 5)]
        state = log.producers.state_of(3)
        assert state is not None
        assert [one.last_sequence for one in state.batches] == [2, 3, 4, 5, 6]
        log.append_as_leader(batch(1, producer=3, sequence=7), 9, 0)
        assert offsets(log) == list(range(8))

    def test_truncation_at_the_end_still_removes_an_epoch_that_began_there(self, disk: SimDisk) -> None:
        """Rule 14: a leader that never appended must forget its epoch when it follows another."""
        log = opened(disk)
        log.append_as_leader(batch(5), 4, 0)
        log.assign_epoch(5, 5)
        log.truncate_to(5)
        assert log.epochs.entries == [(4, 0)] and log.end_offset == 5

    def test_a_batch_that_spans_the_offset_goes_as_a_whole(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(batch(3), 0, 0)
        log.append_as_leader(batch(5), 0, 0)
        log.truncate_to(6)
        assert log.end_offset == 3

    def test_snapshots_above_the_cut_are_deleted(self, disk: SimDisk) -> None:
        log = opened(disk)
        for at in range(30):
            log.append_as_leader(batch(1, producer=3, sequence=at), 0, 0)
        assert max(log.producers.snapshots()) > 12
        log.truncate_to(12)
        assert max(log.producers.snapshots()) <= 12

    def test_restarting_empties_the_log_at_an_offset(self, disk: SimDisk) -> None:
        log = opened(disk)
        for at in range(30):
            log.append_as_leader(batch(1, producer=3, sequence=at), 0, 0)
        log.restart_at(100)
        assert (log.start_offset, log.end_offset, log.epochs.entries, len(log.producers)) == (100, 100, [], 0)
        log.append_as_leader(batch(2), 1, 0)
        log.close()
        assert offsets(opened(disk, clean=True)) == [100, 101]


class TestOpening:
    def test_a_new_log_is_empty(self, disk: SimDisk) -> None:
        log = opened(disk)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (0, 0, None)
        assert log.end_offset_for(0) == (-1, -1)

    @pytest.mark.parametrize("clean", [True, False])
    def test_everything_is_there_again(self, disk: SimDisk, clean: bool) -> None:
        log = opened(disk)
        for at in range(50):
            log.append_as_leader(batch(1 + at % 3, producer=7, sequence=log.end_offset), at // 10, 0)
        epochs, end, seen = log.epochs.entries, log.end_offset, offsets(log)
        if clean:
            log.close()
        again = opened(disk, clean=clean)
        assert (again.epochs.entries, again.end_offset, offsets(again)) == (epochs, end, seen)
        assert again.append_as_leader(batch(2, producer=7, sequence=end - 2), 4, 0).duplicate
        assert again.durable_offset == end

    def test_a_torn_tail_is_cut(self, disk: SimDisk) -> None:
        """Rule 17."""
        log = opened(disk, LogConfig())
        log.append_as_leader(batch(3), 1, 0)
        log.append_as_leader(batch(3), 2, 0)
        file = disk.open("t-0/00000000000000000000.log")
        file.truncate(file.size() - 1)
        again = opened(disk)
        assert offsets(again) == [0, 1, 2] and again.epochs.entries == [(1, 0)]

    def test_what_recovery_kept_is_durable_names_included(self, disk: SimDisk) -> None:
        """The process died before it synced a new segment's name; then, after recovery, the power goes."""
        log = opened(disk)
        log.flush()
        for _ in range(20):
            log.append_as_leader(batch(1), 1, 0)
        again = opened(disk)
        assert again.durable_offset == 20
        disk.lose_power()
        assert offsets(opened(disk)) == list(range(20))

    def test_a_damaged_batch_ends_the_log_and_later_segments_go(self, disk: SimDisk) -> None:
        """Rule 17."""
        log = opened(disk)
        for _ in range(40):
            log.append_as_leader(batch(1), 1, 0)
        file = disk.open("t-0/00000000000000000000.log")
        file._content.data[100] ^= 1
        again = opened(disk)
        assert again.end_offset == 1
        assert [name for name in disk.list("t-0") if name.endswith(".log")] == ["00000000000000000000.log"]

    def test_below_the_recovery_point_the_log_is_trusted(self, disk: SimDisk) -> None:
        log = opened(disk)
        for _ in range(40):
            log.append_as_leader(batch(1), 1, 0)
        before = disk.take_cost()
        opened(disk)
        whole = disk.take_cost()
        assert opened(disk, recovery_point=39).end_offset == 40
        assert disk.take_cost() < whole
        assert before > 0

    def test_epochs_that_were_not_saved_are_found_in_the_batches(self, disk: SimDisk) -> None:
        """Rule 9, where the process dies before the segment is sealed."""
        log = opened(disk)
        for epoch in (1, 1, 3, 8):
            log.append_as_leader(batch(2), epoch, 0)
        assert not disk.exists("t-0/leader-epoch-checkpoint")
        assert opened(disk).epochs.entries == [(1, 0), (3, 4), (8, 6)]

    def test_flushed_epochs_of_sealed_segments_survive_a_power_loss(self, disk: SimDisk) -> None:
        """Rule 9, and the recovery point trusts whole segments (rule 17)."""
        log = opened(disk)
        for at in range(50):
            log.append_as_leader(batch(1), at // 10, 0)
        assert log.segment_count > 2
        log.flush()
        expected = log.epochs.entries
        disk.lose_power()
        assert opened(disk, recovery_point=50).epochs.entries == expected

    def test_an_epoch_without_writes_is_forgotten_however_the_log_ended(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(batch(3), 1, 0)
        log.assign_epoch(2, 3)
        log.close()
        assert opened(disk, clean=True).epochs.entries == [(1, 0)]

    def test_a_log_whose_records_are_all_deleted_does_not_fall_back_to_an_older_epoch(self, disk: SimDisk) -> None:
        """DP-13, seed 997379 of `worlds`: by its older last epoch, a follower had to truncate below its log start."""
        log = opened(disk)
        log.append_as_leader(batch(3), 1, 0)
        log.close()
        log = opened(disk, clean=True)
        log.append_as_leader(batch(3), 2, 0)
        log.advance_start(6)
        log.close()
        assert opened(disk, clean=True).last_epoch is None

    def test_a_log_that_begins_within_a_batch_knows_the_same_epochs_when_it_is_opened_again(
        self, disk: SimDisk
    ) -> None:
        """DP-15, seed 1011796 of `worlds`: it said that the epoch began with the batch, before its own start."""
        leader = opened(disk)
        leader.append_as_leader(batch(7), 1, 0)
        leader.append_as_leader(batch(4), 4, 0)
        follower = Log.open(disk, "f-0", SMALL, now_ms=0, trace=NullTrace())
        follower.restart_at(9)
        follower.append_as_follower(leader.read(9, 10_000, upper=11, at_least_one=True))
        assert follower.epochs.entries == [(4, 9)]
        follower.close()
        again = Log.open(disk, "f-0", SMALL, now_ms=0, trace=NullTrace(), clean_shutdown=True, start_offset=9)
        assert again.epochs.entries == [(4, 9)]

    def test_a_log_that_never_held_anything_is_closed_without_a_snapshot(self, disk: SimDisk) -> None:
        """A broker may have thousands of them, and stops after the last."""
        log = opened(disk)
        log.close()
        assert log.producers.snapshots() == []
        assert len(opened(disk, clean=True).producers) == 0

    def test_a_log_that_is_empty_by_now_still_knows_its_producers(self, disk: SimDisk) -> None:
        """A retry of what retention removed is a retry (rule 7)."""
        log = opened(disk)
        for at in range(30):
            log.append_as_leader(batch(1, producer=3, sequence=at), 0, 0)
        log.advance_start(log.end_offset)
        log.flush()
        log.close()
        again = opened(disk, clean=True)
        state = again.producers.state_of(3)
        assert state is not None and state.batches[-1].last_offset == 29

    def test_a_lost_or_foreign_index_costs_nothing_but_time(self, disk: SimDisk) -> None:
        log = opened(disk)
        for _ in range(40):
            log.append_as_leader(batch(1), 1, 0)
        log.close()
        names = [name for name in disk.list("t-0") if name.endswith(".index")]
        disk.remove(f"t-0/{names[0]}")
        disk.open(f"t-0/{names[1]}").append(b"\x00\x00\x00\x01\x7f\xff\xff\xff")
        again = opened(disk, clean=True)
        assert offsets(again) == list(range(40))
        assert again.read(33, 1, upper=40, at_least_one=True)[:8] == (33).to_bytes(8, "big")

    @pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
    @pytest.mark.parametrize("how", ["lost", "zeros", "cut"])
    def test_an_opening_writes_indexes_of_sealed_segments_that_do_not_fit(
        self, disk: SimDisk, how: str, clean: bool
    ) -> None:
        """Seed 38 of `worlds`: other programs read them, and every later start would read the whole segment."""
        log = opened(disk)
        for at in range(40):
            log.append_as_leader(batch(1, time=1_000 + at), 1, 0)
        log.close()
        indexes = sorted(name for name in disk.list("t-0") if name.endswith("index"))[:4]
        whole = {name: disk.content(f"t-0/{name}") for name in indexes}
        assert all(whole.values()) and len(log.producers.snapshots()) > 1
        for name in indexes:
            if how == "lost":
                disk.remove(f"t-0/{name}")
                continue
            file = disk.open(f"t-0/{name}")
            size = file.size()
            file.truncate(size - 7)
            if how == "zeros":
                file.append(bytes(7))
            file.close()
        opened(disk, clean=clean)
        assert {name: disk.content(f"t-0/{name}") for name in indexes} == whole

    def test_an_opening_that_removes_segments_removes_their_snapshots(self, disk: SimDisk) -> None:
        """DP-05, seed 1025807 of `worlds`: the node had died before it had removed what was below the log's start."""
        log = opened(disk)
        for at in range(80):
            log.append_as_leader(batch(1, producer=3, sequence=at), 0, 0)
        bases = log.producers.snapshots()
        assert len(bases) > 3
        log.flush()
        start = bases[-1]
        Log.open(disk, "t-0", SMALL, now_ms=0, trace=NullTrace(), start_offset=start)
        assert [at for at in log.producers.snapshots() if at < start] == bases[-2:-1]

    def test_an_opening_removes_snapshots_whose_segments_were_removed_before_the_node_died(self, disk: SimDisk) -> None:
        """DP-05: between the two removals the node may die; the files of the segments are then gone already."""
        log = opened(disk)
        for at in range(80):
            log.append_as_leader(batch(1, producer=3, sequence=at), 0, 0)
        bases = log.producers.snapshots()
        log.flush()
        for base in [0, *bases[:-1]]:
            disk.remove(f"t-0/{base:020d}.log")
        Log.open(disk, "t-0", SMALL, now_ms=0, trace=NullTrace(), start_offset=bases[-1])
        assert log.producers.snapshots() == bases[-2:]

    def test_deleting_leaves_nothing(self, disk: SimDisk) -> None:
        log = opened(disk)
        log.append_as_leader(batch(1), 1, 0)
        log.delete()
        assert disk.list("t-0") == []


def test_a_failed_write_leaves_the_log_as_it_was(disk: SimDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(disk)
    log.append_as_leader(batch(2), 1, 0)
    file_type = type(disk.open("t-0/00000000000000000000.log"))
    append = file_type.append

    def fail(self: object, *chunks: bytearray) -> None:
        append(self, chunks[0][:10])
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(file_type, "append", fail)
    with pytest.raises(OSError, match="no space"):
        log.append_as_leader(batch(2, producer=4), 1, 0)
    monkeypatch.setattr(file_type, "append", append)
    assert log.end_offset == 2 and log.producers.state_of(4) is None
    log.append_as_leader(batch(2, producer=4), 1, 0)
    assert offsets(log) == [0, 1, 2, 3]
