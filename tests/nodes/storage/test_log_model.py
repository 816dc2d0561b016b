"""The log against a model, with a crash at every disk call of every operation (rules 4 to 7, 14, 15, 17).

Hypothesis draws sequences of operations: appends as leader of several producers, retries, appends as follower, cuts,
new epochs, rolls, flushes, checkpoints, deletions, retention, restarts of the log elsewhere, clean stops. Before each
is done for good it is tried once for every disk call it makes, on a copy of the world that crashes right there, and
once for every kind of call that may fail with EIO. The copy then loses nothing (the process died), or everything that
was not synced, or a torn part of that, and is opened again. What must hold then:

* the log is a prefix of what it was before the operation or would have been after it: at least what had been
  flushed, at least all of it if only the process died, and nothing that was never appended;
* epochs are those of the batches; the log begins where it was said to begin, or later;
* every producer's state is that of a replay of the batches, so that retries are answered with the offsets they have;
* the high watermark that was written down covers only records that stood there when it was;
* it is all durable: a second power loss changes nothing.

The log is opened through the broker's log manager, which keeps the checkpoints that recovery starts from.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from squall.harness.simulation.world.disk import CrashNow, Disturbance, LossMode, SimDisk
from squall.nodes.broker.hosting.config import BrokerConfig, TopicDefaults
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.metadata.image import Topic
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch, iterate_batches, patch
from squall.nodes.storage.config import LONG_MAX, LogConfig
from squall.nodes.storage.errors import DiskFailure
from squall.nodes.storage.log import Log
from squall.nodes.storage.producers import BATCHES_KEPT, ProducedBatch

TOPIC = Topic("t", b"t".ljust(16, b"."))
NAME = ("t", 0)
MODES: tuple[LossMode, ...] = ("none", "all", "torn")
FAILING = ("write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory")
MINUTE = 60_000_000
EIO = 5
PRODUCERS = 3
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
NO_PRODUCER = -1


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class Stored(NamedTuple):
    """One batch that is in the log. `sent` is what the producer sent, for a retry."""

    base: int
    last: int
    epoch: int
    crc: int
    producer: int
    first_sequence: int
    sent: bytes

    @property
    def place(self) -> tuple[int, int, int, int]:
        return self.base, self.last, self.epoch, self.crc


@dataclass
class Content:
    """What the log holds: every batch since it last began anew, deleted ones too, and where it begins."""

    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    origin: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.origin

    def kept(self) -> list[Stored]:
        return [one for one in self.batches if one.last >= self.start]

    def cut(self, offset: int) -> Content:
        """Without the batches that hold or follow an offset; begun anew where nothing is left above the start."""
        if offset < self.start:
            return Content([], offset, offset)
        left = Content([one for one in self.batches if one.last < offset], self.start, self.origin)
        return Content([], self.start, self.start) if left.end < self.start else left

    def epochs(self) -> list[tuple[int, int]]:
        firsts: dict[int, int] = {}
        for one in self.kept():
            firsts.setdefault(one.epoch, max(one.base, self.start))
        return list(firsts.items())

    def replay(self, batches: list[Stored]) -> dict[int, list[tuple[int, int, int, int]]]:
        """The last batches of each producer as (first sequence, last sequence, first offset, last offset)."""
        found: dict[int, list[tuple[int, int, int, int]]] = {}
        for one in batches:
            if one.producer != NO_PRODUCER:
                last = one.first_sequence + one.last - one.base
                found.setdefault(one.producer, []).append((one.first_sequence, last, one.base, one.last))
        return {producer: every[-BATCHES_KEPT:] for producer, every in found.items()}


def state_of(batches: list[ProducedBatch]) -> list[tuple[int, int, int, int]]:
    return [(one.first_sequence, one.last_sequence, one.first_offset, one.last_offset) for one in batches]


class World:
    """A disk, the log on it, and what should be in the log."""

    def __init__(self, seed: int, flush_messages: int) -> None:
        self.disk = SimDisk(Random(seed))
        defaults = LogConfig(segment_bytes=400, index_interval_bytes=100, flush_messages=flush_messages)
        self.config = BrokerConfig(1, "cluster", (), topics=TopicDefaults(log=replace(defaults, retention_ms=-1)))
        self.content = Content()
        self.promised = Content()
        """What the log held when its high watermark was last written down; `promised_to` is that."""
        self.promised_to = 0
        self.epoch = 0
        self.written = 0
        self.now = 0
        self.begin()

    def begin(self) -> None:
        self.manager = LogManager(self.config, disk=self.disk, clock=Clock(), trace=NullTrace(), now=self.now)
        self.log, self.high_watermark = self.manager.claim(TOPIC, 0, self.config.topics.log)

    # -- operations: what each does to the log, and to the model -----------------------------------------------------

    def batch(self, producer: int, sequence: int, count: int) -> bytes:
        self.written += 1
        records = [Record(timestamp=1000 + self.written, value=b"%06d" % self.written)] * count
        if producer == NO_PRODUCER:
            return bytes(build_batch(records))
        return bytes(build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence))

    def next_sequence(self, producer: int) -> int:
        state = self.log.producers.state_of(producer)
        return 0 if state is None else state.batches[-1].last_sequence + 1

    def append(self, producer: int, count: int, bump: int) -> None:
        """As the leader; `bump` epochs later than before."""
        self.epoch += bump
        sent = self.batch(producer, self.next_sequence(producer), count)
        self.content = self.with_batches([sent])
        appended = self.log.append_as_leader(sent, self.epoch, 0, from_client=True)
        assert not appended.duplicate
        assert appended.first_offset == self.content.batches[-1].base

    def fetch(self, producer: int, counts: list[int], bump: int) -> None:
        """As a follower: several batches of another leader's log at once."""
        self.epoch += bump
        sequence = self.next_sequence(producer)
        every = []
        for count in counts:
            every.append(self.batch(producer, sequence, count))
            sequence += count
        self.content = self.with_batches(every)
        fetched = bytearray()
        for one in self.content.batches[-len(every) :]:
            stamped = bytearray(one.sent)
            patch(stamped, one.base, one.epoch)
            fetched += stamped
        self.log.append_as_follower(fetched)

    def with_batches(self, every: list[bytes]) -> Content:
        content = copy.copy(self.content)
        content.batches = list(content.batches)
        for sent in every:
            [(header, _)] = iterate_batches(sent)
            base = content.end
            content.batches.append(
                Stored(
                    base, base + header.last_offset_delta, self.epoch, header.crc, header.producer_id,
                    header.base_sequence, sent,
                )
            )  # fmt: skip
        return content

    def retry(self, back: int) -> None:
        """A producer's batch once more: it must be answered with the offsets it has (rule 5)."""
        known = self.content.replay(self.content.kept())
        sent = [one for one in self.content.kept() if one.producer != NO_PRODUCER]
        for one in sent[-1 - back : len(sent) - back]:
            if (one.base, one.last) in [place[2:] for place in known[one.producer]]:
                again = self.log.append_as_leader(one.sent, self.epoch, 0, from_client=True)
                assert (again.duplicate, again.first_offset, again.last_offset) == (True, one.base, one.last)

    def truncate(self, share: float) -> None:
        offset = self.content.start + round(share * (self.content.end - self.content.start))
        self.content = self.content.cut(offset)
        self.log.truncate_to(offset)

    def restart_at(self, beyond: int) -> None:
        """Rule 15."""
        self.content = Content([], self.content.end + beyond, self.content.end + beyond)
        self.log.restart_at(self.content.origin)

    def new_epoch(self, bump: int) -> None:
        self.epoch += bump
        self.log.assign_epoch(self.epoch, self.log.end_offset)

    def flush(self) -> None:
        assert self.log.flush() == self.content.end

    def write_down(self, share: float) -> None:
        """Recovery points and the high watermark, at some place of the log; sealed segments become durable."""
        self.promised_to = self.content.start + round(share * (self.content.end - self.content.start))
        self.promised = self.content
        self.manager.checkpoint_high_watermarks({NAME: self.promised_to})
        self.now += MINUTE
        self.manager.tick(self.now)

    def delete_before(self, share: float) -> None:
        offset = self.content.start + round(share * (self.content.end - self.content.start))
        self.content = replace(self.content, start=max(offset, self.content.start))
        self.log.advance_start(offset)
        self.manager.settle()

    def retain(self, keep: int, share: float) -> None:
        """By size, below some high watermark. What it lets go is the log's to say; that it may, is checked."""
        high_watermark = self.content.start + round(share * (self.content.end - self.content.start))
        self.log.config = replace(self.config.topics.log, retention_bytes=keep)
        size = self.log.size
        self.log.retain(high_watermark, 0)
        assert self.log.start_offset <= max(high_watermark, self.content.start)
        self.content = replace(self.content, start=self.log.start_offset)
        self.manager.settle()
        assert self.log.size >= min(keep, size)

    def stop_and_start(self) -> None:
        self.manager.close(7)
        self.begin()
        assert self.manager.previous_epoch == 7

    # -- checks ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The log is the model."""
        log, content = self.log, self.content
        assert (log.start_offset, log.end_offset) == (content.start, content.end)
        assert stored(log) == [one.place for one in content.kept()]
        assert log.durable_offset <= log.end_offset
        check_epochs(log, content)
        check_producers(log, content, content)

    def perish(self, mode: LossMode) -> None:
        """The process dies, and with it what `mode` says; then the log is opened again."""
        self.disk.spare()
        self.disk.undisturb("test")
        self.disk.lose_power(mode)
        self.begin()

    def check_recovered(self, before: World, after: Content, mode: LossMode) -> None:
        """See the module. `before` was the world as the operation began; `after` what would be in the log."""
        log = self.log
        found = stored(log)
        versions = [one for one in (before.content, after) if is_prefix(log, found, one)]
        assert versions, f"{found} is no prefix of {before.content.kept()} nor of {after.kept()}"
        cut = min(before.content.end, after.end) if after.origin == before.content.origin else 0
        least = cut if mode == "none" else min(before.log.durable_offset, cut)
        assert log.end_offset >= least
        assert log.start_offset >= min(before.content.start, after.start)
        assert log.durable_offset == log.end_offset
        self.content = held(log, versions[0])
        check_epochs(log, self.content)
        check_producers(log, self.content, versions[0])
        self.check_promise(before)

    def check_promise(self, before: World) -> None:
        for one in self.content.kept():
            if one.last < self.high_watermark and one.place not in [
                other.place for world in (before, self) for other in world.promised.batches
            ]:
                raise AssertionError(f"{one} is below the high watermark {self.high_watermark}, which never covered it")


def stored(log: Log) -> list[tuple[int, int, int, int]]:
    found = []
    for one in log.batches(log.start_offset, log.end_offset):
        for header, _ in iterate_batches(one):
            found.append((header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    return found


def is_prefix(log: Log, found: list[tuple[int, int, int, int]], content: Content) -> bool:
    """Whether the log holds the beginning of the content from some start of its own on, and nothing else."""
    expected = [one.place for one in content.batches if log.start_offset <= one.last < log.end_offset]
    if not found and log.start_offset != content.start and not content.origin <= log.start_offset <= content.end:
        return False
    return found == expected and log.end_offset == (found[-1][1] + 1 if found else log.start_offset)


def held(log: Log, content: Content) -> Content:
    """The part of the content that the log holds."""
    batches = [one for one in content.batches if one.last < log.end_offset]
    if not batches or batches[-1].last + 1 != log.end_offset:
        return Content([], log.start_offset, log.start_offset)
    return Content(batches, log.start_offset, content.origin)


def check_epochs(log: Log, content: Content) -> None:
    """An epoch begins where its first batch does; the last may have none yet, or none any more, but is no older one."""
    entries = log.epochs.entries
    if entries and entries[-1][1] == log.end_offset:
        written = [one.epoch for one in content.batches if one.last < log.end_offset]
        assert not written or entries[-1][0] >= written[-1]
        entries = entries[:-1]
    assert entries == content.epochs()


def check_producers(log: Log, content: Content, history: Content) -> None:
    """States are those of a replay of what is kept; of deleted batches they may know as much as was there."""
    most = history.replay([one for one in history.batches if one.last < log.end_offset])
    least = content.replay(content.kept())
    for producer in range(PRODUCERS):
        state = log.producers.state_of(producer)
        known = [] if state is None else state_of(state.batches)
        assert known[len(known) - len(least.get(producer, [])) :] == least.get(producer, [])
        assert not known or known == most[producer][-len(known) :]


class LogMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 32), flush_messages=st.sampled_from([LONG_MAX, LONG_MAX, 4]))
    def begin(self, seed: int, flush_messages: int) -> None:
        self.world = World(seed, flush_messages)

    def do(self, name: str, *arguments: object) -> None:
        """Try the operation with a crash at each of its disk calls and an error at each kind of them; then do it."""
        after = copy.deepcopy(self.world)
        getattr(after, name)(*arguments)
        for broken in self.broken_attempts(name, arguments):
            for mode in MODES:
                world = copy.deepcopy(broken)
                world.perish(mode)
                world.check_recovered(self.world, after.content, mode)
                content = stored(world.log)
                world.perish("all")
                assert stored(world.log) == content, "what recovery kept is durable"
        getattr(self.world, name)(*arguments)
        self.world.check()

    def broken_attempts(self, name: str, arguments: tuple[object, ...]) -> Iterator[World]:
        for calls in range(1000):
            world = copy.deepcopy(self.world)
            world.disk.crash_after = calls
            try:
                getattr(world, name)(*arguments)
            except CrashNow:
                yield world
            else:
                break
        for kind in FAILING:
            world = copy.deepcopy(self.world)
            world.disk.disturb("test", Disturbance(frozenset({kind}), error=EIO))
            try:
                getattr(world, name)(*arguments)
            except DiskFailure:
                yield world

    # -- operations --------------------------------------------------------------------------------------------------

    @rule(producer=st.integers(NO_PRODUCER, PRODUCERS - 1), count=st.integers(1, 4), bump=st.sampled_from([0, 0, 1, 2]))
    def append(self, producer: int, count: int, bump: int) -> None:
        self.do("append", producer, count, bump)

    @rule(
        producer=st.integers(NO_PRODUCER, PRODUCERS - 1),
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
        bump=st.sampled_from([0, 0, 1]),
    )
    def fetch(self, producer: int, counts: list[int], bump: int) -> None:
        self.do("fetch", producer, counts, bump)

    @rule(back=st.integers(0, 8))
    def retry(self, back: int) -> None:
        self.world.retry(back)
        self.world.check()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.do("truncate", share)

    @rule(bump=st.integers(1, 2))
    def new_epoch(self, bump: int) -> None:
        self.do("new_epoch", bump)

    @rule()
    def flush(self) -> None:
        self.do("flush")

    @rule(share=st.floats(0, 1))
    def write_down(self, share: float) -> None:
        self.do("write_down", share)

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        self.do("delete_before", share)

    @rule(keep=st.sampled_from([0, 300, 900]), share=st.floats(0, 1))
    def retain(self, keep: int, share: float) -> None:
        self.do("retain", keep, share)

    @precondition(lambda self: self.world.content.batches)
    @rule(beyond=st.integers(1, 5))
    def restart_at(self, beyond: int) -> None:
        self.do("restart_at", beyond)

    @rule()
    def stop_and_start(self) -> None:
        self.do("stop_and_start")

    @rule(mode=st.sampled_from(MODES))
    def perish(self, mode: LossMode) -> None:
        """The process dies between two operations, and life goes on from what is left."""
        before = copy.deepcopy(self.world)
        self.world.perish(mode)
        self.world.check_recovered(before, before.content, mode)
        self.world.epoch = before.epoch + 1
        self.world.check()


class TestLogAtEveryCrashPoint(LogMachine.TestCase):
    settings = settings(max_examples=10, stateful_step_count=12, deadline=None, phases=PHASES)


@pytest.mark.full
@pytest.mark.timeout(3600)
class TestLogAtEveryCrashPointForLong(LogMachine.TestCase):
    settings = settings(max_examples=300, stateful_step_count=30, deadline=None, phases=PHASES)
