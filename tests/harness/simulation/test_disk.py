"""The simulated disk: what survives a crash, what survives a power loss, and where a crash may strike."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.disk import CrashNow, SimDisk


def synced(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.append(content)
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_keeps_what_was_synced_and_a_prefix_of_the_rest(seed: int) -> None:
    disk = SimDisk(Random(seed))
    synced(disk, "log/0", b"safe")
    disk.open("log/0").append(b"-unsafe")
    disk.lose_power()
    left = content(disk, "log/0")
    assert left.startswith(b"safe") and b"safe-unsafe".startswith(left)


def test_different_seeds_tear_at_different_bytes() -> None:
    sizes = []
    for seed in range(20):
        disk = SimDisk(Random(seed))
        synced(disk, "f", b"")
        disk.open("f").append(bytes(1000))
        disk.lose_power()
        sizes.append(disk.open("f").size())
    assert len(set(sizes)) > 5


@pytest.mark.parametrize("seed", range(20))
def test_a_name_that_was_never_synced_may_vanish_and_a_synced_one_does_not(seed: int) -> None:
    disk = SimDisk(Random(seed))
    synced(disk, "kept", b"1")
    disk.open("new", create=True).sync()
    disk.lose_power()
    assert disk.exists("kept")


@pytest.mark.parametrize("seed", range(20))
def test_an_unsynced_rename_is_whole_or_undone(seed: int) -> None:
    disk = SimDisk(Random(seed))
    synced(disk, "state", b"old")
    synced(disk, "state.tmp", b"new")
    disk.rename("state.tmp", "state")
    disk.lose_power()
    assert content(disk, "state") == (b"old" if disk.exists("state.tmp") else b"new")


def test_an_unsynced_truncation_is_kept_or_undone() -> None:
    results = set()
    for seed in range(20):
        disk = SimDisk(Random(seed))
        synced(disk, "f", b"abcdef")
        disk.open("f").truncate(2)
        disk.lose_power()
        results.add(content(disk, "f"))
    assert results == {b"ab", b"abcdef"}


def test_a_crash_strikes_before_the_counted_call_and_cannot_be_swallowed() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("f", create=True)
    disk.crash_after = 1
    file.append(b"x")
    with pytest.raises(CrashNow):
        try:
            file.sync()
        except Exception:
            pytest.fail("a handler of Exception must not see it")
    assert content(disk, "f") == b"x"


def test_directories_list_their_children_once_and_in_order() -> None:
    disk = SimDisk(Random(1))
    for path in ("b/1", "a/2", "a/1", "top"):
        disk.open(path, create=True)
    assert disk.list("") == ["a", "b", "top"]
    assert disk.list("a") == ["1", "2"]
    disk.rename("a", "c")
    assert disk.list("") == ["b", "c", "top"]
    assert disk.list("missing") == []
