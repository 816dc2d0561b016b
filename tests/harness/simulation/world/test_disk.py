"""The simulated disk: what survives a crash, what survives a power loss, and where a crash may strike."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from squall.harness.simulation.world.disk import SECTOR, CrashNow, Disturbance, InjectedError, SimDisk


def synced(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.append(content)
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


@pytest.mark.parametrize("seed", range(20))
def test_torn_power_loss_keeps_synced_data_and_a_prefix_lacking_sectors(seed: int) -> None:
    disk = SimDisk(Random(seed))
    written = b"safe" + bytes(range(1, 256)) * 16
    synced(disk, "log/0", written[:4])
    disk.open("log/0").append(written[4:])
    disk.lose_power("torn")
    left = content(disk, "log/0")
    assert left.startswith(b"safe") and len(left) <= len(written)
    for start in range(0, len(left), SECTOR):
        first, last = max(4, start), min(start + SECTOR, len(left))
        assert left[first:last] in (written[first:last], bytes(last - first))


def test_a_torn_power_loss_also_loses_sectors_in_the_middle() -> None:
    holes = 0
    for seed in range(20):
        disk = SimDisk(Random(seed))
        synced(disk, "f", b"")
        disk.open("f").append(b"x" * 10 * SECTOR)
        disk.lose_power("torn")
        holes += b"\0" in content(disk, "f")
    assert 3 < holes < 17


def test_a_torn_power_loss_may_end_between_two_writes() -> None:
    ends = set()
    for seed in range(100):
        disk = SimDisk(Random(seed))
        synced(disk, "f", b"s")
        for _ in range(3):
            disk.open("f").append(b"x" * 40, b"y" * 60)
        disk.lose_power("torn")
        if (left := content(disk, "f")) and b"\0" not in left:
            ends.add(len(left))
    assert {1, 101, 201, 301} <= ends
    assert len(ends) > 10


def test_an_end_of_a_write_is_forgotten_with_what_is_cut_off() -> None:
    for seed in range(30):
        disk = SimDisk(Random(seed))
        synced(disk, "f", b"s")
        file = disk.open("f")
        file.append(b"x" * 100)
        file.append(b"x" * 100)
        file.truncate(51)
        file.append(b"y")
        disk.lose_power("torn")
        assert len(content(disk, "f")) <= 52


def test_bytes_are_durable_with_the_name_of_their_file() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("log/0", create=True)
    file.append(b"1234")
    file.sync()
    file.append(b"5")
    assert disk.durable_bytes("log/0") == 0
    disk.sync_directory("log")
    assert (disk.durable_bytes("log/0"), disk.durable_bytes("log/1")) == (4, 0)
    disk.rename("log/0", "log/1")
    assert (disk.durable_bytes("log/0"), disk.durable_bytes("log/1")) == (0, 0)


def test_a_removed_file_may_return_until_its_directory_is_synced() -> None:
    disk = SimDisk(Random(1))
    for path in ("log/0", "log/1", "other/0"):
        disk.open(path, create=True).close()
    assert disk.returning("log") == []
    disk.sync_directory("")
    disk.remove("log/0")
    disk.remove("other/0")
    assert disk.returning("log") == ["log/0"]
    disk.open("log/0", create=True).close()
    assert disk.returning("log") == ["log/0"], "the removed file may return in place of the new one"
    disk.sync_directory("log")
    assert disk.returning("log") == []
    disk.lose_power("all")
    assert disk.paths() == ("log/0", "log/1", "other/0")


def test_a_whole_power_loss_leaves_exactly_what_was_synced() -> None:
    disk = SimDisk(Random(1))
    synced(disk, "kept", b"abcdef")
    disk.open("kept").truncate(2)
    disk.open("kept").append(b"new")
    disk.open("unsynced name", create=True).sync()
    disk.rename("kept", "moved")
    assert disk.lose_power("all") > 0
    assert disk.list("") == ["kept"]
    assert content(disk, "kept") == b"abcdef"


def test_a_power_loss_of_which_everything_survives_makes_it_durable() -> None:
    disk = SimDisk(Random(1))
    disk.open("f", create=True).append(b"written")
    assert disk.lose_power("none") == 0
    assert disk.lose_power("all") == 0
    assert content(disk, "f") == b"written"


def test_the_bytes_that_a_power_loss_took_are_counted() -> None:
    disk = SimDisk(Random(1))
    synced(disk, "f", b"1234")
    disk.open("f").append(b"567")
    assert disk.lose_power("all") == 3 == disk.bytes_lost


def test_a_wiped_disk_is_empty_for_good() -> None:
    disk = SimDisk(Random(1))
    synced(disk, "f", b"1234")
    assert disk.wipe() == 4
    disk.lose_power("none")
    assert disk.files == 0 and not disk.exists("f")


@pytest.mark.parametrize(
    "kind", ["write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory", "read"]
)
def test_only_the_named_kind_of_call_fails_and_only_while_the_fault_is_open(kind: str) -> None:
    disk = SimDisk(Random(1))
    synced(disk, "f", b"1234")
    synced(disk, "g", b"")
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: disk.open("f").append(b"5"),
        "read": lambda: disk.open("f").read(0, 1),
        "truncate": lambda: disk.open("f").truncate(1),
        "fsync": lambda: disk.open("f").sync(),
        "create": lambda: disk.open("new", create=True),
        "rename": lambda: disk.rename("g", "h"),
        "fsync-directory": lambda: disk.sync_directory(""),
        "remove": lambda: disk.remove("f"),
    }
    fault = Disturbance(frozenset([kind]), error=errno.EIO)
    disk.disturb("fault", fault)
    for name, call in calls.items():
        if name == kind:
            with pytest.raises(InjectedError) as raised:
                call()
            assert raised.value.errno == errno.EIO
        elif name != "remove":
            call()
    assert fault.met == 1 == disk.errors and disk.failing
    disk.undisturb("fault")
    calls[kind]()
    assert not disk.failing


def test_calls_fail_with_the_probability_of_the_fault() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("f", create=True)
    fault = Disturbance(frozenset(["fsync"]), error=errno.EIO, probability=0.1)
    disk.disturb("fault", fault)
    for _ in range(1000):
        with suppress(InjectedError):
            file.sync()
    assert 50 < fault.met < 200


def test_a_failed_write_leaves_a_random_part_of_itself_behind() -> None:
    left = set()
    for seed in range(20):
        disk = SimDisk(Random(seed))
        file = disk.open("f", create=True)
        disk.disturb("full", Disturbance(frozenset(["write"]), error=errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            file.append(b"abc", b"def")
        disk.undisturb("full")
        assert b"abcdef".startswith(content(disk, "f"))
        left.add(disk.open("f").size())
    assert {0, 6} < left


def test_a_failed_fsync_makes_nothing_durable() -> None:
    disk = SimDisk(Random(1))
    synced(disk, "f", b"1234")
    disk.open("f").append(b"5")
    disk.disturb("fault", Disturbance(frozenset(["fsync"]), error=errno.EIO))
    with pytest.raises(InjectedError):
        disk.open("f").sync()
    disk.lose_power("all")
    assert content(disk, "f") == b"1234"


def test_a_lying_fsync_makes_nothing_durable_and_the_next_honest_one_does() -> None:
    disk = SimDisk(Random(1))
    synced(disk, "f", b"1234")
    lie = Disturbance(frozenset(["fsync", "fsync-directory"]), lie=True)
    disk.disturb("lie", lie)
    disk.open("f").append(b"5")
    disk.open("f").sync()
    disk.open("new", create=True).sync()
    disk.sync_directory("")
    assert lie.met == 3 and disk.unsynced_bytes == 1
    disk.lose_power("all")
    assert content(disk, "f") == b"1234" and not disk.exists("new")
    disk.undisturb("lie")
    disk.open("f").append(b"5")
    disk.open("f").sync()
    disk.lose_power("all")
    assert content(disk, "f") == b"12345"


@pytest.mark.parametrize(("pattern", "hit"), [("a/*", True), ("*.log", True), ("b/*", False)])
def test_a_fault_may_be_about_files_of_some_names_only(pattern: str, hit: bool) -> None:
    disk = SimDisk(Random(1))
    file = disk.open("a/1.log", create=True)
    fault = Disturbance(frozenset(["write", "create"]), delay=1, path=pattern)
    disk.disturb("fault", fault)
    file.append(b"x")
    disk.open("a/2.log", create=True)
    assert fault.met == (2 if hit else 0)


def test_a_slow_disk_costs_its_process_the_time_of_each_call() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("f", create=True)
    fault = Disturbance(frozenset(["write"]), delay=50_000)
    disk.disturb("slow", fault)
    file.append(b"x")
    file.append(b"x")
    file.read(0, 1)
    assert disk.is_slow and disk.take_slowness() == 100_000 and fault.met == 2
    assert 0 < disk.take_cost() < 10_000
    disk.undisturb("slow")
    assert not disk.is_slow


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


def test_a_crash_may_strike_at_one_kind_of_call_only() -> None:
    disk = SimDisk(Random(1))
    file = disk.open("f", create=True)
    disk.crash_after, disk.crash_kind = 1, "fsync"
    file.append(b"x")
    file.sync()
    file.append(b"x")
    with pytest.raises(CrashNow):
        file.sync()


def test_directories_list_their_children_once_and_in_order() -> None:
    disk = SimDisk(Random(1))
    for path in ("b/1", "a/2", "a/1", "top"):
        disk.open(path, create=True)
    assert disk.list("") == ["a", "b", "top"]
    assert disk.list("a") == ["1", "2"]
    disk.rename("a", "c")
    assert disk.list("") == ["b", "c", "top"]
    assert disk.list("missing") == []


def test_an_observer_reads_in_the_middle_of_a_turn_at_no_cost() -> None:
    """Neither does the node pay for it, nor does a fault strike it."""
    disk = SimDisk(Random(1))
    file = disk.open("a", create=True)
    file.append(b"12345678")
    paid = disk.take_cost()
    assert paid > 0
    disk.disturb("fault", Disturbance(frozenset({"read"}), error=errno.EIO))
    with disk.at_no_cost():
        assert file.read(0, 8) == b"12345678"
    assert disk.in_use and disk.take_cost() == 0
    with pytest.raises(InjectedError):
        file.read(0, 8)


def test_names_that_earlier_processes_left_are_told_until_their_directory_is_synced() -> None:
    disk = SimDisk(Random(1))
    disk.open("t-0/1.log", create=True)
    assert disk.names_left() == []
    disk.note_start()
    disk.open("t-0/2.log", create=True)
    assert disk.names_left() == ["t-0/1.log"]
    disk.sync_directory("t-0")
    assert disk.names_left() == []
