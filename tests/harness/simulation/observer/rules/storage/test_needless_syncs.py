"""SYNC as the observer asserts it: a process syncs a file again only after it has changed it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.needless_syncs import NeedlessSyncs
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import Disturbance, InjectedError, SimDisk

PATH = "t-0/00000000000000000000.log"


class Host:
    """A host whose process has written a file and synced it."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        self.file = self.disk.open(PATH, create=True)
        self.file.append(b"one")
        self.file.sync()
        self.process: Any = SimpleNamespace(name="b1", disk=self.disk)
        self.rule = NeedlessSyncs(SimpleNamespace(processes={"b1": self.process}))  # type: ignore[arg-type]


@pytest.mark.parametrize("judge", [lambda host: host.rule.at_end(), lambda host: host.rule.died(host.process)])
def test_a_second_sync_without_a_change_breaks_it(judge: Callable[[Host], None]) -> None:
    host = Host()
    judge(host)
    host.file.sync()
    with pytest.raises(InvariantBroken, match=rf"^SYNC: b1 has synced {PATH} twice .*, and 0 more$"):
        judge(host)


@pytest.mark.parametrize("change", [lambda file: file.append(b"two"), lambda file: file.truncate(1)])
def test_what_has_changed_may_be_synced_again(change: Callable[[Any], None]) -> None:
    host = Host()
    change(host.file)
    host.file.sync()
    host.rule.at_end()


def test_another_open_file_of_the_same_path_is_the_same_file() -> None:
    host = Host()
    host.file.close()
    host.disk.open(PATH).sync()
    with pytest.raises(InvariantBroken, match=r"^SYNC"):
        host.rule.at_end()


def test_a_process_does_not_know_what_an_earlier_one_has_synced() -> None:
    host = Host()
    host.disk.note_start()
    host.disk.open(PATH).sync()
    host.rule.at_end()


def test_a_sync_that_failed_may_be_repeated() -> None:
    host = Host()
    host.file.append(b"two")
    host.disk.disturb("full", Disturbance(frozenset({"fsync"}), error=5))
    with pytest.raises(InjectedError):
        host.file.sync()
    host.disk.undisturb("full")
    host.file.sync()
    host.rule.at_end()


def test_what_the_host_has_written_back_may_be_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    monkeypatch.setattr(host.disk, "writes_back", lambda: True)
    host.file.append(b"two")
    host.file.sync()
    host.rule.at_end()
