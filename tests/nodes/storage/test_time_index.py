"""From a timestamp to an offset: `.timeindex` and `.index` in Kafka's format, and look-ups by them (KIP-33)."""

from __future__ import annotations

import struct
from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.log import Log, LogConfig
from squall.nodes.storage.time_index import TimeIndex

SEEDS = range(40)
FIRST = "t-0/00000000000000000000"


def opened(disk: SimDisk, *, clean: bool = False, start: int = 0, **settings: int) -> Log:
    config = LogConfig(**({"index_interval_bytes": 200, "retention_ms": -1} | settings))
    return Log.open(disk, "t-0", config, now_ms=0, trace=NullTrace(), clean_shutdown=clean, start_offset=start)


def append(log: Log, *timestamps: int) -> None:
    """One batch with a record of each time."""
    log.append_as_leader(build_batch([Record(timestamp=time, value=b"v" * 20) for time in timestamps]), 0, 0)


def content(disk: SimDisk, ending: str) -> bytes:
    file = disk.open(FIRST + ending)
    return file.read(0, file.size())


# -- what DeleteRecords has taken ----------------------------------------------------------------------------------


def test_a_look_up_by_time_begins_where_the_log_does() -> None:
    """The batch of offsets 0 to 9 is still on the disk; what DeleteRecords took of it is not an answer."""
    log = opened(SimDisk(Random(1)))
    append(log, *range(100, 110))
    log.advance_start(6)
    assert log.offset_for_timestamp(0, 10) == (106, 6)
    assert log.offset_for_timestamp(108, 10) == (108, 8)


def test_the_largest_timestamp_is_that_of_a_record_still_there() -> None:
    log = opened(SimDisk(Random(1)))
    append(log, 100, 900, 200)
    append(log, 300, 250)
    log.advance_start(2)
    assert log.max_timestamp() == 300
    assert log.offset_for_timestamp(300, 5) == (300, 3)
    assert log.offset_for_timestamp(301, 5) is None


def test_a_look_up_goes_on_behind_a_batch_whose_youngest_record_is_gone() -> None:
    log = opened(SimDisk(Random(1)))
    append(log, 500, 1)
    append(log, 2, 400)
    log.advance_start(1)
    assert log.offset_for_timestamp(300, 4) == (400, 3)


# -- the files, as Kafka has them ----------------------------------------------------------------------------------


def test_index_entries_are_last_offsets_and_positions() -> None:
    disk = SimDisk(Random(1))
    log = opened(disk, index_interval_bytes=1)
    for at in range(4):
        append(log, at * 10, at * 10 + 1)
    size = log.size // 4
    log.close()
    entries = list(struct.iter_unpack(">II", content(disk, ".index")))
    assert entries == [(1, 0), (3, size), (5, 2 * size), (7, 3 * size)]


def test_time_index_entries_name_the_batch_of_each_new_largest_timestamp() -> None:
    disk = SimDisk(Random(1))
    log = opened(disk, index_interval_bytes=1)
    for times in ((10, 5), (3,), (30,), (30,), (20,), (40, 1)):
        append(log, *times)
    log.close()
    assert list(struct.iter_unpack(">qI", content(disk, ".timeindex"))) == [(10, 1), (30, 3), (40, 7)]


def test_a_time_index_ends_with_the_largest_time_also_after_a_truncation() -> None:
    """The truncation forgets which one it is; the close that follows finds it again (`worlds` 1029615)."""
    disk = SimDisk(Random(1))
    log = opened(disk, index_interval_bytes=1000)
    for time in (10, 30, 20, 40):
        append(log, time)
    log.truncate_to(3)
    log.close()
    assert list(struct.iter_unpack(">qI", content(disk, ".timeindex"))) == [(10, 0), (30, 1)]


# -- against a model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_look_ups_agree_with_a_scan_whatever_becomes_of_the_index_files(seed: int) -> None:
    """Random times, segments, truncations, deletions; index files whole, lost, cut short or of another segment."""
    rng, disk = Random(seed), SimDisk(Random(seed))
    log = opened(disk, segment_bytes=1500)
    times: list[int] = []
    for _ in range(rng.randrange(20, 60)):
        fresh = [rng.randrange(1000) + len(times) * rng.choice((0, 5)) for _ in range(rng.randrange(1, 4))]
        append(log, *fresh)
        times += fresh
        if rng.random() < 0.05:
            log.truncate_to(rng.randrange(log.start_offset, log.end_offset + 1))
            del times[log.end_offset :]
        if rng.random() < 0.05 and times:
            log.advance_start(rng.randrange(len(times)))
            log.drop_before_start()
        if rng.random() < 0.1:
            log = reopened(rng, disk, log)
        check(rng, log, times, seed)


def reopened(rng: Random, disk: SimDisk, log: Log) -> Log:
    log.close()
    for name in disk.list("t-0"):
        if name.endswith((".timeindex", ".index")):
            what = rng.choice(("whole", "lost", "short", "empty", "foreign"))
            file = disk.open(f"t-0/{name}")
            if what == "lost":
                disk.remove(f"t-0/{name}")
            elif what == "short":
                unit = 12 if name.endswith(".timeindex") else 8
                file.truncate(rng.randrange(file.size() // unit + 1) * unit)
            elif what == "empty":
                file.truncate(0)
            elif what == "foreign":
                file.append(bytes(24))
    return opened(disk, clean=True, start=log.start_offset, segment_bytes=1500)


def check(rng: Random, log: Log, times: list[int], seed: int) -> None:
    start, end = log.start_offset, log.end_offset
    wanted, upper = rng.randrange(1300), rng.randrange(start, end + 1)
    found = next(((times[at], at) for at in range(start, upper) if times[at] >= wanted), None)
    assert log.offset_for_timestamp(wanted, upper) == found, f"seed {seed}: {wanted} below {upper}"
    assert log.max_timestamp() == max(times[start:end], default=-1), f"seed {seed}"


# -- cost ----------------------------------------------------------------------------------------------------------


def test_a_look_up_reads_one_index_interval_and_not_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(Random(1))
    log = opened(disk, index_interval_bytes=4096)
    for at in range(5000):
        append(log, at)
    reads: list[int] = []
    file_type = type(disk.open(FIRST + ".log"))
    read = file_type.read

    def counted(self: object, position: int, length: int) -> bytes:
        reads.append(length)
        return read(self, position, length)  # type: ignore[arg-type]

    monkeypatch.setattr(file_type, "read", counted)
    for wanted in (0, 2500, 4999):
        reads.clear()
        assert log.offset_for_timestamp(wanted, 5000) == (wanted, wanted)
        assert len(reads) <= 3 and sum(reads) < 4 * 65536


# -- the index by itself -------------------------------------------------------------------------------------------


def test_only_what_is_younger_than_all_before_gets_an_entry() -> None:
    index = TimeIndex()
    for timestamp, offset in ((10, 1), (10, 2), (5, 3), (11, 4), (-1, 5)):
        index.add(timestamp, offset)
    assert index.last == (11, 4) and len(index) == 2
    assert [index.floor(time) for time in (9, 10, 11, 99)] == [None, 1, 4, 4]
    index.cut(4)
    assert index.last == (10, 1)


@pytest.mark.parametrize("entries", [[(10, 1), (10, 2)], [(10, 2), (11, 2)], [(10, 9)], [(0, 0), (0, 0)]], ids=str)
def test_a_file_that_cannot_be_this_segments_is_not_believed(entries: list[tuple[int, int]]) -> None:
    index = TimeIndex()
    assert not index.decode(b"".join(struct.pack(">qI", *one) for one in entries), 100, 109)
    assert len(index) == 0
    assert not index.decode(b"\0" * 13, 100, 109)
