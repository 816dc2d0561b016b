"""Load besides sends and polls: a share of other operations, and topics that are created and deleted.

`EveryNth` replaces every n-th operation of a thread by another kind, so that a consumer now and then requests the log's
end or raises its log start offset. `TopicChurn` runs the life of side topics: created, given a second topic-partition,
deleted, then the next. No producer writes to them; they load the controller and every broker that follows metadata.
Both are pure values, as all generators are (generator.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from squall.workloads.core.generator import WAIT, Answer, Context, Generator
from squall.workloads.core.operation import ADMIN, Event, Operation

SIDE_TOPIC: Final = "side"
SHARED_NAMES: Final = 2
"""How many names several admin clients share, so that each undoes what another has done."""
SIDE_PARTITIONS: Final = 2
"""How many partitions a side topic has in the end; it begins with one."""


def period_of(share: float) -> int:
    """The period of operations with this share: 0.1 is every tenth; 0 is never."""
    return round(1 / share) if share > 0 else 0


class EveryNth(msgspec.Struct, frozen=True):
    """The operations of `often`, with every `period`-th one replaced by one of `rare`."""

    period: int
    rare: Generator
    often: Generator
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        due = (self.count + 1) % self.period == 0
        answer, after = (self.rare if due else self.often).op(context)
        count = self.count + isinstance(answer, Operation)
        if due:
            return answer, EveryNth(self.period, after, self.often, count)
        return answer, EveryNth(self.period, self.rare, after, count)

    def update(self, context: Context, event: Event) -> Generator:
        rare, often = self.rare.update(context, event), self.often.update(context, event)
        if rare is self.rare and often is self.often:
            return self
        return EveryNth(self.period, rare, often, self.count)


def with_share(share: float, rare: Generator, often: Generator) -> Generator:
    """`often`, with this share of its operations replaced by `rare`."""
    period = period_of(share)
    return EveryNth(period, rare, often) if period else often


@dataclass(frozen=True, slots=True)
class TopicChurn:
    """One side topic after the other: created, given more partitions, deleted.

    Each has a new name, or with `names` one of so many names, used in turn.
    """

    step: int = 0
    names: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        thread = context.free_thread()
        if thread is None:
            return WAIT, self
        turn, part = divmod(self.step, len(ADMIN))
        operation = Operation(
            ADMIN[part],
            thread,
            context.processes[thread],
            context.clients[thread],
            context.meant(),
            f"{SIDE_TOPIC}-{turn % self.names if self.names else turn}",
        )
        return operation, TopicChurn(self.step + 1, self.names)

    def update(self, context: Context, event: Event) -> Generator:
        return self
