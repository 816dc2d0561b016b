"""A disk that lies: fsyncs succeed and are not done, which a power loss brings to light."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.disk import seccomp
from tests.waiting import wait_until

REASON = seccomp.why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

CHILD = """
import os, sys, time
data, ledger, report = sys.argv[1:]
name = os.path.join(data, "a.log")
file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
lines = open(ledger, "ab", buffering=0)
lines.write(b"u %d a.log\\n" % os.fstat(file).st_size)
while True:
    os.write(file, b"0123456789")
    began = time.monotonic()
    os.fdatasync(file)
    lines.write(b"s %d a.log\\n" % os.fstat(file).st_size)
    print(os.fstat(file).st_size, file=open(report, "a"), flush=True)
    time.sleep(0.01)
"""


class Writer:
    """A process that appends ten bytes, fsyncs and writes down so, again and again."""

    def __init__(self, agent: Any, directory: Path) -> None:
        self.agent, self.file = agent, directory / "data" / "a.log"
        self.report = directory / "report"
        self.file.parent.mkdir()
        ledger = directory / "ledger"
        argv = [sys.executable, "-u", "-c", CHILD, str(self.file.parent), str(ledger), str(self.report)]
        agent.define(argv, data=str(self.file.parent), ledger=str(ledger), disk_calls=["fsync"])
        agent.call("proc.start", name="node")
        self.goes_on()

    def goes_on(self, rounds: int = 5) -> int:
        """The size that it believes to be durable, some rounds later."""
        first = len(self._told())
        wait_until(lambda: len(self._told()) >= first + rounds, "it writes")
        return int(self._told()[-1])

    def _told(self) -> list[str]:
        return self.report.read_text().splitlines() if self.report.exists() else []

    def disk(self, id: str) -> dict[str, Any]:
        seen: dict[str, Any] = self.agent.call("probe.disk", id=id, name="node")
        return seen

    def lie(self, **more: Any) -> None:
        self.agent.call("disk.lie", id="lie", name="node", **{"ttl": 60, "calls": ["fsync"], **more})

    def lose_power(self) -> None:
        self.agent.call("proc.power_loss", id="loss", name="node", ttl=60, mode="all")


@pytest.fixture
def writer(agent: Any, tmp_path: Path) -> Writer:
    return Writer(agent, tmp_path)


def test_what_was_fsynced_under_a_lie_is_gone_after_a_power_loss(writer: Writer) -> None:
    durable = writer.goes_on()
    writer.lie()
    believed = writer.goes_on(20)
    seen = writer.disk("lie")
    assert seen["open"] and seen["met"] >= 19 and seen["unsynced_bytes"] >= 190
    writer.lose_power()
    left = writer.file.stat().st_size
    assert durable <= left <= believed - 190
    assert writer.disk("loss")["lost_bytes"] >= 190


def test_an_honest_fsync_afterwards_makes_all_durable(writer: Writer) -> None:
    writer.lie()
    writer.goes_on(20)
    writer.agent.call("heal", id="lie")
    believed = writer.goes_on()
    writer.lose_power()
    assert writer.file.stat().st_size >= believed


def test_a_lie_about_other_files_touches_nothing(writer: Writer) -> None:
    writer.lie(path="*.index")
    believed = writer.goes_on(20)
    assert writer.disk("lie")["met"] == 0
    writer.lose_power()
    assert writer.file.stat().st_size >= believed


def test_a_lie_goes_on_over_a_power_loss(writer: Writer) -> None:
    writer.lie()
    writer.goes_on()
    writer.lose_power()
    writer.agent.call("heal", id="loss")
    began = writer.file.stat().st_size
    writer.goes_on(20)
    writer.agent.call("proc.power_loss", id="again", name="node", ttl=60, mode="all")
    assert writer.file.stat().st_size <= began + 20


def test_only_fsyncs_can_be_lied_about(writer: Writer, refused: Any) -> None:
    with pytest.raises(refused, match="without `disk_calls` for write calls"):
        writer.lie(calls=["write"])


def test_without_a_ledger_a_lie_could_never_come_to_light(agent: Any, refused: Any, tmp_path: Path) -> None:
    agent.define(["/bin/sleep", "1000"], data=str(tmp_path), disk_calls=["fsync"])
    with pytest.raises(refused, match="keeps no ledger"):
        agent.call("disk.lie", id="lie", name="node", ttl=5, calls=["fsync"])


def test_what_is_kept_of_lies_ends_with_them(writer: Writer, start_agent: Callable[..., Any]) -> None:
    writer.lie(ttl=0.5)
    writer.agent.kill()
    lies = writer.file.parent.parent / "ledger.lies"
    wait_until(lambda: json.loads(lies.read_text())[0]["end"] is not None, "the keeper has ended it", timeout=5)
