"""FLUSH as the observer asserts it: what a topic's `flush.messages` and `flush.ms` promise."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.flushed_logs import FlushedLogs
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.storage.config import LONG_MAX, LogConfig
from squall.nodes.storage.log import Log

MS = 1000
NEVER = LogConfig()


class Broker:
    """A broker with one log, whose storage never flushes by itself; `config` is what the rule takes it to have."""

    def __init__(self, config: LogConfig) -> None:
        self.log = Log.open(SimDisk(Random(1)), "events-0", NEVER, now_ms=0, trace=NullTrace())
        self.config = config
        self.process: Any = SimpleNamespace(name="b1", now=0)
        self.hosted: Any = SimpleNamespace(removed=False, replica=SimpleNamespace(log=self.log))
        self.node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=self))
        self.rule = FlushedLogs(SimpleNamespace())  # type: ignore[arg-type]
        self.turn(0, touched=True)

    def by_name(self, topic: str, partition: int) -> Any:
        return self.hosted if (topic, partition) == ("events", 0) else None

    def turn(self, at_ms: float, records: int = 0, *, flushes: bool = False, touched: bool = False) -> None:
        """A turn that flushes what is there, then appends so many records."""
        self.log.config = NEVER
        if flushes:
            self.log.flush()
        for _ in range(records):
            self.log.append_as_leader(build_batch([Record(value=b"v")]), 1, 0)
        self.log.config = self.config
        self.process.now = round(at_ms * MS)
        turn: Any = SimpleNamespace(process=self.process, replica=SimpleNamespace(log=self.log), cut=None)
        self.rule.turned(self.process, self.node)
        if records:
            self.rule.appended(turn)
        if records or touched:
            self.rule.replica_examined(turn, 0)


def test_fewer_records_than_the_limit_may_wait() -> None:
    broker = Broker(LogConfig(flush_messages=3))
    broker.turn(1, records=2)
    told = r"^FLUSH: b1 has appended to events-0, and 3 of its records are not durable, with flush\.messages=3$"
    with pytest.raises(InvariantBroken, match=told):
        broker.turn(2, records=1)


def test_records_that_were_flushed_do_not_count() -> None:
    broker = Broker(LogConfig(flush_messages=3))
    for number in range(5):
        broker.turn(number, records=2, flushes=True)


def test_a_limit_that_has_become_smaller_counts_from_the_next_record() -> None:
    broker = Broker(LogConfig(flush_messages=10))
    broker.turn(1, records=5)
    broker.config = LogConfig(flush_messages=2)
    broker.turn(2, touched=True)
    with pytest.raises(InvariantBroken, match=r"and 6 of its records are not durable, with flush\.messages=2$"):
        broker.turn(3, records=1)


def test_settings_that_change_after_an_append_do_not_concern_it() -> None:
    broker = Broker(LogConfig(flush_messages=10))
    broker.config = LogConfig(flush_messages=2)
    broker.turn(1, records=5)


def test_a_record_is_durable_in_time() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(5)  # the broker reads its clock
    broker.turn(24.9)
    broker.turn(25, flushes=True)
    broker.turn(200)


def test_a_record_is_not_durable_in_time() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(5)
    broker.turn(24.9)
    told = r"^FLUSH: b1 keeps records of events-0 below offset 1 for 20 ms, and only what is below 0 .* flush\.ms=20$"
    with pytest.raises(InvariantBroken, match=told):
        broker.turn(25)


def test_a_later_record_gives_an_earlier_one_no_more_time() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(2, records=1)
    with pytest.raises(InvariantBroken, match="below offset 1 for 20 ms"):
        broker.turn(22)


def test_a_later_record_has_its_own_time() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(2)
    broker.turn(22, records=1, flushes=True)
    broker.turn(23)
    broker.turn(42)
    with pytest.raises(InvariantBroken, match="below offset 2 for 20 ms"):
        broker.turn(43)


def test_a_new_limit_begins_with_a_time_of_its_own() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(2)
    broker.config = LogConfig(flush_ms=10)
    broker.turn(30)
    broker.turn(31)
    broker.config = NEVER
    broker.turn(100)
    broker.turn(1000)


@pytest.mark.parametrize("gone", ["deleted", "another", "died"])
def test_what_is_gone_need_not_be_durable(gone: str) -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=1)
    broker.turn(2)
    if gone == "deleted":
        broker.hosted.removed = True
    elif gone == "another":
        broker.hosted.replica = SimpleNamespace(log=None)
    else:
        broker.rule.died(broker.process)
    broker.turn(100)


def test_truncated_records_need_not_be_durable() -> None:
    broker = Broker(LogConfig(flush_ms=20))
    broker.turn(1, records=2, flushes=True)
    broker.log.flush()
    broker.turn(2, records=2)
    broker.turn(3)
    broker.log.truncate_to(2)
    broker.turn(100)


def test_no_limit_is_no_limit() -> None:
    assert LONG_MAX in (NEVER.flush_ms, NEVER.flush_messages)
    broker = Broker(NEVER)
    broker.turn(1, records=50)
    broker.turn(10_000_000)
