"""Check at every event what clients receive against what is committed: ACK, UNIQ, RT, PREFIX, PHANTOM.

The checkers judge a history when it is complete. The observer knows the committed log at every moment, so it can name
the event at which a promise was broken:

* ACK      what is acknowledged with acks=all is committed, at that offset, and is that value;
* UNIQ     no offset is given to two values, whether by acknowledgements or by reads;
* RT       a send acknowledged before another was invoked has the smaller offset;
* PREFIX   a poll delivers the committed log from its position on, without gaps and nothing that is not committed;
* PHANTOM  what is committed was sent, and had not failed definitely.

Offsets below the start of a log are forgotten, and after a declared loss those beyond it: they may be assigned again. A
response under a leader epoch before the loss, from a leader that is deposed and does not know it, holds only below the
loss (`ObservedLog.superseded`); a response under a later epoch holds everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from squall.harness.simulation.observer.state.observed_log import InvariantBroken, ObservedLog
from squall.nodes.protocol.records import parse_records
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.core.operation import (
    FAIL,
    FINAL_POLL,
    MARKER,
    OK,
    POLL,
    SEND,
    Completion,
    Event,
    Operation,
    value_name,
)

NOTHING = -1


@dataclass(slots=True)
class Promised:
    """One topic-partition: `values` is the committed log by offset, `acknowledged` the offsets reported to clients."""

    log: ObservedLog
    values: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    highest: int = NOTHING
    losses: int = 0
    """Declared losses so far; a read or promise before a loss says nothing about the log after it."""


def first_lacking(promised: Promised, end: int) -> str:
    """Describe the first committed record that a replica lacks whose log ends at `end`."""
    offset = max(end, promised.log.start)
    batch, value = promised.log.at(offset), promised.values.get(offset)
    epoch = "" if batch is None else f" of leader epoch {batch.epoch}"
    if value is None:
        return f"it lacks offset {offset}{epoch}"
    told = "acknowledged" if promised.acknowledged.get(offset) == value else "not acknowledged"
    return f"it lacks offset {offset}{epoch}, value {value_name(value)}, {told}"


class ClientChecker:
    """Checks sends and polls, each at its invocation and at its completion; see the module."""

    def __init__(
        self, *, all_acknowledged: bool = True, name_of: Callable[[int], str | None] = lambda node: None
    ) -> None:
        """`all_acknowledged`: sends are acks=all. Markers always are. `name_of` returns a node's name by its id."""
        self.acknowledged = 0
        self._name_of = name_of
        self._all = all_acknowledged
        self._sent: dict[int, str] = {}
        self._floors: dict[int, tuple[int, int]] = {}

    # -- the cluster's side ---------------------------------------------------------------------------------------

    def committed(self, promised: Promised, content: memoryview) -> None:
        """Add a canonical batch: every record of it was sent by a client, and its offset was free."""
        for record in parse_records(content):
            value = decode_value(record.value)
            state = self._sent.get(value)
            if state is None or state == FAIL:
                why = "was never sent" if state is None else "had failed definitely"
                raise InvariantBroken(
                    "PHANTOM", f"{promised.log.name}: {value_name(value)} {why} and is committed at {record.offset}"
                )
            told = promised.acknowledged.get(record.offset, value)
            if told != value:
                raise InvariantBroken(
                    "UNIQ",
                    f"{promised.log.name}: offset {record.offset} was acknowledged to {value_name(told)}, "
                    f"{value_name(value)} is committed there",
                )
            promised.values[record.offset] = value

    def lost(self, promised: Promised, end: int) -> None:
        """Record a declared loss: every offset from `end` on may be assigned again."""
        for known in (promised.values, promised.acknowledged):
            for offset in [offset for offset in known if offset >= end]:
                del known[offset]
        promised.highest = min(promised.highest, end - 1)
        promised.losses += 1

    def trimmed(self, promised: Promised) -> None:
        """Forget what lies below the log's new start."""
        for known in (promised.values, promised.acknowledged):
            for offset in [offset for offset in known if offset < promised.log.start]:
                del known[offset]

    # -- the clients' side ----------------------------------------------------------------------------------------

    def invoked(self, operation: Operation, promised: Promised) -> None:
        """Record the invocation of a send or a marker."""
        assert operation.value is not None
        self._sent[operation.value] = SEND
        self._floors[operation.value] = (promised.highest, promised.losses)

    def sent_by_another(self, value: int) -> None:
        """Permit a value of a client whose operations are no part of the history."""
        self._sent[value] = SEND

    def completed(self, event: Event, promised: Promised) -> None:
        """Check a client's result against what is committed."""
        operation, completion = event.operation, event.completion
        assert completion is not None
        if operation.f in (SEND, MARKER):
            self._sent_completed(operation, completion, promised)
        elif operation.f in (POLL, FINAL_POLL) and completion.type == OK and completion.offsets:
            self._polled(operation, completion, promised)

    def _sent_completed(self, operation: Operation, completion: Completion, promised: Promised) -> None:
        value = operation.value
        assert value is not None
        floor, losses = self._floors.pop(value, (NOTHING, 0))
        if completion.type == FAIL:
            self._sent[value] = FAIL
            if value in promised.values.values():
                raise InvariantBroken("PHANTOM", f"{promised.log.name}: {value_name(value)} failed and is committed")
            return
        if completion.type != OK or not (self._all or operation.f == MARKER):
            return
        self.acknowledged += 1
        if completion.offset is not None and completion.offset >= promised.log.start:
            floor = floor if losses == promised.losses else NOTHING
            self._acknowledged(value, completion.offset, self._epoch_of(completion, promised.log), floor, promised)

    def _epoch_of(self, completion: Completion, log: ObservedLog) -> int | None:
        """Return the leader epoch under which a broker acknowledged, or one before it.

        It is the one under which the client knew the leader. If nobody has begun to lead in that one, the broker still
        leads by an epoch before: it was elected again, after others, and does not know of any of it. Produce names no
        leader epoch, so it cannot notice.
        """
        epoch, node = completion.leader_epoch, completion.node
        if epoch is None or epoch in log.leaders or node is None:
            return epoch
        name = self._name_of(node)
        return max((one for one, leader in log.leaders.items() if leader == name and one < epoch), default=epoch)

    def _acknowledged(self, value: int, offset: int, epoch: int | None, floor: int, promised: Promised) -> None:
        """Check an acknowledgement.

        The leader may have been of a later `epoch`.
        """
        name, log = promised.log.name, promised.log
        if log.superseded(epoch, offset) and promised.values.get(offset) != value:
            return
        if offset >= log.end:
            raise InvariantBroken(
                "ACK", f"{name}: offset {offset} acknowledged to {value_name(value)}, committed end is {log.end}"
            )
        there = promised.values.get(offset)
        if there != value:
            was = "nothing" if there is None else value_name(there)
            raise InvariantBroken("ACK", f"{name}: offset {offset} acknowledged to {value_name(value)}, {was} is there")
        if promised.acknowledged.setdefault(offset, value) != value:
            other = value_name(promised.acknowledged[offset])
            raise InvariantBroken("UNIQ", f"{name}: offset {offset} acknowledged to {other} and {value_name(value)}")
        if offset <= floor:
            raise InvariantBroken(
                "RT",
                f"{name}: {value_name(value)} got offset {offset}, and when it was sent offset {floor} "
                "had been acknowledged already",
            )
        promised.highest = max(promised.highest, offset)

    def _polled(self, operation: Operation, completion: Completion, promised: Promised) -> None:
        name, log = promised.log.name, promised.log
        epoch = completion.leader_epoch
        for offset, value in zip(completion.offsets, completion.values, strict=True):
            if offset < log.start or log.superseded(epoch, offset):
                continue
            there = promised.values.get(offset)
            if there is None:
                raise InvariantBroken(
                    "PREFIX",
                    f"{name}: client {operation.client} read {value_name(value)} at {offset}, "
                    f"committed end is {log.end}",
                )
            if there != value:
                raise InvariantBroken(
                    "UNIQ",
                    f"{name}: client {operation.client} read {value_name(value)} at {offset}, "
                    f"{value_name(there)} is committed there",
                )
        self._no_gap(operation, completion, promised)

    def _no_gap(self, operation: Operation, completion: Completion, promised: Promised) -> None:
        superseded = promised.log.superseded
        delivered = tuple(one for one in completion.offsets if not superseded(completion.leader_epoch, one))
        if not delivered:
            return
        first = delivered[0] if completion.position is None else completion.position
        expected = [
            offset for offset in range(max(first, promised.log.start), delivered[-1] + 1) if offset in promised.values
        ]
        if expected != [offset for offset in delivered if offset >= promised.log.start]:
            missing = next((offset for offset in expected if offset not in delivered), delivered[0])
            raise InvariantBroken(
                "PREFIX",
                f"{promised.log.name}: client {operation.client} read from {first} to {delivered[-1]} "
                f"and was not given offset {missing} once and in order",
            )
