"""Snapshots as files (SN-01..04, rule 39): what a crash, damage or the limits leave of them; and downloads (SN-05)."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.serial import entity_reader

from squall.harness.simulation.world.disk import CrashNow, SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.records import control_kind, iterate_batches, parse_records
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.metadata_log import MetadataLog
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.snapshot_messages import SnapshotResponse, fetch_snapshot, read_snapshot_response
from squall.nodes.raft.snapshots import SnapshotId, Snapshots
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.errors import CorruptFile

DIRECTORY = "__cluster_metadata-0"
SMALL = LogConfig(segment_bytes=1024)


class Clock:
    def now_ms(self) -> int:
        return 1_000


def config(**changes: object) -> RaftConfig:
    return RaftConfig(1, "cluster", bytes(15) + b"1", (Voter(1, "h", 1),), log=SMALL, **changes)  # type: ignore[arg-type]


def stored(disk: SimDisk) -> Snapshots:
    return Snapshots(disk, DIRECTORY, node_id=1, trace=NullTrace())


def opened(disk: SimDisk, **changes: object) -> MetadataLog:
    return MetadataLog(config(**changes), disk=disk, now_ms=1_000, trace=NullTrace())


def write(snapshots: Snapshots, snapshot_id: SnapshotId, *, batches: int = 3, timestamp: int = 500) -> None:
    writer = snapshots.create(snapshot_id, timestamp)
    for number in range(batches):
        writer.append([b"%d-%d" % (snapshot_id.end_offset, number)] * 4)
    writer.finish()


def values(snapshots: Snapshots, snapshot_id: SnapshotId) -> list[bytes]:
    return [value for batch in snapshots.batches(snapshot_id) for value in batch.values]


class TestFiles:
    def test_a_snapshot_is_named_by_its_exclusive_end_offset_and_its_epoch(self) -> None:
        disk = SimDisk(Random(1))
        write(stored(disk), SnapshotId(123, 7))
        assert disk.list(DIRECTORY) == ["00000000000000000123-0000000007.checkpoint"]
        assert stored(disk).latest == SnapshotId(123, 7)

    def test_another_implementation_reads_header_and_footer(self) -> None:
        disk = SimDisk(Random(1))
        write(stored(disk), SnapshotId(123, 7), timestamp=500)
        content = disk.open(f"{DIRECTORY}/{SnapshotId(123, 7).name}").read(0, 1 << 20)
        batches = [(header, parse_records(batch)) for header, batch in iterate_batches(content)]
        (head, [first]), (foot, [last]) = batches[0], batches[-1]
        assert head.is_control and control_kind(first.key) == 3
        assert foot.is_control and control_kind(last.key) == 4
        header, _ = entity_reader(SnapshotHeaderRecord)(first.value, 0)
        assert (header.version, header.last_contained_log_timestamp) == (0, 500)
        assert entity_reader(SnapshotFooterRecord)(last.value, 0)[0].version == 0

    @pytest.mark.parametrize("position", [5, 70, 200, -3])
    def test_a_damaged_one_is_skipped_with_a_warning_and_the_next_older_is_used(self, position: int) -> None:
        disk = SimDisk(Random(1))
        for end in (10, 20):
            write(stored(disk), SnapshotId(end, 1))
        disk.open(f"{DIRECTORY}/{SnapshotId(20, 1).name}")._content.data[position] ^= 4
        snapshots = stored(disk)
        assert snapshots.latest == SnapshotId(10, 1)
        [notice] = snapshots.notices
        assert "skipping a damaged snapshot" in notice and SnapshotId(20, 1).name in notice

    def test_one_without_its_end_is_never_loaded(self) -> None:
        disk = SimDisk(Random(1))
        write(stored(disk), SnapshotId(20, 1))
        file = disk.open(f"{DIRECTORY}/{SnapshotId(20, 1).name}")
        whole = file.read(0, file.size())
        for size in range(len(whole)):
            file.truncate(0)
            file.append(whole[:size])
            assert stored(disk).latest is None, size

    @pytest.mark.parametrize("seed", range(5))
    def test_a_crash_between_any_two_disk_calls_leaves_the_old_or_the_new(self, seed: int) -> None:
        """SN-02. What is found after the power came back is whole, and once it was there it stays."""
        for calls in range(60):
            disk = SimDisk(Random(f"{seed}/{calls}"))
            write(stored(disk), SnapshotId(10, 1))
            disk.crash_after = calls
            finished = False
            try:
                write(stored(disk), SnapshotId(20, 2))
                finished = True
                disk.spare()
            except CrashNow:
                disk.lose_power()
            snapshots = stored(disk)
            assert snapshots.latest is not None, (seed, calls)
            assert (
                snapshots.latest == SnapshotId(20, 2)
                if finished
                else snapshots.latest
                in (
                    SnapshotId(10, 1),
                    SnapshotId(20, 2),
                )
            )
            assert len(values(snapshots, snapshots.latest)) == 12
            assert not [name for name in disk.list(DIRECTORY) if name.endswith(".part")]
            if finished:
                return
        raise AssertionError("it never came to its end")


def filled(disk: SimDisk, **changes: object) -> MetadataLog:
    """Three epochs of twenty batches, and a snapshot at the end of each of the first two."""
    log = opened(disk, **changes)
    for epoch in (1, 2, 3):
        for _ in range(20):
            log.append([b"v" * 40], epoch, 1_000)
        log.flush()
        if epoch < 3:
            write(log.snapshots, SnapshotId(log.end_offset, epoch))
    return log


class TestLogStart:
    def test_it_moves_only_to_the_end_of_a_snapshot_and_one_is_always_kept(self) -> None:
        disk = SimDisk(Random(1))
        log = filled(disk, retention_bytes=0)
        assert log.start_offset == 0
        log.retain(1_000)
        assert (log.start_offset, log.snapshots.ids) == (40, (SnapshotId(40, 2),))
        log.retain(1_000)
        assert (log.start_offset, log.snapshots.ids) == (40, (SnapshotId(40, 2),))

    def test_nothing_goes_within_the_limits(self) -> None:
        log = filled(SimDisk(Random(1)))
        assert not log.retain(1_000)
        assert (log.start_offset, len(log.snapshots.ids)) == (0, 2)

    def test_age_alone_lets_a_snapshot_go(self) -> None:
        log = filled(SimDisk(Random(1)), retention_ms=100)
        assert not log.retain(600)
        assert log.retain(601)
        assert log.start_offset == 40

    def test_a_restart_begins_where_the_log_began(self) -> None:
        disk = SimDisk(Random(1))
        filled(disk, retention_bytes=0).retain(1_000)
        disk.lose_power("all")
        log = opened(disk)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (40, 60, 3)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_crash_between_disk_calls_loses_nothing_past_the_oldest_snapshot(self, seed: int) -> None:
        for calls in range(60):
            disk = SimDisk(Random(f"{seed}/{calls}"))
            log = filled(disk, retention_bytes=0)
            disk.crash_after = calls
            try:
                log.retain(1_000)
                finished = True
                disk.spare()
            except CrashNow:
                finished = False
            disk.lose_power()
            log = opened(disk)
            assert log.end_offset == 60, (seed, calls)
            oldest = log.snapshots.oldest
            assert oldest is not None and log.start_offset in (0, oldest.end_offset)
            assert [batch.base_offset for batch in log.batches(log.start_offset, 60)] == list(
                range(log.start_offset, 60)
            )
            if finished:
                return
        raise AssertionError("it never came to its end")

    def test_a_voter_whose_only_snapshot_is_damaged_says_what_to_do(self) -> None:
        disk = SimDisk(Random(1))
        filled(disk, retention_bytes=0).retain(1_000)
        disk.open(f"{DIRECTORY}/{SnapshotId(40, 2).name}")._content.data[70] ^= 4
        with pytest.raises(CorruptFile, match="let it catch up"):
            opened(disk)

    def test_an_observer_in_that_case_fetches_everything_again(self) -> None:
        disk = SimDisk(Random(1))
        filled(disk, retention_bytes=0).retain(1_000)
        disk.open(f"{DIRECTORY}/{SnapshotId(40, 2).name}")._content.data[70] ^= 4
        log = opened(disk, is_voter=False)
        assert (log.start_offset, log.end_offset) == (0, 0)


class TestWhoMustFetchASnapshot:
    """SN-05, rule 36."""

    @pytest.mark.parametrize(
        ("offset", "epoch", "expected"),
        [
            (0, 0, True),  # begins
            (39, 2, True),  # below the log's start
            (40, 2, False),  # exactly where the oldest snapshot ends
            (40, 1, True),  # the same offset, in another epoch
            (45, 1, True),  # an epoch older than the oldest snapshot
            (45, 3, False),
            (60, 3, False),
        ],
    )
    def test_where_the_log_begins_later(self, offset: int, epoch: int, expected: bool) -> None:
        log = filled(SimDisk(Random(1)), retention_bytes=0)
        log.retain(1_000)
        assert log.snapshot_for(offset, epoch) == (SnapshotId(40, 2) if expected else None)

    def test_a_laggard_gets_records_as_long_as_the_log_is_whole(self) -> None:
        log = filled(SimDisk(Random(1)))
        assert log.snapshot_for(5, 1) is None
        assert log.snapshot_for(0, 0) == SnapshotId(40, 2)

    def test_without_a_snapshot_nobody(self) -> None:
        assert opened(SimDisk(Random(1))).snapshot_for(0, 0) is None


class TestDownloadedOver:
    def test_the_log_goes_on_where_the_snapshot_ends_in_its_epoch(self) -> None:
        disk = SimDisk(Random(1))
        log = filled(disk)
        write(log.snapshots, SnapshotId(100, 5))
        log.restart_at(SnapshotId(100, 5))
        assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 5)
        assert log.snapshots.ids == (SnapshotId(100, 5),)
        disk.lose_power("all")
        log = opened(disk)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 5)

    def test_a_crash_after_the_rename_is_made_good_at_the_start(self) -> None:
        disk = SimDisk(Random(1))
        write(filled(disk).snapshots, SnapshotId(100, 5))
        log = opened(disk)
        assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 5)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_crash_anywhere_on_the_way_is_made_good_at_the_start(self, seed: int) -> None:
        for calls in range(80):
            disk = SimDisk(Random(f"{seed}/{calls}"))
            log = filled(disk)
            write(log.snapshots, SnapshotId(100, 5))
            disk.crash_after = calls
            try:
                log.restart_at(SnapshotId(100, 5))
                finished = True
                disk.spare()
            except CrashNow:
                finished = False
            disk.lose_power()
            log = opened(disk)
            assert (log.start_offset, log.end_offset, log.last_epoch) == (100, 100, 5), (seed, calls)
            if finished:
                return
        raise AssertionError("it never came to its end")


def single(disk: SimDisk) -> RaftReplica:
    """A quorum of one, which leads."""
    replica = RaftReplica(config(), disk=disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0)
    for _ in range(3):
        replica.tick(0)
        replica.flush(0)
    assert replica.is_leader
    return replica


class TestLimits:
    def test_a_snapshot_above_the_high_watermark_is_refused(self) -> None:
        """SN-02, rule 39."""
        replica = single(SimDisk(Random(1)))
        replica.append(0, [[b"a"]])
        with pytest.raises(ValueError, match="high watermark"):
            replica.begin_snapshot(SnapshotId(replica.end_offset, replica.epoch), 0)
        replica.flush(0)
        writer = replica.begin_snapshot(SnapshotId(replica.end_offset, replica.epoch), 0)
        assert replica.finish_snapshot(writer)

    def test_the_next_start_knows_that_it_was_committed(self) -> None:
        disk = SimDisk(Random(1))
        replica = single(disk)
        replica.append(0, [[b"a"]])
        replica.flush(0)
        end = replica.end_offset
        replica.finish_snapshot(replica.begin_snapshot(SnapshotId(end, replica.epoch), 0))
        again = RaftReplica(config(), disk=disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=0)
        assert again.high_watermark == end
        assert again.snapshot_before(0) == again.snapshots.latest


class TestFetchSnapshot:
    """Rule 36: by byte position, within limits."""

    def ask(
        self, replica: RaftReplica, snapshot_id: SnapshotId, position: int, epoch: int | None = None
    ) -> SnapshotResponse:
        at = replica.epoch if epoch is None else epoch
        body = fetch_snapshot(config(snapshot_fetch_max_bytes=100), at, snapshot_id, position)
        request = ServerRequest(59, 1, body, "test", "CONTROLLER", 1, 0)
        replica.handle_fetch_snapshot(0, request)
        assert request.answer is not None and request.answer.response is not None
        return read_snapshot_response(request.answer.response)

    def test_the_pieces_make_the_file(self) -> None:
        disk = SimDisk(Random(1))
        replica = single(disk)
        snapshot_id = SnapshotId(replica.end_offset, replica.epoch)
        writer = replica.begin_snapshot(snapshot_id, 0)
        writer.append([b"x" * 90] * 5)
        replica.finish_snapshot(writer)
        content = b""
        while True:
            answer = self.ask(replica, snapshot_id, len(content))
            assert (answer.error, answer.position) == (0, len(content)) and 0 < len(answer.content) <= 100
            content += bytes(answer.content)
            if len(content) == answer.size:
                break
        file = disk.open(f"{DIRECTORY}/{snapshot_id.name}")
        assert content == file.read(0, file.size())

    def test_what_cannot_be_served_is_refused_by_name(self) -> None:
        replica = single(SimDisk(Random(1)))
        snapshot_id = SnapshotId(replica.end_offset, replica.epoch)
        assert self.ask(replica, snapshot_id, 0).error == ErrorCode.SNAPSHOT_NOT_FOUND
        replica.finish_snapshot(replica.begin_snapshot(snapshot_id, 0))
        assert self.ask(replica, snapshot_id, 1 << 20).error == ErrorCode.POSITION_OUT_OF_RANGE
        assert self.ask(replica, snapshot_id, -1).error == ErrorCode.POSITION_OUT_OF_RANGE
        assert self.ask(replica, snapshot_id, 0, replica.epoch - 1).error == ErrorCode.FENCED_LEADER_EPOCH
        assert self.ask(replica, snapshot_id, 0, replica.epoch + 1).error == ErrorCode.UNKNOWN_LEADER_EPOCH
