"""Which files beside a log contradict its batches, by hand and beside real logs (DP-05, DP-13)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from squall.nodes.ports import NullTrace
from squall.nodes.protocol.crc import crc32c
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.server import digest
from squall.nodes.server.disk import RealDisk
from squall.nodes.server.log_files import (
    Place,
    Produced,
    epochs_problem,
    offset_index_problem,
    producers_problem,
    time_index_problem,
)
from squall.nodes.storage.checkpoints import LEADER_EPOCHS, write_lines
from squall.nodes.storage.log import Log, LogConfig

BASE = 100
PLACES = (Place(100, 104, 0, 70, 10), Place(105, 105, 70, 70, 30), Place(106, 110, 140, 80, 20))
"""The batches of a segment; the last one is older than the one before it."""


def offset_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">Ii", offset - BASE, position) for offset, position in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qI", timestamp, offset - BASE) for timestamp, offset in entries)


class TestOffsetIndex:
    @pytest.mark.parametrize(
        "entries",
        [
            (),
            ((104, 0), (105, 70), (110, 140)),
            ((105, 0), (110, 140)),  # of two batches that a follower appended together (Apache Kafka)
            ((100, 0),),
        ],
    )
    def test_entries_that_lead_to_the_beginning_of_a_batch_at_or_before_them_are_right(
        self, entries: Sequence[tuple[int, int]]
    ) -> None:
        assert offset_index_problem(offset_index(*entries), BASE, PLACES) is None

    @pytest.mark.parametrize(
        ("entries", "told"),
        [
            (((104, 0), (105, 71), (110, 140)), "leads from offset 105 to position 71, where no batch begins"),
            (((104, 70), (110, 140)), "leads from offset 104 to position 70, where the batch at 105 begins"),
            (((104, 0), (111, 140)), "has an entry for offset 111, and the segment ends with 110"),
        ],
    )
    def test_entries_that_lead_elsewhere_are_reported(self, entries: Sequence[tuple[int, int]], told: str) -> None:
        assert offset_index_problem(offset_index(*entries), BASE, PLACES) == told

    @pytest.mark.parametrize(
        "content",
        [
            offset_index((104, 0), (105, 71)),
            offset_index((104, 0), (120, 220)),
            offset_index((105, 71), (104, 0), (110, 140)),
            offset_index((104, 0))[:-1],
            bytes(16),
        ],
        ids=["last entry elsewhere", "of a longer segment", "not ascending", "cut off", "zeros"],
    )
    def test_what_a_power_loss_may_leave_is_ignored_as_nodes_ignore_it(self, content: bytes) -> None:
        assert offset_index_problem(content, BASE, PLACES) is None


class TestTimeIndex:
    @pytest.mark.parametrize(
        "entries",
        [
            (),
            ((10, 104), (30, 105)),
            ((10, 102), (30, 105)),  # the record with the largest time (Apache Kafka)
            ((30, 105),),
        ],
    )
    def test_entries_with_the_largest_time_so_far_are_right(self, entries: Sequence[tuple[int, int]]) -> None:
        assert time_index_problem(time_index(*entries), BASE, PLACES) is None

    def test_a_batch_that_a_search_would_pass_over_is_reported(self) -> None:
        places = (*PLACES, Place(111, 111, 220, 70, 40))
        told = "says that nothing before offset 110 is younger than 20, and a batch before it is of 30"
        assert time_index_problem(time_index((20, 110), (40, 111)), BASE, places) == told

    def test_an_entry_of_removed_batches_is_reported_even_if_later_ones_are_right(self) -> None:
        """A truncation left (25, 104) behind; the batch that took its place is of 10."""
        told = "says that offset 104 has time 25, and the batch at 100 is of 10 at most"
        assert time_index_problem(time_index((25, 104), (30, 105)), BASE, PLACES) == told

    @pytest.mark.parametrize("last", [(31, 105), (40, 120)], ids=["another time", "of a longer segment"])
    def test_a_file_whose_last_entry_does_not_fit_is_ignored_as_nodes_ignore_it(self, last: tuple[int, int]) -> None:
        assert time_index_problem(time_index((25, 104), last), BASE, PLACES) is None

    @pytest.mark.parametrize("content", [time_index((10, 104))[:-1], bytes(24)], ids=["cut off", "zeros"])
    def test_what_a_power_loss_may_leave_is_ignored(self, content: bytes) -> None:
        assert time_index_problem(content, BASE, PLACES) is None


class TestLeaderEpochs:
    """DP-13: the cache names the epoch of each batch."""

    BATCHES = ((0, 4), (5, 4), (10, 6))

    @pytest.mark.parametrize(
        "entries", [((4, 0), (6, 10)), ((4, 0), (5, 9), (6, 10), (8, 30)), ((3, -1), (4, 0), (6, 10))]
    )
    def test_entries_that_name_each_batchs_epoch_are_right(self, entries: Sequence[tuple[int, int]]) -> None:
        assert epochs_problem(entries, self.BATCHES, from_the_start=True) is None

    @pytest.mark.parametrize(
        ("entries", "told"),
        [
            (((4, 0),), "names epoch 4 for offset 10, where a batch of epoch 6 begins"),
            (((4, 0), (6, 5)), "names epoch 6 for offset 5, where a batch of epoch 4 begins"),
            (((6, 10),), "names no epoch for offset 0, where a batch of epoch 4 begins"),
            ((), "names no epoch for offset 0, where a batch of epoch 4 begins"),
        ],
    )
    def test_another_epoch_or_none_is_reported(self, entries: Sequence[tuple[int, int]], told: str) -> None:
        assert epochs_problem(entries, self.BATCHES, from_the_start=True) == told

    def test_entries_may_lack_below_a_log_start_that_is_not_written_down_yet(self) -> None:
        assert epochs_problem(((4, 7), (6, 10)), self.BATCHES, from_the_start=False) is None
        assert epochs_problem(((4, 7), (6, 11)), self.BATCHES, from_the_start=False) is not None

    def test_a_batch_without_an_epoch_is_of_any(self) -> None:
        """Batches of old formats have none."""
        assert epochs_problem(((4, 0),), ((0, -1),), from_the_start=True) is None


class TestProducers:
    """DP-05: a snapshot states the last batch of each producer."""

    BATCHES = (Produced(4, 7, 0, 4), Produced(9, -1, -1, -1), Produced(10, 8, 2, 0))

    def snapshot(self, *entries: tuple[int, int, int, int]) -> bytes:
        body = struct.pack(">i", len(entries))
        for producer, epoch, sequence, offset in entries:
            body += struct.pack(">qhiqiqiq", producer, epoch, sequence, offset, 0, 0, -1, -1)
        return struct.pack(">HI", 1, crc32c(body)) + body

    @pytest.mark.parametrize(
        "entry",
        [(7, 0, 4, 4), (8, 3, 0, 10), (9, 0, 1, 3), (9, 0, 1, 50), (9, 0, -1, 9)],
        ids=["its batch", "a control batch raised the epoch", "removed", "beyond the log", "without a batch"],
    )
    def test_the_last_batch_of_a_producer_is_right(self, entry: tuple[int, int, int, int]) -> None:
        assert producers_problem(self.snapshot(entry), self.BATCHES) is None

    @pytest.mark.parametrize("entry", [(9, 0, 4, 4), (7, 0, 3, 4), (8, 1, 0, 10), (7, 0, 4, 9)])
    def test_a_batch_of_another_producer_epoch_or_sequence_is_reported(self, entry: tuple[int, int, int, int]) -> None:
        assert producers_problem(self.snapshot((7, 0, 4, 4), entry), self.BATCHES) is not None

    @pytest.mark.parametrize("length", [0, 6, 12, 40])
    def test_a_damaged_snapshot_is_ignored_as_nodes_ignore_it(self, length: int) -> None:
        assert producers_problem(self.snapshot((9, 0, 4, 4))[:length], self.BATCHES) is None


class TestBesideARealLog:
    def filled(self, root: Path) -> Log:
        config = LogConfig(segment_bytes=500, index_interval_bytes=1)
        log = Log.open(RealDisk(root), "events-0", config, now_ms=0, trace=NullTrace())
        for number in range(20):
            record = Record(value=b"%08d" % number, timestamp=1000 + 10 * number)
            batch = build_batch([record], producer_id=5, producer_epoch=0, base_sequence=number)
            log.append_as_leader(batch, 3 + number // 8, 0)
        return log

    def told(self, root: Path) -> list[str]:
        facts, _ = digest._read(root / "events-0", 0, knows_start=True)
        return facts["files"]

    def test_a_running_and_a_closed_log_contradict_nothing(self, tmp_path: Path) -> None:
        log = self.filled(tmp_path)
        assert len(list((tmp_path / "events-0").glob("*.index"))) > 2
        assert list((tmp_path / "events-0").glob("*.snapshot"))
        assert self.told(tmp_path) == []
        log.close()
        assert self.told(tmp_path) == []

    def test_a_truncated_and_extended_log_contradicts_nothing(self, tmp_path: Path) -> None:
        log = self.filled(tmp_path)
        log.truncate_to(9)
        for number in range(20):
            log.append_as_leader(build_batch([Record(value=b"x", timestamp=500 + number)]), 9, 0)
        assert self.told(tmp_path) == []

    def test_epochs_that_a_sealed_segment_lacks_are_reported(self, tmp_path: Path) -> None:
        self.filled(tmp_path)
        write_lines(RealDisk(tmp_path), f"events-0/{LEADER_EPOCHS}", ["3 0", "5 16"])
        assert self.told(tmp_path) == [f"{LEADER_EPOCHS} names epoch 3 for offset 8, where a batch of epoch 4 begins"]

    def test_indexes_of_another_segment_are_reported(self, tmp_path: Path) -> None:
        self.filled(tmp_path)
        first, second = sorted((tmp_path / "events-0").glob("*.timeindex"))[:2]
        times = list(struct.iter_unpack(">qI", first.read_bytes()))
        times[0] = (times[0][0] + 1, times[0][1])
        first.write_bytes(b"".join(struct.pack(">qI", *one) for one in times))
        assert [one.split()[0] for one in self.told(tmp_path)] == [first.name]
        assert second.exists()
