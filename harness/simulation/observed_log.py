"""One log of the cluster as an omniscient observer sees it: all replicas, batch by batch.

Two things are remembered of a log. `matching` holds every batch that any replica ever appended, by (base offset, leader
epoch), with its sum and the batch before it; two replicas that agree on the key must agree on both, and so, by
induction, on everything before it (LM). The *canonical* log is what any high watermark has ever covered; from then on
whoever covers it has the same batch there (LM, HWM, UNIQ), acknowledgements lie within it (ACK), and whoever may lead
next has all of it (ELECT, ISR).

Each replica is read once, when it appends; its high watermark then only moves a mark along what was read.

What counts no more. Below the start of the log (DeleteRecords, retention) nothing is compared. A *declared loss*
(an unclean election that the topic's settings allow, or as many brokers robbed of un-synced records as min ISR
promises to survive) cuts the canonical log at the end of the new leader's; what leaders of older epochs commit after
that is nobody's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
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
    """What identifies a batch: where it stands, the epoch it was appended in, and the sum over its content."""

    base: int
    last: int
    epoch: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.base}–{self.last} of epoch {self.epoch}, sum {self.checksum:08x}"


@dataclass(slots=True)
class SeenReplica:
    """How far one replica was looked at in one incarnation. `tail` was read and is not known to be committed."""

    start: int
    examined: int
    tail: deque[Batch] = field(default_factory=deque)
    previous: tuple[int, int] | None = None
    high_watermark: int = 0
    leader_epoch: int = -1


def batches_of(read: Read, start: int, end: int) -> Iterator[tuple[Batch, memoryview]]:
    """Batches from `start` (or the one that holds it) to `end`, with their content."""
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
    """See the module. `name` is for people; places name a replica in one incarnation of its node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.canonical: dict[int, Batch] = {}
        self.start = 0
        self.end = 0
        self.leaders: dict[int, str] = {}
        self.newest_epoch = -1
        self.lossless_since = -1
        """The leader epoch that the last declared loss ended with; what older ones commit does not count."""
        self.committed_batches = 0
        self._matching: dict[tuple[int, int], tuple[Batch, tuple[int, int] | None]] = {}
        self._seen: dict[tuple[str, int], SeenReplica] = {}

    # -- replicas -------------------------------------------------------------------------------------------------

    def seen(self, place: tuple[str, int], start: int) -> SeenReplica:
        """What is known of a replica; one never seen begins at its log's start."""
        found = self._seen.get(place)
        if found is None:
            found = self._seen[place] = SeenReplica(start, start)
        return found

    def forget(self, place: tuple[str, int]) -> None:
        """A replica was deleted, or restarted its log elsewhere: what comes is looked at from its start."""
        self._seen.pop(place, None)

    def cut(self, place: tuple[str, int], offset: int) -> None:
        """A replica has truncated its log to `offset`."""
        seen = self._seen.get(place)
        if seen is None or offset >= seen.examined:
            return
        while seen.tail and seen.tail[-1].last >= offset:
            seen.tail.pop()
        seen.examined = offset
        seen.previous = (seen.tail[-1].base, seen.tail[-1].epoch) if seen.tail else None
        seen.high_watermark = min(seen.high_watermark, offset)

    def examine(self, place: tuple[str, int], read: Read, start: int, end: int) -> None:
        """Read what a replica has appended, and hold it against what others have there (LM)."""
        seen = self.seen(place, start)
        if end < seen.examined:
            self.cut(place, end)
        for batch, content in batches_of(read, max(seen.examined, start), end):
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

    def commit(self, place: tuple[str, int], high_watermark: int, leader_epoch: int) -> list[Batch]:
        """A replica's high watermark has moved; the batches that are canonical by it now, in order."""
        seen = self.seen(place, 0)
        seen.high_watermark = high_watermark
        added: list[Batch] = []
        tail = seen.tail
        while tail and tail[0].last < high_watermark:
            batch = tail.popleft()
            if leader_epoch < self.lossless_since or batch.last < self.start:
                continue
            found = self.canonical.get(batch.base)
            if found is None and batch.base >= self.end:
                self.canonical[batch.base] = batch
                self.end = batch.last + 1
                self.committed_batches += 1
                added.append(batch)
            elif found != batch:
                raise InvariantBroken(
                    "LM", f"{self.name}: {place[0]} has committed batch {batch}; committed there was {found}"
                )
        return added

    def at(self, offset: int) -> Batch | None:
        """The committed batch that holds this offset; for words, since it looks through all of them."""
        return next((one for one in self.canonical.values() if one.base <= offset <= one.last), None)

    def trim(self, start: int) -> None:
        """The leader's log begins at `start` now: what lies before it counts no more."""
        if start > self.start:
            self.start = start
            for base in [base for base, batch in self.canonical.items() if batch.last < start]:
                del self.canonical[base]
            for key in [key for key, (batch, _) in self._matching.items() if batch.last < start]:
                del self._matching[key]
            self.end = max(self.end, start)

    def declare_loss(self, epoch: int, end: int) -> None:
        """Records were lost as was allowed: the canonical log goes on from the new leader's end."""
        for base in [base for base, batch in self.canonical.items() if batch.last >= end]:
            del self.canonical[base]
        self.end = min(self.end, end)
        self.lossless_since = max(self.lossless_since, epoch)

    # -- leaders --------------------------------------------------------------------------------------------------

    def one_leader(self, epoch: int, name: str) -> bool:
        """Whether this leadership is news. Two leaders of one epoch break ELECT."""
        known = self.leaders.setdefault(epoch, name)
        if known != name:
            raise InvariantBroken("ELECT", f"{self.name}: both {known} and {name} lead epoch {epoch}")
        fresh = epoch > self.newest_epoch
        if fresh:
            self.newest_epoch = epoch
        return fresh
