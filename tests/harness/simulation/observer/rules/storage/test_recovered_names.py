"""DURABLE as the observer asserts it of names: a process makes durable the names that it finds."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.recovered_names import RecoveredNames
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk

SEGMENT = "t-0/00000000000000000007.log"


class Host:
    """A host whose process has died after it created a segment."""

    def __init__(self, path: str = SEGMENT) -> None:
        self.rule = RecoveredNames(None)  # type: ignore[arg-type]
        self.disk = SimDisk(Random(1))
        self.process: Any = SimpleNamespace(name="b1", incarnation=2, disk=self.disk)
        self.disk.open(path, create=True)
        self.disk.note_start()

    def turn(self) -> None:
        self.rule.turned(self.process, None)  # type: ignore[arg-type]


def test_a_name_that_was_found_and_is_not_durable_breaks_durable() -> None:
    with pytest.raises(InvariantBroken, match=r"^DURABLE: b1 has started, and a power loss would take away .*7\.log"):
        Host().turn()


def test_a_name_that_was_renamed_breaks_it_as_well() -> None:
    host = Host("t-0/quorum-state.tmp")
    host.disk.rename("t-0/quorum-state.tmp", "t-0/quorum-state")
    host.disk.note_start()
    with pytest.raises(InvariantBroken, match=r"\['t-0/quorum-state'\]"):
        host.turn()


def test_names_are_durable_once_their_directory_is_synced() -> None:
    host = Host()
    host.disk.sync_directory("t-0")
    host.turn()


def test_names_that_the_new_process_has_created_are_its_own() -> None:
    host = Host()
    host.disk.sync_directory("t-0")
    host.disk.open("t-0/00000000000000000009.log", create=True)
    host.turn()


def test_what_the_new_process_has_removed_need_not_be_durable() -> None:
    host = Host()
    host.disk.remove(SEGMENT)
    host.turn()


def test_files_beside_the_logs_are_written_anew() -> None:
    Host("recovery-point-offset-checkpoint").turn()


def test_a_disk_that_was_wiped_has_promised_nothing() -> None:
    host = Host()
    host.disk.keeps_promises = False
    host.turn()


def test_only_the_first_turn_is_judged() -> None:
    host = Host()
    host.disk.sync_directory("t-0")
    host.turn()
    host.disk.open(SEGMENT + ".later", create=True)
    host.disk.note_start()
    host.turn()
