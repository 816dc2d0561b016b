"""Of many files few are open, and nobody who reads or writes them notices."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from squall.nodes.server.disk import RealDisk, RealFile
from squall.nodes.server.open_files import OpenFiles


def descriptors(directory: Path) -> int:
    """How many of this process refer to files below `directory`: other tests' threads open and close their own."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(descriptor.readlink())
    return sum(target.is_relative_to(directory) for target in targets)


def test_many_files_take_few_descriptors(tmp_path: Path) -> None:
    """A topic of 1 200 topic-partitions used up a process's descriptors."""
    disk = RealDisk(tmp_path, open_files_max=10)
    files = [disk.open(f"{number}", create=True) for number in range(300)]
    assert descriptors(tmp_path) <= 10
    rng = Random(1)
    expected = [b""] * 300
    for step in range(2000):
        at = rng.randrange(300)
        if rng.random() < 0.6:
            files[at].append(b"%d," % step)
            expected[at] += b"%d," % step
        elif rng.random() < 0.2:
            size = rng.randint(0, len(expected[at]))
            files[at].truncate(size)
            expected[at] = expected[at][:size]
        else:
            assert files[at].read(0, 1 << 20) == expected[at]
            assert files[at].size() == len(expected[at])
        assert descriptors(tmp_path) <= 10
    for file in files:
        file.close()
    assert descriptors(tmp_path) == 0


def test_a_file_in_use_stays_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, open_files_max=3)
    busy = disk.open("busy", create=True)
    descriptor = busy._descriptor
    for number in range(20):
        busy.append(b"x")
        disk.open(f"{number}", create=True)
        assert busy._open_descriptor == descriptor


def test_what_was_written_is_synced_before_its_descriptor_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of a failed write-back once, to whoever has the file open."""
    synced: list[int] = []
    monkeypatch.setattr("squall.nodes.server.disk._sync_content", synced.append)
    disk = RealDisk(tmp_path, open_files_max=2)
    written, clean = disk.open("written", create=True), disk.open("clean", create=True)
    written.append(b"x")
    descriptor = written._open_descriptor
    others = [disk.open(f"{number}", create=True) for number in range(6)]
    assert written._open_descriptor == clean._open_descriptor == -1
    assert synced == [descriptor]
    assert others


def test_a_closed_file_is_not_opened_again(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).open("one", create=True)
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.read(0, 1)
    file.close()
    assert isinstance(file, RealFile)


def test_fewer_than_two_open_files_are_no_limit_to_work_with() -> None:
    with pytest.raises(ValueError, match="at least two"):
        OpenFiles(1)
