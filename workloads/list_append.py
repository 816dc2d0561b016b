"""Workload `list-append`: check that every read of a list is a prefix of one list.

A topic-partition is a *list*. Producers append unique elements to it, with acks=all; readers read all of it, from its
beginning to the log end offset that its leader returned when the read began. Each is a transaction of a single
micro-operation: our nodes have no transactions yet that could combine several.

    append    a send, by an idempotent producer; `ok`, `fail` or `info` like any other
    read      one operation, however many Fetch requests it takes: ListOffsets returns the log's end (a new leader
              refuses it until it knows that end, KIP-207), then everything from the log's start up to there is
              fetched. In the history it is a poll from position 0 in a separate session

So the log's checks apply to these histories as they are. `results/history/lists.py` turns them into transactions for
the check `list-append`, which searches for what no order of the lists explains: elements of failed appends, duplicate
elements, lists that disagree on their order, cycles of dependencies.

What must hold (`model`). A list never loses an element that was read, so all lists are prefixes of the longest one:
`serializable`. Real-time order is more than Kafka promises: a leader that does not know yet that it was deposed returns
a list that is too short, and so may a later read from another such leader. `strict-serializable` requires it as well,
and is right where no leader is cut off.

Reading everything each time costs the square of a list's length, so rates are low here. The order of two elements is
visible in every read after them, so few reads suffice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.core.generator import Generator, Rate, Reads
from squall.workloads.log import LogOptions, LogWorkload, PerSecond

IN_FLIGHT = 4


class ListAppendOptions(BaseModel):
    """Options of the workload `list-append` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["list-append"]
    client: Literal["native"] = Field(default="native", description="a read is several of its requests, and one poll")
    producers: int = Field(default=2, ge=1, le=64, description="producing clients")
    readers: int = Field(default=2, ge=1, le=64, description="reading clients; each reads every list")
    rate: PerSecond = Field(default=40.0, description="appends per second over all lists, e.g. 40/s")
    reads: PerSecond = Field(default=10.0, description="reads per second over all lists, e.g. 10/s")
    model: Literal["serializable", "strict-serializable"] = Field(
        default="serializable", description="what must hold of lists; strict-serializable is more than Kafka promises"
    )
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @property
    def acks(self) -> Literal["all"]:
        return "all"

    @property
    def idempotent(self) -> bool:
        return True

    @property
    def operations(self) -> None:
        """None: the operations are generated, not listed."""

    @property
    def in_words(self) -> str:
        return f"{self.rate:g} appends/s by {self.producers} producers, {self.reads:g} whole reads/s by {self.readers}"

    def as_log(self) -> LogOptions:
        """The same load as options of the workload `log`."""
        return LogOptions(
            producers=self.producers,
            consumers=self.readers,
            rate=self.rate,
            in_flight=IN_FLIGHT,
            final_timeout=self.final_timeout,
        )


@dataclass(frozen=True)
class ListAppendWorkload(LogWorkload):
    """Sends as in `log`; consumers read the whole list, at a fixed rate."""

    reads_per_second: float = 10.0

    def _consumer(self, consumer: int) -> ClientPlan:
        return replace(super()._consumer(consumer), whole=True)

    def _reads(self, index: int) -> Generator:
        topic, partition = self.topic_partitions[index]
        return Rate(self.reads_per_second / len(self.topic_partitions), Reads(topic, partition))
