"""The small files beside the logs: whole or old after a crash, never guessed when damaged."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from squall.harness.simulation.world.disk import CrashNow, SimDisk
from squall.nodes.storage import checkpoints
from squall.nodes.storage.errors import CorruptFile
from tests.facts import naming


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(5))


def test_offsets_come_back_as_written(disk: SimDisk) -> None:
    offsets = {("orders", 10): 7, ("orders", 2): 1 << 40, ("a-b.c_d", 0): 0}
    checkpoints.write_offsets(disk, checkpoints.HIGH_WATERMARKS, offsets)
    assert checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS) == offsets
    assert disk.open(checkpoints.HIGH_WATERMARKS).read(0, 200).splitlines()[:3] == [b"0", b"3", b"a-b.c_d 0 0"]


def test_a_file_that_is_not_there_is_empty(disk: SimDisk) -> None:
    assert checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS) == {}
    assert checkpoints.read_properties(disk, checkpoints.META_PROPERTIES) is None


@pytest.mark.parametrize("calls", range(8))
def test_a_crash_while_writing_leaves_the_old_or_the_new_file(disk: SimDisk, calls: int) -> None:
    old, new = {("t", 0): 1}, {("t", 0): 2, ("t", 1): 3}
    checkpoints.write_offsets(disk, "f", old)
    disk.crash_after = calls
    with contextlib.suppress(CrashNow):
        checkpoints.write_offsets(disk, "f", new)
    disk.crash_after = None
    disk.lose_power()
    assert checkpoints.read_offsets(disk, "f") in (old, new)


def test_a_value_that_is_no_offset_is_reported(disk: SimDisk) -> None:
    disk.open("f", create=True).append(b"0\n1\nt 0 many\n")
    with pytest.raises(CorruptFile, match=naming("f: t 0 'many'", "offset")):
        checkpoints.read_offsets(disk, "f")


def test_properties_come_back_as_written(disk: SimDisk) -> None:
    properties = {"version": "1", "node.id": "3", "cluster.id": "a=b"}
    checkpoints.write_properties(disk, checkpoints.META_PROPERTIES, properties)
    assert checkpoints.read_properties(disk, checkpoints.META_PROPERTIES) == properties


def test_a_property_without_a_value_is_reported_with_its_line(disk: SimDisk) -> None:
    disk.open("meta.properties", create=True).append(b"# made by hand\nnode.id\n")
    with pytest.raises(CorruptFile, match=r"line 2 'node\.id' has no '='"):
        checkpoints.read_properties(disk, "meta.properties")


@pytest.mark.parametrize("calls", range(4))
def test_a_marker_once_missed_never_comes_back(disk: SimDisk, calls: int) -> None:
    """FD-03: a start died while it consumed the marker; the next one found none, wrote records, and lost power."""
    checkpoints.mark_clean_shutdown(disk, "")
    disk.crash_after = calls
    with contextlib.suppress(CrashNow):
        checkpoints.take_clean_shutdown(disk, "")
    disk.crash_after = None
    if checkpoints.take_clean_shutdown(disk, "") is None:
        disk.lose_power("all")
        assert checkpoints.take_clean_shutdown(disk, "") is None


def test_the_clean_shutdown_marker_counts_once(disk: SimDisk) -> None:
    assert checkpoints.take_clean_shutdown(disk, "") is None
    checkpoints.mark_clean_shutdown(disk, "", "epoch 17")
    assert checkpoints.take_clean_shutdown(disk, "") == "epoch 17"
    disk.lose_power()
    assert checkpoints.take_clean_shutdown(disk, "") is None
