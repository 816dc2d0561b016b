"""INDEX as the observer asserts it of a start: a node finds what it trusts of its logs by their indexes."""

from __future__ import annotations

import struct
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.opened_logs import OpenedLogs
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import Read, SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.checkpoints import RECOVERY_POINTS, OffsetCheckpoint
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.log import Log
from squall.nodes.storage.segment import HEADER_SIZE, Segment
from squall.nodes.storage.time_index import TimeIndex

TIMES = (5, 9, 7, 12, 6)
"""One batch each, of two records. The last batch is not the newest."""
SIZE = len(build_batch([Record(timestamp=5, value=b"v")] * 2))
PATH = "t-0/00000000000000000000.log"


class Host:
    """A host whose node has stopped cleanly, with a log of one segment; or more, of `each` batches."""

    def __init__(self, *, interval: int = 0, each: int = 100) -> None:
        self.disk = SimDisk(Random(1))
        self._settings = LogConfig(index_interval_bytes=interval, segment_bytes=each * SIZE)
        log = Log.open(self.disk, "t-0", self._settings, now_ms=0, trace=NullTrace())
        for time in TIMES:
            log.append_as_leader(build_batch([Record(timestamp=time, value=b"v")] * 2), 1, 0)
        log.close()
        self.process: Any = SimpleNamespace(name="b1", how_it_ended="stopped", disk=self.disk)
        self.rule = OpenedLogs(SimpleNamespace())  # type: ignore[arg-type]

    def stops(self) -> None:
        self.rule.died(self.process)

    def starts(self, *more: Read) -> None:
        with self.disk.reads_noted() as reads:
            Log.open(self.disk, "t-0", self._settings, now_ms=0, trace=NullTrace(), clean_shutdown=True)
        self.disk.read_at_start = [*reads, *more]
        self.rule.turned(self.process, SimpleNamespace())  # type: ignore[arg-type]

    def restarts(self, *more: Read) -> None:
        self.stops()
        self.starts(*more)


@pytest.mark.parametrize("interval", [0, 2 * SIZE, 100 * SIZE])
def test_a_log_opens_by_its_indexes(interval: int) -> None:
    Host(interval=interval).restarts()


def test_a_start_that_reads_what_lies_before_breaks_it() -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^INDEX: b1 has started, and read {PATH} from byte {SIZE} on: .* to byte {3 * SIZE}$"
    ):
        Host().restarts(Read(PATH, SIZE, 100))


def test_a_start_that_reads_all_headers_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    host.stops()
    monkeypatch.setattr(Segment, "_load_index", lambda self: 0)
    with pytest.raises(InvariantBroken, match="from byte 0 on"):
        host.starts()


def test_the_first_header_may_be_read() -> None:
    Host().restarts(Read(PATH, 0, HEADER_SIZE))
    with pytest.raises(InvariantBroken, match="from byte 0 on"):
        Host().restarts(Read(PATH, 0, HEADER_SIZE + 1))


def test_a_time_index_that_is_not_used_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    monkeypatch.setattr(TimeIndex, "decode", lambda self, content, base_offset, next_offset: False)
    with pytest.raises(
        InvariantBroken, match=rf"^INDEX: b1 has ended, and the largest time of {PATH} .* byte 0 on: .* {3 * SIZE}$"
    ):
        host.stops()


def test_batches_after_an_older_snapshot_of_the_producers_are_read() -> None:
    host = Host()
    host.disk.remove("t-0/00000000000000000010.snapshot")
    host.restarts(Read(PATH, 0, 1_000))


def test_indexes_that_are_damaged_while_no_process_runs_lead_nowhere() -> None:
    host = Host()
    host.stops()
    host.disk.remove("t-0/00000000000000000000.index")
    host.disk.damaged_files += 1
    host.starts()


def without_entries(host: Host) -> None:
    host.disk.remove("t-0/00000000000000000000.index")


def after_a_loss(host: Host) -> None:
    host.disk.bytes_lost = 1


def after_an_error(host: Host) -> None:
    host.disk.errors = 1


def after_a_death(host: Host) -> None:
    host.process.how_it_ended = "died"
    OffsetCheckpoint(host.disk, RECOVERY_POINTS).replace({("t", 0): 10})


@pytest.mark.parametrize("happens", [without_entries, after_a_loss, after_an_error, after_a_death])
def test_without_sound_indexes_all_is_read(happens: Any) -> None:
    host = Host()
    happens(host)
    host.restarts(Read(PATH, 0, 1_000))


SECOND = "t-0/00000000000000000004.log"
"""Offsets 4 to 7; it follows the first segment of two batches, and the third begins at 8."""


@pytest.mark.parametrize(("point", "is_trusted"), [(0, False), (7, False), (8, True), (10, True)])
def test_after_a_death_the_segments_below_the_recovery_point_are_trusted(point: int, *, is_trusted: bool) -> None:
    host = Host(each=2)
    host.process.how_it_ended = "died"
    OffsetCheckpoint(host.disk, RECOVERY_POINTS).replace({("t", 0): point})
    if is_trusted:
        with pytest.raises(InvariantBroken, match=f"read {SECOND} from byte 0 on: its indexes lead to byte {SIZE}$"):
            host.restarts(Read(SECOND, 0, 1_000))
    else:
        host.restarts(Read(SECOND, 0, 1_000))


def test_what_is_lost_between_stop_and_start_counts_too() -> None:
    host = Host()
    host.stops()
    after_a_loss(host)
    host.starts(Read(PATH, 0, 1_000))


def test_only_the_start_is_judged() -> None:
    host = Host()
    host.restarts()
    host.starts(Read(PATH, 0, 1_000))


def test_an_index_of_another_log_says_nothing_of_this_one() -> None:
    host = Host()
    file = host.disk.open("u-0/00000000000000000000.log", create=True)
    file.append(struct.pack(">q", 0))
    host.restarts(Read("u-0/00000000000000000000.log", 0, 1_000))
