"""The log against a model, through any order of appends, truncations, restarts, crashes and power losses.

The model is a list of (offset, epoch, value). A process crash loses nothing that was appended; a power loss may lose
any suffix above the durable offset, never anything below it, and never leaves anything but a prefix.
"""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from squall.harness.simulation.disk import CrashNow, SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import Record, build_batch, iterate_batches, parse_records
from squall.nodes.storage.log import Log, LogConfig

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
Entry = tuple[int, int, bytes | None]


class LogMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.disk = SimDisk(Random(seed))
        self.model: list[Entry] = []
        self.epoch = 0
        self.sequence = 0
        self.written = 0
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> Log:
        return Log.open(self.disk, "t-0", CONFIG, now_ms=0, trace=NullTrace(), clean_shutdown=clean)

    def content(self, log: Log) -> list[Entry]:
        found: list[Entry] = []
        for one in log.batches(log.start_offset, log.end_offset):
            for header, whole in iterate_batches(one):
                found.extend((record.offset, header.leader_epoch, record.value) for record in parse_records(whole))
        return found

    def values(self, count: int) -> list[bytes]:
        self.written += count
        return [b"%08d" % (self.written + at) for at in range(count)]

    @rule(count=st.integers(1, 6), bump=st.integers(0, 2))
    def append(self, count: int, bump: int) -> None:
        self.epoch += bump
        values = self.values(count)
        batch = build_batch(
            [Record(value=value) for value in values], producer_id=1, producer_epoch=0, base_sequence=self.sequence
        )
        appended = self.log.append_as_leader(batch, self.epoch, 0, from_client=True)
        assert not appended.duplicate
        self.model.extend((appended.first_offset + at, self.epoch, value) for at, value in enumerate(values))
        self.sequence += count

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(data.draw(st.integers(0, len(self.model))))
        self.follow_log()

    def follow_log(self) -> None:
        """Cut the model to the log's end, which must be a batch boundary, and the producer with it."""
        del self.model[self.log.end_offset :]
        state = self.log.producers.state_of(1)
        self.sequence = 0 if state is None else state.batches[-1].last_sequence + 1

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == len(self.model)

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close()
        self.log = self.open(clean=True)

    @rule()
    def crash(self) -> None:
        self.log = self.open(clean=False)

    @rule(calls=st.integers(0, 12), count=st.integers(1, 6))
    def crash_in_the_middle(self, calls: int, count: int) -> None:
        """Between any two calls of the disk; what was being appended may be there or not."""
        whole = list(self.model)
        self.disk.crash_after = calls
        try:
            self.append(count, 1)
            self.log.flush()
            self.log.truncate_to(len(whole))
        except CrashNow:
            pass
        self.disk.crash_after = None
        self.log = self.open(clean=False)
        assert self.log.end_offset >= len(whole)
        self.model = self.content(self.log)
        assert self.model[: len(whole)] == whole
        self.follow_log()

    @rule()
    def lose_power(self) -> None:
        durable = self.log.durable_offset
        self.disk.lose_power()
        self.log = self.open(clean=False)
        found = self.content(self.log)
        assert len(found) >= durable
        # An un-synced truncation may be undone by the loss: what stands beyond the model is then older content.
        assert found[:durable] == self.model[:durable]
        self.model = found
        self.epoch = max([self.epoch, *(epoch for _, epoch, _ in found)])
        self.follow_log()

    @invariant()
    def the_log_is_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.start_offset == 0
        assert self.log.end_offset == len(self.model)
        assert self.log.durable_offset <= len(self.model)
        assert self.content(self.log) == self.model

    @invariant()
    def epochs_say_where_each_began(self) -> None:
        if not hasattr(self, "log"):
            return
        firsts: dict[int, int] = {}
        for offset, epoch, _ in self.model:
            firsts.setdefault(epoch, offset)
        assert dict(self.log.epochs.entries) == firsts

    @invariant()
    def the_producer_can_go_on(self) -> None:
        if hasattr(self, "log") and self.model:
            state = self.log.producers.state_of(1)
            assert state is not None and state.batches[-1].last_offset == len(self.model) - 1


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogAgainstItsModel = LogMachine.TestCase
