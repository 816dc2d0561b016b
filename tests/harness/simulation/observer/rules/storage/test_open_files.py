"""FILES as the observer asserts it: a node closes its files, and leaves open ones where they are."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.open_files import OpenFiles
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk

PATH = "t-0/00000000000000000007.log"
UNFINISHED = "m-0/00000000000000000007-0000000001.checkpoint.part"


class Host:
    """A host whose process has a segment open."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        self.file = self.disk.open(PATH, create=True)
        self.process: Any = SimpleNamespace(name="b1", how_it_ended="stopped", disk=self.disk, node=SimpleNamespace())
        self.rule = OpenFiles(SimpleNamespace(processes={"b1": self.process}))  # type: ignore[arg-type]

    def stop(self) -> None:
        self.rule.died(self.process)


def test_a_node_that_stops_with_an_open_file_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=rf"^FILES: b1 has stopped, and has not closed 1 of its files: {PATH}"):
        Host().stop()


def test_a_node_that_has_closed_its_files_is_sound() -> None:
    host = Host()
    host.file.close()
    host.stop()


@pytest.mark.parametrize("ended", ["died", "died while it closed"])
def test_the_host_closes_the_files_of_a_process_that_dies(ended: str) -> None:
    host = Host()
    host.process.how_it_ended = ended
    host.stop()


def test_the_next_process_has_no_file_open() -> None:
    host = Host()
    host.disk.note_start()
    host.stop()


def test_a_file_that_is_opened_again_while_it_is_open_breaks_it() -> None:
    host = Host()
    host.disk.open(PATH).close()
    with pytest.raises(InvariantBroken, match=rf"^FILES: b1 had a file open: {PATH} was opened again"):
        host.rule.at_end()


def test_what_the_observer_reads_counts_for_nothing() -> None:
    host = Host()
    host.disk.in_use = False
    host.disk.open(PATH).read(0, 1)
    host.rule.at_end()


def test_a_file_may_be_opened_again_once_it_is_closed() -> None:
    host = Host()
    host.file.close()
    host.disk.open(PATH).close()
    host.stop()


@pytest.mark.parametrize(
    ("deed", "misuse"),
    [
        (lambda disk: disk.remove(PATH), f"{PATH} was removed"),
        (lambda disk: disk.remove_tree("t-0"), f"{PATH} was removed"),
        (lambda disk: disk.rename(PATH, "t-0/other"), f"{PATH} was renamed"),
        (lambda disk: disk.rename("t-0", "t-0.deleted"), f"{PATH} was renamed"),
    ],
)
def test_an_open_file_that_is_removed_or_renamed_breaks_it(deed: Any, misuse: str) -> None:
    host = Host()
    deed(host.disk)
    host.process.how_it_ended = "died"
    with pytest.raises(InvariantBroken, match=misuse):
        host.stop()


def test_an_open_file_that_is_replaced_breaks_it() -> None:
    host = Host()
    host.disk.open("t-0/new", create=True).close()
    host.disk.rename("t-0/new", PATH)
    with pytest.raises(InvariantBroken, match=f"{PATH} was replaced"):
        host.rule.at_end()


def test_a_closed_file_may_be_renamed_and_removed() -> None:
    host = Host()
    host.file.close()
    host.disk.rename(PATH, "t-0/other")
    host.disk.remove("t-0/other")
    host.stop()


# -- unfinished files -------------------------------------------------------------------------------------------------


def unfinished(*, closed: bool = True) -> Host:
    """A host whose process has begun a snapshot, and has closed all other files."""
    host = Host()
    host.file.close()
    part = host.disk.open(UNFINISHED, create=True)
    if closed:
        part.close()
    return host


def test_an_unfinished_file_that_nobody_writes_any_more_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=rf"^FILES: b1 has left 1 unfinished files: {UNFINISHED}"):
        unfinished().stop()
    with pytest.raises(InvariantBroken, match=r"^FILES: b1 has left 1 unfinished files"):
        unfinished().rule.at_end()


def test_one_that_is_being_written_at_the_end_of_a_run_is_sound() -> None:
    unfinished(closed=False).rule.at_end()


def test_a_process_that_dies_may_leave_one() -> None:
    host = unfinished()
    host.process.how_it_ended = "died"
    host.stop()
    host.process.node = None
    host.rule.at_end()


def test_a_disk_whose_calls_have_failed_may_keep_one() -> None:
    host = unfinished()
    host.disk.errors = 1
    host.stop()
    host.rule.at_end()
