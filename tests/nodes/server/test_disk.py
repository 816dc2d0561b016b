"""The real disk keeps the contract of `nodes.ports.Disk`, and the log lives on it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.server.deferred_closer import LARGE_BYTES, DeferredCloser
from squall.nodes.server.disk import IOV_MAX, RealDisk
from squall.nodes.storage.log import Log, LogConfig
from tests.waiting import wait_until


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(tmp_path / "data")


def test_appends_are_read_back_and_fewer_bytes_come_only_at_the_end(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.append(b"one", bytearray(b"two"), memoryview(b"three"))
    file.append(b"four")
    assert (file.size(), file.read(3, 8), file.read(11, 100), file.read(99, 1)) == (15, b"twothree", b"four", b"")


def test_more_chunks_than_one_call_takes(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.append(*[b"%04d" % at for at in range(IOV_MAX * 2 + 3)])
    assert file.read(4 * IOV_MAX * 2, 100) == b"204820492050"


def test_a_short_write_is_continued(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:2], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, views, at: pwritev(fd, [bytes(views[0])[:3]], at))
    file = disk.open("a", create=True)
    file.append(b"0123456789")
    file.append(b"abcde", b"fgh")
    assert file.read(0, 100) == b"0123456789abcdefgh"


def test_truncation_moves_the_end(disk: RealDisk) -> None:
    file = disk.open("a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"x")
    file.sync()
    assert disk.open("a").read(0, 100) == b"0123x" and disk.open("a").size() == 5


def test_names(disk: RealDisk) -> None:
    disk.make_directory("d/e")
    disk.make_directory("d/e")
    disk.open("d/b", create=True).close()
    disk.open("d/a", create=True).append(b"1")
    assert disk.list("d") == ["a", "b", "e"] and disk.list("nowhere") == []
    disk.rename("d/a", "d/b")
    assert disk.list("d") == ["b", "e"] and disk.open("d/b").read(0, 9) == b"1"
    disk.rename("d", "f")
    assert disk.exists("f/b") and not disk.exists("d")
    disk.sync_directory("f")
    disk.sync_directory("")
    disk.remove("f/b")
    disk.remove_tree("f")
    disk.remove_tree("f")
    assert disk.list("") == []


def test_a_file_that_is_not_there_is_an_error(disk: RealDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    with pytest.raises(FileNotFoundError):
        disk.remove("a")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.."])
def test_no_path_leads_out_of_the_root(disk: RealDisk, path: str) -> None:
    with pytest.raises(ValueError, match="must be relative"):
        disk.open(path, create=True)
    with pytest.raises(ValueError, match="must be relative"):
        disk.remove_tree(path)


def test_the_root_cannot_be_removed(disk: RealDisk) -> None:
    disk.open("a", create=True).close()
    disk.remove_tree("")
    assert disk.exists("a")


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_survives_on_it(disk: RealDisk, clean: bool) -> None:
    config = LogConfig(segment_bytes=2000)
    log = Log.open(disk, "t-0", config, now_ms=0, trace=NullTrace())
    for _ in range(50):
        log.append_as_leader(build_batch([Record(value=b"x" * 50)] * 3), 1, 0)
    if clean:
        log.close()
    again = Log.open(disk, "t-0", config, now_ms=0, trace=NullTrace(), clean_shutdown=clean)
    assert again.end_offset == 150 and len(list(again.batches(0, 150))) == 50
    assert len([name for name in disk.list("t-0") if name.endswith(".log")]) > 1
    again.delete()
    assert disk.list("") == []


def held_files() -> list[str]:
    """What this process has open although its name is gone."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(one.readlink()))
    return [one for one in found if one.endswith(" (deleted)")]


def test_large_files_are_gone_by_name_at_once_and_soon_by_content(disk: RealDisk, tmp_path: Path) -> None:
    for name in ("topic-0/1.log", "topic-0/2.log", "3.log"):
        disk.make_directory("topic-0")
        file = disk.open(name, create=True)
        file.append(bytes(LARGE_BYTES))
        file.close()
    disk.remove("3.log")
    disk.remove_tree("topic-0")
    assert list((tmp_path / "data").rglob("*")) == []
    wait_until(lambda: not any(str(tmp_path) in one for one in held_files()), held_files, every=0.001)


def test_what_is_small_absent_or_more_than_may_be_held_is_not_held(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(bytes(LARGE_BYTES))
    small.write_bytes(b"small")
    held = DeferredCloser().hold(large)
    assert held is not None
    os.close(held)
    assert DeferredCloser().hold(small) is None
    assert DeferredCloser().hold(tmp_path / "absent") is None
    assert DeferredCloser(most=0).hold(large) is None
