"""Workload `log`: check that a topic-partition keeps what it acknowledged, once and in order.

Producers send unique values to explicit topic-partitions at an open-loop rate; consumers with manual assignment poll
them from the beginning. Every topic-partition has its own threads in every producer, so that one without a leader
cannot starve the others of load and its unavailability is visible separately. A pipelining producer is one client with
many processes; its send sequence is recorded, as is every acknowledged offset (HX-03, HX-07).

After all faults are healed the *final reads* follow: a marker is written to every topic-partition until one is
acknowledged, then a new consumer reads from the start of the log to that marker. An acknowledged record missing there
is lost. Without a complete final read no such statement is possible, so completeness is part of the history.

A share of a consumer's operations may be to request the log's end (KIP-207: it never goes back), to delete what it has
read, or to seek back and read again. Clients of both kinds may crash now and then and be replaced. Consumers may have
racks, and then read from followers nearby (KIP-392). An admin client may create and delete topics beside the load
(admin_load.py).

Threads are numbered once for the whole run: producers, consumers, the final ones, then the admin one. Worker *w* of *n*
gets every n-th producer and consumer; the first worker does the final reads, and is the admin client.

With `operations` the listed operations are executed instead of generated ones, and `rate` has no effect
(`scripted.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.kits import Library
from squall.workloads.clients.programs.options import ProgramOptions
from squall.workloads.core.admin_load import SHARED_NAMES, TopicChurn, with_share
from squall.workloads.core.generator import (
    WAIT,
    Answer,
    Context,
    Generator,
    Rate,
    Reads,
    Reserve,
    Seeks,
    TimeLimit,
    Validated,
    Writes,
    threads_mask,
)
from squall.workloads.core.operation import (
    DELETE_RECORDS,
    FINAL_POLL,
    LIST_OFFSETS,
    MARKER,
    OK,
    POLL,
    REOPEN,
    SEND,
    Event,
    Operation,
)
from squall.workloads.core.scripted import ScriptedOperation, scripted


def _rate(value: Any) -> Any:
    """Parse `2000/s`, `120/min` or a plain number of operations per second."""
    if isinstance(value, str):
        matched = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*(s|min))?\s*", value)
        if not matched:
            raise ValueError("is not a rate, such as 2000/s")
        number = float(matched[1])
        return number / 60 if matched[2] == "min" else number
    return value


PerSecond = Annotated[float, BeforeValidator(_rate), Field(gt=0, le=1_000_000)]
MaybePerSecond = Annotated[float, BeforeValidator(_rate), Field(ge=0, le=1000)]
RackName = Annotated[str, Field(min_length=1, max_length=100)]
Share = Annotated[float, Field(ge=0, le=0.5)]

MARKERS_MAX = 3
"""How many markers a final read writes to a topic-partition, if retention removes them before they are read."""


class LogOptions(BaseModel):
    """Options of the workload `log` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["log"] = "log"
    client: Library = Field(
        default="confluent",
        description="the library of the clients on hosts; mixed: every other client. Simulated clients are our own",
    )
    program: ProgramOptions | None = Field(default=None, description="with client: program, the program of each client")
    producers: int = Field(default=4, ge=1, le=64, description="producing clients")
    consumers: int = Field(default=4, ge=0, le=64, description="consuming clients; each reads every topic-partition")
    rate: PerSecond = Field(default=1000.0, description="sends per second over all producers, e.g. 2000/s")
    acks: Literal["all", "1", "0"] = Field(default="all", description="acknowledgements the producers ask for")
    idempotent: bool = Field(default=True, description="idempotent producers; needs acks: all")
    record_size: int = Field(default=100, ge=16, le=900_000, description="bytes of a record's value")
    in_flight: int = Field(default=8, ge=1, le=1000, description="processes of one producer per topic-partition")
    batches_in_flight: int = Field(
        default=1,
        ge=1,
        le=5,
        description="batches that a native idempotent producer has in flight for each topic-partition",
    )
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")
    list_offsets: Share = Field(default=0.0, description="share of consumers' operations that ask for the log's end")
    delete_records: Share = Field(default=0.0, description="share that lets the log begin later, behind the consumer")
    seek: Share = Field(default=0.0, description="share that goes back among the last thousand records that were read")
    reopen: Share = Field(
        default=0.0, description="share of all operations that crash the client, with another in its place"
    )
    consumer_racks: tuple[RackName, ...] = Field(
        default=(), description="racks that consumers stand in, in turn: they read from followers there (KIP-392)"
    )
    admin: MaybePerSecond = Field(default=0.0, description="side topics made, enlarged and deleted: steps per second")
    admins: int = Field(
        default=1,
        ge=1,
        le=64,
        description="admin clients, each beginning with another broker; several use the same few names again and again",
    )
    operations: tuple[ScriptedOperation, ...] | None = Field(
        default=None, description="do exactly this, instead of sends at a rate and polls without end"
    )

    @model_validator(mode="after")
    def _program_of_programs(self) -> LogOptions:
        if self.program is not None and self.client != "program":
            raise ValueError(f"program: is for `client: program`, and the client is {self.client}")
        return self

    @property
    def in_words(self) -> str:
        return f"{self.producers} producers, {self.consumers} consumers, {self.rate:g} sends/s, acks={self.acks}"


@dataclass(frozen=True)
class Shard:
    """One worker's part: its clients and their generator."""

    clients: tuple[ClientPlan, ...]
    generator: Generator


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """The purpose of a thread of the load: the slot-th of a client for one topic-partition."""

    role: Literal["producer", "consumer"]
    client: int
    topic: str
    partition: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class FinalRead:
    """The final read of one topic-partition: markers until one is acknowledged, then polls up to that marker.

    What lies below a log start that a broker states has been removed, perhaps the marker too, by retention. Whether it
    may be removed is for the check to say. A marker that was removed before it was read proves nothing, so another one
    is written, up to `MARKERS_MAX` in all: a host whose clock is wrong may remove each at once.
    """

    topic: str
    partition: int
    marker_thread: int
    reader_thread: int
    markers: Writes
    busy: bool = False
    marker_offset: int | None = None
    acknowledged: int = 0
    """How many markers were."""
    read_to: int = -1

    @property
    def complete(self) -> bool:
        return self.marker_offset is not None and self.read_to >= self.marker_offset

    @property
    def final_state(self) -> FinalState:
        return FinalState(self.topic, self.partition, self.marker_offset, self.complete)

    def op(self, context: Context) -> tuple[Answer, Generator]:
        if self.complete:
            return None, self
        if self.busy:
            return WAIT, self
        if self.marker_offset is None:
            answer, markers = self.markers.op(context.only(1 << self.marker_thread))
            assert isinstance(markers, Writes)
            return answer, replace(self, markers=markers, busy=isinstance(answer, Operation))
        reads = Reads(self.topic, self.partition, FINAL_POLL)
        answer, _ = reads.op(context.only(1 << self.reader_thread))
        return answer, replace(self, busy=isinstance(answer, Operation))

    def update(self, context: Context, event: Event) -> Generator:
        completion = event.completion
        if completion is None:
            return self
        after = replace(self, busy=False)
        if completion.type != OK:
            return after
        if event.operation.f == MARKER:
            return replace(after, marker_offset=completion.offset, acknowledged=self.acknowledged + 1)
        read_to = max((self.read_to, *completion.offsets))
        removed_to = (completion.log_start or 0) - 1
        if read_to < (self.marker_offset or 0) <= removed_to and self.acknowledged < MARKERS_MAX:
            return replace(after, read_to=read_to, marker_offset=None)
        return replace(after, read_to=max(read_to, removed_to))


@dataclass(frozen=True)
class FinalState:
    """The progress of the final read of one topic-partition."""

    topic: str
    partition: int
    marker_offset: int | None
    complete: bool


@runtime_checkable
class Finishing(Protocol):
    """A generator of final reads that reports its progress."""

    @property
    def final_state(self) -> FinalState: ...


@dataclass(frozen=True)
class LogWorkload:
    """The plan of the workload over some topics: threads, clients, generators."""

    options: LogOptions
    topics: Mapping[str, int]

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple((topic, partition) for topic in self.topics for partition in range(self.topics[topic]))

    @property
    def total_threads(self) -> int:
        """The number of threads of the whole run, final ones included.

        It is the step between process numbers of one thread.
        """
        return self._admin_threads.stop

    @property
    def _admin_threads(self) -> range:
        first = self._final_threads_start + 2 * len(self.topic_partitions)
        return range(first, first + (self.options.admins if self.options.admin else 0))

    @property
    def _consumer_threads_start(self) -> int:
        return self.options.producers * len(self.topic_partitions) * self.options.in_flight

    @property
    def _final_threads_start(self) -> int:
        return self._consumer_threads_start + self.options.consumers * len(self.topic_partitions)

    def _producer_threads(self, producer: int, index: int) -> range:
        """The threads of one producer for its index-th topic-partition."""
        start = (producer * len(self.topic_partitions) + index) * self.options.in_flight
        return range(start, start + self.options.in_flight)

    def _consumer_thread(self, consumer: int, index: int) -> int:
        return self._consumer_threads_start + consumer * len(self.topic_partitions) + index

    def shard(self, worker: int, workers: int) -> Shard:
        """The load of one worker."""
        producers = range(worker, self.options.producers, workers)
        consumers = range(worker, self.options.consumers, workers)
        plans = [self._producer(producer) for producer in producers]
        plans += [self._consumer(consumer) for consumer in consumers]
        if self.options.operations is not None:
            threads = frozenset(thread for plan in plans for thread in plan.threads)
            return Shard(tuple(plans), scripted(self.options.operations, threads))
        shares = list(self._shares(producers, consumers))
        if self.options.admin and worker == 0:
            plans.append(self._admin())
            churn = TopicChurn(names=0 if self.options.admins == 1 else SHARED_NAMES)
            shares.append((threads_mask(tuple(self._admin_threads)), Rate(self.options.admin, churn)))
        return Shard(tuple(plans), Reserve(tuple(shares)))

    def thread_place(self, thread: int) -> ThreadPlace | None:
        """The purpose of a thread of the load; None for any other number."""
        count, in_flight = len(self.topic_partitions), self.options.in_flight
        if thread < self._consumer_threads_start:
            lane, slot = divmod(thread, in_flight)
            client, index = divmod(lane, count)
            return ThreadPlace("producer", client, *self.topic_partitions[index], slot)
        if thread < self._final_threads_start:
            client, index = divmod(thread - self._consumer_threads_start, count)
            return ThreadPlace("consumer", client, *self.topic_partitions[index])
        return None

    def thread_at(self, place: ThreadPlace) -> int:
        """The thread with that purpose; the inverse of `thread_place`."""
        index = self.topic_partitions.index((place.topic, place.partition))
        if place.role == "consumer":
            return self._consumer_thread(place.client, index)
        return self._producer_threads(place.client, index)[place.slot]

    def trouble_with(self, operation: ScriptedOperation) -> str | None:
        """Why this operation of `operations` cannot be done here; None if it can."""
        place = self.thread_place(operation.process)
        if place is None:
            return f"process {operation.process}: the workload has processes 0 to {self._final_threads_start - 1}"
        topic, partition = operation.topic_partition
        role = place.role if operation.f == REOPEN else "producer" if operation.f == SEND else "consumer"
        if (place.role, place.topic, place.partition) == (role, topic, partition):
            return None
        return (
            f"process {operation.process} is for {SEND if place.role == 'producer' else POLL} {place.topic}/"
            f"{place.partition}, of {place.role} {place.client}; this is {operation.f} {topic}/{partition}"
        )

    def final_shard(self) -> Shard:
        """The final reads, which the first worker does once everything is healed."""
        count, start = len(self.topic_partitions), self._final_threads_start
        first_client = self.options.producers + self.options.consumers
        markers = replace(
            self._producer(0),
            client=first_client,
            threads=tuple(range(start, start + count)),
            acks="all",
            idempotent=True,
        )
        readers = ClientPlan(
            client=first_client + 1,
            role="consumer",
            threads=tuple(range(start + count, start + 2 * count)),
            topic_partitions=self.topic_partitions,
        )
        shares = tuple(
            (
                threads_mask((start + index, start + count + index)),
                FinalRead(
                    topic,
                    partition,
                    start + index,
                    start + count + index,
                    Writes(topic, partition, MARKER),
                ),
            )
            for index, (topic, partition) in enumerate(self.topic_partitions)
        )
        return Shard((markers, readers), TimeLimit(self.options.final_timeout, Reserve(shares)))

    def _producer(self, producer: int) -> ClientPlan:
        threads = [
            thread for index in range(len(self.topic_partitions)) for thread in self._producer_threads(producer, index)
        ]
        return ClientPlan(
            client=producer,
            role="producer",
            threads=tuple(threads),
            topic_partitions=self.topic_partitions,
            acks=self.options.acks,
            idempotent=self.options.idempotent and self.options.acks == "all",
            record_size=self.options.record_size,
            batches_in_flight=self.options.batches_in_flight,
        )

    def _consumer(self, consumer: int) -> ClientPlan:
        return ClientPlan(
            client=self.options.producers + consumer,
            role="consumer",
            threads=tuple(self._consumer_thread(consumer, index) for index in range(len(self.topic_partitions))),
            topic_partitions=self.topic_partitions,
            rack=self._rack(consumer),
        )

    def _rack(self, consumer: int) -> str | None:
        racks = self.options.consumer_racks
        return racks[consumer % len(racks)] if racks else None

    def _admin(self) -> ClientPlan:
        after_final = self.options.producers + self.options.consumers + 2
        return ClientPlan(after_final, "admin", tuple(self._admin_threads), self.topic_partitions)

    def paced(self, rate: float, lane: int, writes: Generator) -> Generator:
        """Pace one worker's sends to one topic-partition; `lane` is different for every such pair."""
        return Rate(rate, writes)

    def _writes(self, topic: str, partition: int) -> Generator:
        return with_share(self.options.reopen, Reads(topic, partition, REOPEN), Writes(topic, partition))

    def _reads(self, index: int) -> Generator:
        """Polls of the index-th topic-partition, with the configured shares of other operations."""
        options, (topic, partition) = self.options, self.topic_partitions[index]
        reads = with_share(options.list_offsets, Reads(topic, partition, LIST_OFFSETS), Reads(topic, partition))
        reads = with_share(options.delete_records, Reads(topic, partition, DELETE_RECORDS), reads)
        reads = with_share(options.seek, Seeks(topic, partition, index), reads)
        return with_share(options.reopen, Reads(topic, partition, REOPEN), reads)

    def _shares(self, producers: range, consumers: range) -> Iterator[tuple[int, Generator]]:
        count = len(self.topic_partitions)
        rate = self.options.rate * len(producers) / self.options.producers / count
        for index, (topic, partition) in enumerate(self.topic_partitions):
            writers = [thread for producer in producers for thread in self._producer_threads(producer, index)]
            if writers:
                lane = producers.start * count + index
                yield threads_mask(writers), self.paced(rate, lane, self._writes(topic, partition))
            readers = [self._consumer_thread(consumer, index) for consumer in consumers]
            if readers:
                yield threads_mask(readers), self._reads(index)


def final_states(generator: Generator) -> tuple[FinalState, ...]:
    """The progress of the final reads, from the last state of `final_shard`'s generator."""
    if isinstance(generator, Validated | TimeLimit):
        return final_states(generator.generator)
    if not isinstance(generator, Reserve):
        return ()
    return tuple(one.final_state for _, one in generator.shares if isinstance(one, Finishing))
