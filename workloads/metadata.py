"""Workload `metadata`: check that the admin API's view of topics and their configuration is one history.

A topic of this workload is a *register*: it holds the value of its `retention.ms`, or nothing while the topic does not
exist. The operations on it, and how they are recorded:

    create    cas, ABSENT to a value        the topic with that configuration; Kafka makes both in one step
    alter     write of a value              IncrementalAlterConfigs, by one process per topic
    delete    write of ABSENT               DeleteTopics, by the same process, when nothing else is open there
    read      read                          DescribeConfigs, behind a barrier (below)

Values are unique, so every read identifies the write that it saw.

What the API promises, and what is modelled. A wrong model is a false alarm:

* There is no compare-and-set of a configuration, and responses carry no versions. So a creation is the only cas, and no
  operation has a version.
* A broker forwards a change to the active controller, and retries it when the connection breaks. So only an
  acknowledgement is definite: TOPIC_ALREADY_EXISTS or UNKNOWN_TOPIC_OR_PARTITION may be the response to the client's
  own retry, and is `info`.
* A change of unknown outcome may therefore also take effect *twice*, before and after a change by another client. No
  register allows that. So a topic with such a change is only read and not changed any more, and the next one is begun
  under another name. A creation that received a response but lost its race is not in doubt in this way.
* An acknowledged change is assumed to be over. In theory Kafka's broker could have an earlier delivery of it in flight
  on a broken connection, which the controller reads later than the retry and everything after it; our own brokers never
  retry a request that they have sent.
* A broker serves reads from its own copy of the metadata, which may be behind (MD-04: views are eventually consistent).
  A plain read is not linearizable and must not be checked as if it were. So a read first changes a separate topic, its
  *barrier*, and requests barrier and register together from one broker until the response shows that change. The
  metadata log is one sequence and every copy applies it in order, so the register's value in that response was true
  after the barrier was committed, which is within the read. This is the claim under test: one log, committed before it
  is acknowledged, applied in order, on every node.

A topic's life, in each of `lanes` lanes at once: all processes of the lane race to create it; all read; one alters it
several times while the others read; it deletes it while they read; all read. Then the next. Operations come in bursts,
one of each process of a lane at the same time, because sequential operations prove little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.core.generator import (
    NANOSECONDS,
    WAIT,
    Answer,
    Context,
    Generator,
    Pending,
    Reserve,
    TimeLimit,
    threads_mask,
)
from squall.workloads.core.operation import (
    ABSENT,
    CAS,
    INFO,
    OK,
    READ,
    WRITE,
    Event,
    Operation,
    unique_value,
)
from squall.workloads.log import PerSecond, Shard
from squall.workloads.register import LastRead

LOST_RACES: Final = frozenset({"topic_already_exists"})
"""Errors of a creation that received a response, and so is not retried any more."""

OWNER: Final = 0
"""The place, among a lane's threads, of the thread that alters and deletes."""

Phase = Literal["create", "read", "alter", "delete", "gone"]
PHASES: Final[tuple[Phase, ...]] = ("create", "read", "alter", "delete", "gone")


class MetadataOptions(BaseModel):
    """Options of the workload `metadata` in a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["metadata"]
    client: Literal["native"] = Field(default="native", description="one request for one operation, in both worlds")
    lanes: int = Field(default=3, ge=1, le=64, description="topics that live at the same time")
    processes: int = Field(default=3, ge=2, le=16, description="processes at work on each of them")
    alters: int = Field(default=4, ge=0, le=1000, description="changes of its configuration in a topic's life")
    rate: PerSecond = Field(default=20.0, description="operations per second over all lanes, e.g. 20/s")
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @property
    def producers(self) -> int:
        """The number that load workers divide among them."""
        return self.lanes

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
        return f"{self.lanes} topics at a time, {self.processes} processes each, {self.rate:g} operations/s on metadata"


def topic_name(lane: int, turn: int) -> str:
    return f"metadata-{lane}-{turn}"


def register_name(topic: str) -> str:
    """The register's name in the history."""
    return f"topic {topic}"


@dataclass(frozen=True, slots=True)
class Lane:
    """One topic after the other. `threads` are this lane's; the first of them alters and deletes.

    `given` counts the operations of each thread in this phase, `open` are the busy threads. `exists`: a creation of the
    topic was acknowledged. `in_doubt`: a change of it may take effect later, or again.
    """

    lane: int
    threads: tuple[int, ...]
    alters: int
    turn: int = 0
    phase: Phase = "create"
    given: tuple[int, ...] = ()
    open: frozenset[int] = frozenset()
    counter: int = 0
    exists: bool = False
    in_doubt: bool = False

    def op(self, context: Context) -> tuple[Answer, Generator]:
        lane = self._advanced()
        places = sorted(range(len(lane.threads)), key=lane._given)
        for place in places:
            if context.free >> lane.threads[place] & 1 and lane._has_work_for(place):
                return lane._given_to(place, context)
        return WAIT, lane

    def update(self, context: Context, event: Event) -> Generator:
        completion, operation = event.completion, event.operation
        if completion is None:
            return self
        lane = replace(self, open=self.open - {operation.thread})
        if operation.f == READ:
            return lane
        if completion.type == INFO and completion.error not in LOST_RACES:
            return replace(lane, in_doubt=True)
        return replace(lane, exists=lane.exists or completion.type == OK)

    def _given(self, place: int) -> int:
        return self.given[place] if self.given else 0

    def _has_work_for(self, place: int) -> bool:
        if self.phase == "alter":
            return self._given(place) < self.alters and not self.in_doubt
        return self._given(place) < 1

    def _advanced(self) -> Lane:
        """Move to the due phase: a phase ends when every thread has had its operations and all are complete."""
        if self.open or any(self._has_work_for(place) for place in range(len(self.threads))):
            return self
        doubtful = self.in_doubt or not self.exists
        if self.phase == "gone" or (doubtful and self.phase == "read"):
            return Lane(self.lane, self.threads, self.alters, turn=self.turn + 1, counter=self.counter)
        following: Phase = PHASES[PHASES.index(self.phase) + 1]
        if doubtful and self.phase == "alter":
            following = "gone"
        return replace(self, phase=following, given=())._advanced()

    def _given_to(self, place: int, context: Context) -> tuple[Answer, Generator]:
        thread = self.threads[place]
        process = context.processes[thread]
        f, value, expected = READ, None, None
        if self.phase == "create":
            f, value, expected = CAS, unique_value(process, self.counter), ABSENT
        elif self.phase == "alter" and place == OWNER:
            f, value = WRITE, unique_value(process, self.counter)
        elif self.phase == "delete" and place == OWNER:
            f, value = WRITE, ABSENT
        topic = topic_name(self.lane, self.turn)
        operation = Operation(
            f,
            thread,
            process,
            context.clients[thread],
            context.meant(),
            topic,
            value=value,
            register=register_name(topic),
            expected=expected,
        )
        given = tuple(self._given(one) + (one == place) for one in range(len(self.threads)))
        return operation, replace(self, given=given, open=self.open | {thread}, counter=self.counter + 1)


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts of `size` operations due at the same time; `per_second` operations in all."""

    per_second: float
    size: int
    generator: Generator
    origin: int = -1
    count: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        origin = context.now if self.origin < 0 else self.origin
        due = origin + int(self.count // self.size * self.size * NANOSECONDS / self.per_second)
        if due > context.now:
            return Pending(due), replace(self, origin=origin)
        answer, after = self.generator.op(context.meant_at(due))
        count = self.count + isinstance(answer, Operation)
        return answer, replace(self, generator=after, origin=origin, count=count)

    def update(self, context: Context, event: Event) -> Generator:
        return replace(self, generator=self.generator.update(context, event))


def _last_read(lane: int, thread: int) -> LastRead:
    """Read the first topic of a lane."""
    topic = topic_name(lane, 0)
    return LastRead(register_name(topic), thread, topic)


@dataclass(frozen=True)
class MetadataWorkload:
    """The plan: lanes with their own threads, then a final read for each. The suite's topics are not used."""

    options: MetadataOptions
    topics: Mapping[str, int]

    @property
    def total_threads(self) -> int:
        """The threads of the load, and one per lane for the final read."""
        return self.options.lanes * (self.options.processes + 1)

    def shard(self, worker: int, workers: int) -> Shard:
        """The load of one worker: every n-th lane, each with its own client."""
        lanes = range(worker, self.options.lanes, workers)
        plans = tuple(ClientPlan(lane, "metadata", self._threads(lane), ()) for lane in lanes)
        rate = self.options.rate / self.options.lanes
        shares = tuple(
            (
                threads_mask(self._threads(lane)),
                Bursts(rate, self.options.processes, Lane(lane, self._threads(lane), self.options.alters)),
            )
            for lane in lanes
        )
        return Shard(plans, Reserve(shares))

    def final_shard(self) -> Shard:
        """Final reads, each behind a barrier: they show that the cluster's metadata works again."""
        start, lanes = self.options.lanes * self.options.processes, range(self.options.lanes)
        threads = tuple(start + lane for lane in lanes)
        plan = ClientPlan(self.options.lanes, "metadata", threads, ())
        shares = tuple((threads_mask((start + lane,)), _last_read(lane, start + lane)) for lane in lanes)
        return Shard((plan,), TimeLimit(self.options.final_timeout, Reserve(shares)))

    def _threads(self, lane: int) -> tuple[int, ...]:
        first = lane * self.options.processes
        return tuple(range(first, first + self.options.processes))
