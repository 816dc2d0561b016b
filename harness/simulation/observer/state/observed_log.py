"""Check one log of the cluster as an omniscient observer: all replicas, batch by batch.

The observer keeps two records of a log. `matching` holds every batch that any replica ever appended, by (base offset,
leader epoch), with its checksum and the batch before it. Two replicas that agree on the key must agree on both, and so,
by induction, on everything before it (LM). The *canonical* log is everything that any high watermark has ever covered.
From then on every replica whose high watermark covers it has the same batch there (LM, HWM, UNIQ), acknowledgements lie
within it (ACK), and every replica that may lead next has all of it (ELECT, ISR).

Each replica is read once, when it appends; its high watermark then only moves a mark along what was read.

Some batches no longer count. Below the start of the log (DeleteRecords, retention) nothing is compared. A *declared
loss* (an unclean election that the topic's settings allow, or as many brokers that lost un-synced records as min ISR
promises to survive) begins another line of the log: the new leader's. The canonical log is cut where the new leader's
log first differs from it. That may be below the start, where a leader that was away may still have records; so what was
canonical there is remembered.

After a loss, old high watermarks prove nothing. A replica keeps its high watermark, from its checkpoint too, when it
applies the new leader epoch. Its log still holds batches of the old line until the new leader's responses make it
truncate by epoch (KIP-101, DP-13). So the epoch that a replica has applied does not determine the line of its log; the
batch does. `Loss.supersedes` decides which batches are of an old line. Those commit nothing, whichever replica holds
them and whichever epoch it has applied.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from squall.nodes.protocol.records import crc_ok, iterate_batches

READ_BYTES = 1 << 20

Read = Callable[[int, int], bytes | bytearray | memoryview]
"""(offset, upper): whole batches from the one that holds `offset`, below `upper`."""


class InvariantBroken(Exception):
    """An invariant of docs/requirements.md does not hold. `name` is its name there, `moment` the event it broke at."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem
        self.moment: object = None

    def __str__(self) -> str:
        broken = f"{self.name}: {self.problem}"
        return broken if self.moment is None else f"{broken}\n  broken by {self.moment}"


class Batch(NamedTuple):
    """The identity of a batch: its position, the epoch in which it was appended, and the checksum of its content."""

    base: int
    last: int
    epoch: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.base}–{self.last} of epoch {self.epoch}, sum {self.checksum:08x}"


@dataclass(frozen=True, slots=True)
class Loss:
    """A declared loss: the line of the log that begins with leader epoch `epoch`.

    Below `end` the new line is the old one. `kept` are the batches of older epochs from `end` on, by base offset, that
    the new leader had in its log when its epoch began: they belong to the new line too, though not committed in it.
    """

    epoch: int
    end: int
    kept: Mapping[int, Batch] = field(default_factory=dict)

    def supersedes(self, batch: Batch) -> bool | None:
        """Return whether `batch` is of an old line; None if it lies below the loss, which then does not decide."""
        if batch.epoch >= self.epoch:
            return False
        return self.kept.get(batch.base) != batch if batch.last >= self.end else None


@dataclass(slots=True)
class SeenReplica:
    """How far one replica was examined in one incarnation. `tail` was read and is not known to be committed."""

    start: int
    examined: int
    tail: deque[Batch] = field(default_factory=deque)
    previous: tuple[int, int] | None = None
    high_watermark: int = 0
    leader_epoch: int = -1


def batches_of(read: Read, start: int, end: int) -> Iterator[tuple[Batch, memoryview]]:
    """Yield batches from `start` (or from the one that holds it) to `end`, with their content."""
    position = start
    while position < end:
        before = position
        for header, content in iterate_batches(read(position, end)):
            last = header.last_offset
            if last >= end:
                return
            position = last + 1
            yield Batch(header.base_offset, last, header.leader_epoch, header.crc), content
        if position == before:
            return


class ObservedLog:
    """Compares all replicas of one log; see the module.

    `name` is for messages; a place is a replica in one incarnation of its node.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.canonical: dict[int, Batch] = {}
        self._deleted: dict[int, Batch] = {}
        """What was canonical and lies below `start` now."""
        self.start = 0
        self.end = 0
        self.leaders: dict[int, str] = {}
        self.newest_epoch = -1
        self.losses: list[Loss] = []
        self.committed_batches = 0
        self._matching: dict[tuple[int, int], tuple[Batch, tuple[int, int] | None]] = {}
        self._seen: dict[tuple[str, int], SeenReplica] = {}

    # -- replicas -------------------------------------------------------------------------------------------------

    def seen(self, place: tuple[str, int], start: int) -> SeenReplica:
        """Return the state of a replica; for a new replica it begins at its log's start."""
        found = self._seen.get(place)
        if found is None:
            found = self._seen[place] = SeenReplica(start, start)
        return found

    def forget(self, place: tuple[str, int]) -> None:
        """Forget a replica that was deleted or restarted its log elsewhere: it is examined again from its start."""
        self._seen.pop(place, None)

    def first_from(self, place: tuple[str, int], offset: int) -> Batch | None:
        """Return a replica's first batch that ends at or above an offset, unless its high watermark covers that."""
        seen = self._seen.get(place)
        if seen is None or offset < seen.high_watermark:
            return None
        return next((one for one in seen.tail if one.last >= offset), None)

    def last_below(self, place: tuple[str, int], offset: int) -> Batch | None:
        """Return the batch that ends at `offset`, of those examined in a replica above its high watermark so far."""
        seen = self._seen.get(place)
        return None if seen is None else next((one for one in seen.tail if one.last == offset - 1), None)

    def has(self, name: str, batch: Batch) -> bool:
        """Return whether a host's replica was last seen to have a batch, in any incarnation of its node.

        Where its high watermark covers the batch, it has it.
        """
        replicas = (seen for place, seen in self._seen.items() if place[0] == name)
        return any(seen.high_watermark > batch.last or batch in seen.tail for seen in replicas)

    def cut(self, place: tuple[str, int], offset: int) -> None:
        """Record that a replica has truncated its log to `offset`."""
        seen = self._seen.get(place)
        if seen is None or offset >= seen.examined:
            return
        while seen.tail and seen.tail[-1].last >= offset:
            seen.tail.pop()
        seen.examined = offset
        seen.previous = (seen.tail[-1].base, seen.tail[-1].epoch) if seen.tail else None
        seen.high_watermark = min(seen.high_watermark, offset)

    def examine(self, place: tuple[str, int], read: Read, start: int, end: int) -> None:
        """Read what a replica has appended, and compare it with the other replicas' batches there (LM)."""
        seen = self.seen(place, start)
        if end < seen.examined:
            self.cut(place, end)
        position = max(seen.examined, start)
        if position >= end:
            return
        for batch, content in batches_of(read, position, end):
            key = (batch.base, batch.epoch)
            known = self._matching.get(key)
            if known is None:
                self._matching[key] = (batch, seen.previous)
            else:
                self._match(place[0], batch, seen.previous, *known)
                if not crc_ok(content):
                    raise InvariantBroken(
                        "LM", f"{self.name}: {place[0]} has batch {batch}, and its content has another sum"
                    )
            seen.tail.append(batch)
            seen.previous = key
            seen.examined = batch.last + 1

    def _match(
        self,
        name: str,
        batch: Batch,
        previous: tuple[int, int] | None,
        known: Batch,
        before: tuple[int, int] | None,
    ) -> None:
        if known != batch:
            raise InvariantBroken("LM", f"{self.name}: {name} has batch {batch}; another replica has {known}")
        counts = batch.base > self.start
        if counts and previous is not None and before is not None and previous != before:
            raise InvariantBroken(
                "LM",
                f"{self.name}: {name} has batch {batch} after offset {previous[0]} of epoch {previous[1]}, "
                f"another replica after offset {before[0]} of epoch {before[1]}",
            )

    # -- what is committed ----------------------------------------------------------------------------------------

    def commit(
        self, place: tuple[str, int], high_watermark: int, leader_epoch: int, *, leads: bool = True
    ) -> list[Batch]:
        """Advance a replica's high watermark. Return the batches that became canonical by it, in order.

        `leader_epoch` is the one that the replica has applied, `leads` whether it leads in it.
        """
        seen = self.seen(place, 0)
        seen.high_watermark = high_watermark
        added: list[Batch] = []
        tail = seen.tail
        while tail and tail[0].last < high_watermark:
            batch = tail.popleft()
            if batch.last < self.start or not self._counts(batch, leader_epoch, leads):
                continue
            found = self.canonical.get(batch.base)
            if found is None and (batch.base >= self.end or self._begins_within(batch)):
                self.canonical[batch.base] = batch
                self.end = batch.last + 1
                self.committed_batches += 1
                added.append(batch)
            elif found != batch:
                raise InvariantBroken(
                    "LM", f"{self.name}: {place[0]} has committed batch {batch}; committed there was {found}"
                )
        return added

    def _begins_within(self, batch: Batch) -> bool:
        """Return whether the log begins within a batch, and nothing is known to be committed at its offsets.

        A log may begin in the middle of a batch. If all that was committed there went with a declared loss, the end
        has only been raised to the start (seed 1002693 of worlds).
        """
        if self.end != self.start or not batch.base < self.start <= batch.last:
            return False
        return all(known.last < batch.base for known in self._deleted.values())

    def _counts(self, batch: Batch, leader_epoch: int, leads: bool) -> bool:
        """Return whether a replica's high watermark commits a batch, or can be compared with it, after all losses.

        Only leaders of the new line commit what the last loss kept of an old line: a follower's high watermark may be
        that of the old line.
        """
        for loss in reversed(self.losses):
            superseded = loss.supersedes(batch)
            if superseded is None:
                continue
            kept = batch.epoch < loss.epoch and not superseded
            return not superseded and (not kept or (leads and leader_epoch >= loss.epoch))
        return True

    def agreed_end(self, place: tuple[str, int]) -> int:
        """Return the end of what is committed in a replica's log, as it was last seen: up to it, nothing may be lost.

        An offset below the log's committed end is no proof: there the replica may have records of an older epoch, which
        were never committed.
        """
        seen = self._seen.get(place)
        for batch in () if seen is None else seen.tail:
            if batch.last >= self.start and self.canonical.get(batch.base) != batch:
                return batch.base
        return self.end

    def superseded(self, epoch: int | None, offset: int) -> bool:
        """Return whether a client's result at `offset` under leader epoch `epoch` may be of an old line of the log."""
        return epoch is not None and any(epoch < loss.epoch and offset >= loss.end for loss in self.losses)

    def at(self, offset: int) -> Batch | None:
        """Return the committed batch that holds this offset. A linear search, only for messages."""
        return next((one for one in self.canonical.values() if one.base <= offset <= one.last), None)

    def trim(self, start: int) -> None:
        """Begin the leader's log at `start`: what lies before it no longer counts."""
        if start > self.start:
            self.start = start
            for base in [base for base, batch in self.canonical.items() if batch.last < start]:
                self._deleted[base] = self.canonical.pop(base)
            for key in [key for key, (batch, _) in self._matching.items() if batch.last < start]:
                del self._matching[key]
            self.end = max(self.end, start)

    def declare_loss(self, place: tuple[str, int], epoch: int, batches: Sequence[Batch], end: int) -> Loss:
        """Declare an allowed loss: from where the logs differ, the canonical log is the leader's.

        `batches` are all that the leader of `epoch` has, up to `end`. What its high watermark covers is examined again.
        """
        cut = self._common_end(batches, end)
        for line in (self._deleted, self.canonical):
            for base in [base for base, batch in line.items() if batch.last >= cut]:
                del line[base]
        self.start, self.end = min(self.start, cut), cut
        kept = {batch.base: batch for batch in batches if batch.last >= cut and batch.epoch < epoch}
        loss = Loss(epoch, cut, kept)
        self.losses.append(loss)
        seen = self.seen(place, 0)
        seen.tail, seen.high_watermark = deque(batches), 0
        return loss

    def _common_end(self, batches: Sequence[Batch], end: int) -> int:
        """Return the offset up to which a log equals the canonical log, also where that was deleted since.

        What lies below its own first batch was deleted and cannot be compared. But epochs never fall along a log, so a
        batch there of a later epoch than its first one was not in it.
        """
        there = {batch.base: batch for batch in batches}
        first = batches[0].base if batches else end
        newest = batches[0].epoch if batches else math.inf
        for base, batch in (*self._deleted.items(), *self.canonical.items()):
            differs = there.get(base) != batch if base >= first else batch.epoch > newest
            if differs:
                return min(base, end)
        return min(self.end, end)

    # -- leaders --------------------------------------------------------------------------------------------------

    def one_leader(self, epoch: int, name: str) -> bool:
        """Return whether this leadership is new. Two leaders of one epoch break ELECT."""
        known = self.leaders.setdefault(epoch, name)
        if known != name:
            raise InvariantBroken("ELECT", f"{self.name}: both {known} and {name} lead epoch {epoch}")
        fresh = epoch > self.newest_epoch
        if fresh:
            self.newest_epoch = epoch
        return fresh
