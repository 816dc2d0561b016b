"""INDEX as the observer asserts it of files: after a clean stop each entry names a batch of its segment."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from squall.harness.simulation.observer.rules.storage.index_files import IndexFiles
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.node.base import BaseNode
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.log import Log

TIMES = (5, 9, 7, 12, 20)
"""One batch each, of two records; the third is older than the one before."""
SIZE = len(build_batch([Record(timestamp=5, value=b"v")] * 2))
INDEX, TIME_INDEX = "t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex"
SECOND_INDEX = "t-0/00000000000000000008.index"
SECOND_TIME_INDEX = "t-0/00000000000000000008.timeindex"


class Host:
    """A host whose node has stopped cleanly, with a log of two segments."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        settings = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=0)
        log = Log.open(self.disk, "t-0", settings, now_ms=0, trace=NullTrace())
        for time in TIMES:
            log.append_as_leader(build_batch([Record(timestamp=time, value=b"v")] * 2), 1, 0)
        log.close()
        self.process: Any = SimpleNamespace(name="b1", how_it_ended="stopped", disk=self.disk)

    def change(self, path: str, change: Callable[[bytearray], None]) -> None:
        content = bytearray(self.disk.content(path) or b"")
        assert content, f"{path} has no entries"
        change(content)
        file = self.disk.open(path)
        file.truncate(0)
        file.append(content)
        file.close()

    def opens(self) -> None:
        rule = IndexFiles(ObservedCluster())
        rule.traced("log_opened", {"log": "t-0", "start": 0, "end": 10, "clean": True})
        rule.turned(self.process, cast("BaseNode", None))

    def stops(self, *, opened: bool = True, lost_power: bool = False) -> None:
        cluster = ObservedCluster()
        cluster.processes = {"b1": self.process}
        rule, node = IndexFiles(cluster), cast("BaseNode", None)
        if lost_power:
            rule.power_lost("b1")
        if opened:
            rule.traced("log_opened", {"log": "t-0", "start": 0, "end": 10, "clean": True})
        rule.turned(self.process, node)
        rule.died(self.process)


def put(form: str, at: int, *values: int) -> Callable[[bytearray], None]:
    return lambda content: struct.pack_into(form, content, at, *values)


def test_the_files_of_a_log_are_sound() -> None:
    Host().stops()


@pytest.mark.parametrize(
    ("path", "change", "wrong"),
    [
        (INDEX, put(">II", 0, 2, 0), f"{INDEX} has offset 2 at byte 0, where the batch that ends with offset 1 begins"),
        (INDEX, put(">II", 8, 3, SIZE + 1), f"has offset 3 at byte {SIZE + 1}, where no batch begins"),
        (TIME_INDEX, put(">qI", 0, 6, 1), f"{TIME_INDEX} has time 6 at offset 1"),
        (TIME_INDEX, put(">qI", 0, 5, 0), "the batch that ends there has None"),
        (TIME_INDEX, lambda content: content.extend(content[:12]), r"after \(12, 7\)"),
    ],
)
def test_an_entry_that_names_no_batch_breaks_it(path: str, change: Callable[[bytearray], None], wrong: str) -> None:
    host = Host()
    host.change(path, change)
    with pytest.raises(InvariantBroken, match=rf"^INDEX: b1 has stopped, and .*{wrong}"):
        host.stops()


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX, SECOND_TIME_INDEX])
def test_a_segment_without_its_files_breaks_it(path: str) -> None:
    host = Host()
    host.disk.remove(path)
    with pytest.raises(InvariantBroken, match=r"^INDEX: b1 has .* is missing"):
        host.stops()


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX])
def test_a_log_that_was_opened_has_an_index_of_each_segment_but_the_last(path: str) -> None:
    host = Host()
    host.disk.remove(SECOND_TIME_INDEX)
    host.opens()
    host.disk.remove(path)
    with pytest.raises(InvariantBroken, match=rf"^INDEX: b1 has opened t-0, and {path[4:]} is missing"):
        host.opens()


@pytest.mark.parametrize(("path", "cut"), [(INDEX, 3), (TIME_INDEX, 8)])
def test_a_torn_index_file_that_an_opening_leaves_breaks_it(path: str, cut: int) -> None:
    """A file cut off between two entries looks whole, so it proves nothing here."""
    host = Host()
    size = len(host.disk.content(path) or b"")
    host.disk.open(path).truncate(size - (8 if path == INDEX else 12))
    host.opens()
    host.disk.open(path).append(bytes(cut))
    with pytest.raises(InvariantBroken, match=rf"^INDEX: b1 has opened t-0, and left {path[4:]}, which ends within"):
        host.opens()


def test_the_index_files_of_the_last_segment_may_be_torn() -> None:
    """A log writes these anew when it rolls or is closed."""
    host = Host()
    host.disk.open(SECOND_TIME_INDEX).truncate(8)
    host.opens()


def test_a_segment_may_have_no_entry_in_its_index() -> None:
    """The rarity `index-entry-omitted` leaves entries out (`worlds` 17)."""
    host = Host()
    host.disk.open(INDEX).truncate(0)
    host.opens()


def test_a_disk_that_has_failed_may_lack_them() -> None:
    host = Host()
    host.disk.open(TIME_INDEX).truncate(8)
    host.disk.remove(INDEX)
    host.disk.errors = 1
    host.opens()


def damaged(host: Host) -> None:
    host.change(INDEX, put(">II", 0, 0, 0))


@pytest.mark.parametrize(("trouble", "value"), [("errors", 1), ("keeps_promises", False)])
def test_files_of_a_disk_that_fails_are_not_judged(trouble: str, value: int) -> None:
    host = Host()
    damaged(host)
    setattr(host.disk, trouble, value)
    host.stops()


def test_a_log_that_the_node_has_not_opened_is_as_it_found_it() -> None:
    host = Host()
    damaged(host)
    host.stops(opened=False)


def test_a_power_loss_before_the_last_start_is_no_excuse() -> None:
    host = Host()
    damaged(host)
    host.disk.bytes_lost = 8
    with pytest.raises(InvariantBroken, match=r"^INDEX: b1 has stopped"):
        host.stops()


@pytest.mark.parametrize("ended", ["died", "died while it closed"])
def test_a_node_that_dies_leaves_its_files_as_they_are(ended: str) -> None:
    host = Host()
    damaged(host)
    host.process.how_it_ended = ended
    host.stops()


def test_a_time_index_without_the_largest_time_breaks_index() -> None:
    host = Host()
    host.change(TIME_INDEX, lambda content: content.__delitem__(slice(-12, None)))
    told = rf"^INDEX: b1 has stopped, and {TIME_INDEX} ends with time 9, and the largest of its segment is 12$"
    with pytest.raises(InvariantBroken, match=told):
        host.stops()


def test_one_of_a_host_with_damaged_index_files_may_lack_it() -> None:
    host = Host()
    host.change(TIME_INDEX, lambda content: content.__delitem__(slice(-12, None)))
    host.disk.damaged_files = 1
    host.stops()


def test_one_that_a_power_loss_has_cut_may_lack_it() -> None:
    """Nobody syncs it, and a prefix is as correct as the whole."""
    host = Host()
    host.change(TIME_INDEX, lambda content: content.clear())
    host.stops(lost_power=True)
    host.change(SECOND_TIME_INDEX, put(">qI", 0, 21, 1))
    with pytest.raises(InvariantBroken, match=rf"^INDEX: b1 has stopped, and {SECOND_TIME_INDEX} has time 21"):
        host.stops(lost_power=True)


def test_an_entry_that_is_cut_off_is_none() -> None:
    host = Host()
    host.change(SECOND_INDEX, lambda content: content.extend(b"\0\0\0\7"))
    host.stops()


def test_a_segment_without_records_needs_no_files() -> None:
    host = Host()
    host.disk.open(INDEX.replace(".index", ".log")).truncate(0)
    host.disk.remove(INDEX)
    host.disk.remove(TIME_INDEX)
    host.stops()
