"""The leader epoch cache as tables: where epochs end, what an assignment removes, what truncation leaves."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.errors import CorruptFile

Entries = list[tuple[int, int]]


def cache(entries: Entries, disk: SimDisk | None = None) -> LeaderEpochCache:
    made = LeaderEpochCache(disk or SimDisk(Random(0)), "t-0")
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # the follower knows no epoch
        (0, (0, 10)),  # older than all: it ends where our first begins
        (2, (2, 20)),
        (3, (2, 20)),  # unknown here: the largest below it
        (4, (4, 30)),
        (6, (6, 35)),  # the latest ends at the log's end
        (9, (6, 35)),  # newer than all: the largest we know, and its end
    ],
)
def test_where_an_epoch_ends(asked: int, answer: tuple[int, int]) -> None:
    assert cache([(2, 10), (4, 20), (6, 30)]).end_offset_for(asked, 35) == answer


def test_without_entries_no_epoch_ends() -> None:
    assert cache([]).end_offset_for(3, 10) == (-1, -1)


@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        ([], (5, 100), [(5, 100)]),
        ([(5, 100)], (6, 150), [(5, 100), (6, 150)]),
        ([(5, 100)], (5, 150), [(5, 100)]),  # it had begun already
        ([(5, 100)], (6, 100), [(6, 100)]),  # epoch 5 never appended
        ([(4, 50), (5, 100)], (6, 90), [(4, 50), (6, 90)]),  # what lay beyond is contradicted
        ([(4, 50), (7, 100)], (6, 120), [(4, 50), (6, 120)]),
        ([(4, 50), (5, 100)], (4, 100), [(4, 50)]),  # a follower appends an older epoch where 5 never did
    ],
)
def test_an_assignment_removes_what_contradicts_it(before: Entries, assigned: tuple[int, int], after: Entries) -> None:
    made = cache(before)
    made.assign(*assigned)
    assert made.entries == after


@pytest.mark.parametrize(
    ("offset", "after"),
    [(5, []), (10, []), (11, [(2, 10)]), (20, [(2, 10)]), (30, [(2, 10), (4, 20)]), (31, [(2, 10), (4, 20), (6, 30)])],
)
def test_truncation_forgets_epochs_that_begin_at_or_after_it(offset: int, after: Entries) -> None:
    made = cache([(2, 10), (4, 20), (6, 30)])
    made.truncate_from_end(offset)
    assert made.entries == after


@pytest.mark.parametrize(
    ("offset", "after"),
    [
        (10, [(2, 10), (4, 20), (6, 30)]),
        (15, [(2, 15), (4, 20), (6, 30)]),
        (20, [(4, 20), (6, 30)]),
        (25, [(4, 25), (6, 30)]),
        (99, [(6, 99)]),
    ],
)
def test_a_later_log_start_forgets_epochs_that_ended(offset: int, after: Entries) -> None:
    made = cache([(2, 10), (4, 20), (6, 30)])
    made.truncate_from_start(offset)
    assert made.entries == after


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (19, 2), (20, 4), (1000, 6)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int | None) -> None:
    assert cache([(2, 10), (4, 20), (6, 30)]).epoch_of(offset) == epoch


def test_an_assignment_is_written_only_before_something_relies_on_it() -> None:
    """P14: a broker takes over thousands of topic-partitions without waiting for as many fsyncs."""
    disk = SimDisk(Random(3))
    made = cache([(2, 10), (4, 20)], disk)
    made.settle(10)
    assert not disk.exists("t-0/leader-epoch-checkpoint"), "nothing began before offset 10"
    made.settle(11)
    disk.lose_power()
    assert LeaderEpochCache(disk, "t-0").entries == [(2, 10), (4, 20)]


def test_what_is_settled_is_not_written_again() -> None:
    disk = SimDisk(Random(3))
    made = cache([(2, 10)], disk)
    made.settle(20)
    disk.remove("t-0/leader-epoch-checkpoint")
    made.settle(30)
    assert not disk.exists("t-0/leader-epoch-checkpoint")


def test_the_file_is_kafkas_text_format() -> None:
    disk = SimDisk(Random(3))
    cache([(2, 10), (4, 20)], disk).save()
    assert bytes(disk.open("t-0/leader-epoch-checkpoint").read(0, 100)) == b"0\n2\n2 10\n4 20\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "line 1 must be the version"),
        (b"7\n0\n", "line 1 must be the version"),
        (b"0\n2\n1 2\n", "promises 2 entries, there are 1"),
        (b"0\n1\n1 2 3\n", "line 3 has 3 fields, expected 2"),
        (b"0\n1\none two\n", "two integers"),
    ],
)
def test_a_damaged_file_is_reported_never_guessed(content: bytes, problem: str) -> None:
    disk = SimDisk(Random(3))
    disk.open("t-0/leader-epoch-checkpoint", create=True).append(content)
    with pytest.raises(CorruptFile, match=problem) as caught:
        LeaderEpochCache(disk, "t-0")
    assert "t-0/leader-epoch-checkpoint" in str(caught.value)
