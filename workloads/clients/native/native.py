"""The native client: our own protocol code over a Connector, in simulation and where every response matters.

It exposes what librdkafka hides: which node responded, its leader epoch, the high watermark of every fetch. Nothing
happens without the caller's knowledge:

* A producer without idempotence makes exactly one attempt per operation, so that definite refusals are `fail`.
* An idempotent producer keeps one batch per topic-partition in flight and retries it with the same sequence numbers
  until it is acknowledged or times out (`info`, and a new producer id for later records). With
  `ClientPlan.batches_in_flight` it keeps several, and sends again all that follow a failed one (`native_lanes.py`).
* A consumer's poll is a share of one Fetch (`native_consumer.py`).

Only primitives of docs/architecture.md ("The same world twice") are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.nodes.protocol.messages.produce import ProduceResponse
from squall.nodes.protocol.records import Record, build_batch
from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import Client, ClientPlan, Topic
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.leaders import Address, Leaders, client_id
from squall.workloads.clients.native.native_client import NativeClient
from squall.workloads.clients.native.native_consumer import NativeConsumer, short
from squall.workloads.clients.native.native_full_log import FullLogReader
from squall.workloads.clients.native.native_lanes import (
    ACKS,
    PRODUCE_VERSION,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    Queued,
    lane,
    produce_answer,
    produce_request,
)
from squall.workloads.clients.native.native_metadata import MetadataClient
from squall.workloads.core.admin_load import SIDE_PARTITIONS
from squall.workloads.core.operation import CREATE_PARTITIONS, CREATE_TOPIC, OK, Completion, Operation
from squall.workloads.core.ports import Clock, Connector

DELIVERY_SECONDS = 10.0
DEFAULT_REPLICATION_FACTOR = -1
"""Stands for the brokers' `default.replication.factor`."""


@dataclass(frozen=True)
class NativeFactory:
    """Makes native clients for one cluster."""

    connector: Connector
    bootstrap: tuple[Address, ...]
    clock: Clock
    name: str = "native"

    def client(self, plan: ClientPlan) -> Client:
        leaders = Leaders(self.connector, self.bootstrap, client_id(plan, plan.client))
        if plan.role == "consumer":
            consumer = (FullLogReader if plan.whole else NativeConsumer)(plan, leaders, self.clock)
            return NativeClient(consumer, plan.client)
        if plan.role == "metadata":
            return MetadataClient(plan, leaders, NativeAdmin(self.connector, self.bootstrap), self.clock)
        if plan.role == "admin":
            admins = (NativeAdmin(self.connector, rotated(self.bootstrap, place)) for place in range(len(plan.threads)))
            return TopicAdmin(dict(zip(plan.threads, admins, strict=True)))
        producer = (IdempotentProducer if plan.idempotent else SingleAttemptProducer)(plan, leaders, self.clock)
        return NativeClient(producer, plan.client)


class TopicAdmin:
    """Creates, enlarges and deletes topics. After any failure the outcome is unknown.

    Each thread has its own connections, and begins with another broker.
    """

    def __init__(self, admins: Mapping[int, NativeAdmin]) -> None:
        self.admins = admins

    async def open(self) -> None:
        return None

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None
        admin = self.admins[operation.thread]
        try:
            if operation.f == CREATE_TOPIC:
                await admin.create_topics([Topic(operation.topic, 1, DEFAULT_REPLICATION_FACTOR)])
            elif operation.f == CREATE_PARTITIONS:
                await admin.create_partitions(operation.topic, SIDE_PARTITIONS)
            else:
                await admin.delete_topic(operation.topic)
        except OSError as trouble:
            return errors.lost(operation.f, short(trouble))
        return Completion(OK)

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        for admin in self.admins.values():
            await admin.close()


def rotated(addresses: Sequence[Address], places: int) -> tuple[Address, ...]:
    """The same addresses, rotated by so many places."""
    first = places % len(addresses)
    return (*addresses[first:], *addresses[:first])


# --- producers -----------------------------------------------------------------------------------------------------


class SingleAttemptProducer:
    """One operation, one Produce request, one response. An instance (`native_client.py`)."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, clock: Clock) -> None:
        self.plan = plan
        self.leaders = leaders
        self.clock = clock
        self.sequence = 0

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None and operation.value is not None
        where = (operation.topic, operation.partition)
        leader = await self.leaders.leader(where)
        if leader is None:
            await asyncio.sleep(RETRY_SECONDS)
            return errors.refused("no_leader_known")
        payload = encode_value(operation.value, self.plan.record_size)
        batch = build_batch([Record(value=payload)], timestamp=self.clock.now_ns() // 1_000_000)
        request = produce_request(where, batch, ACKS[self.plan.acks])
        try:
            connection = await self.leaders.connection(leader.address, operation.thread)
        except OSError:
            self.leaders.forget(where)
            return errors.refused("not_connected")
        self.sequence += 1
        sequence = self.sequence
        try:
            if self.plan.acks == "0":
                await connection.send_only(request, PRODUCE_VERSION)
                return Completion(OK, sequence=sequence)
            response = await connection.request(request, PRODUCE_VERSION, ProduceResponse, REQUEST_SECONDS)
        except OSError as trouble:
            self.leaders.forget(where)
            return errors.lost(operation.f, short(trouble))
        code, offset = produce_answer(response)
        if code == 0:
            return Completion(OK, offset=offset, sequence=sequence, leader_epoch=leader.epoch, node=leader.node)
        self.leaders.forget(where)
        return errors.single_attempt(operation.f, code)

    def end(self, *, abandoned: bool) -> None:
        self.leaders.end(abandoned=abandoned)

    def successor(self, client: int) -> SingleAttemptProducer:
        return SingleAttemptProducer(self.plan, self.leaders.anew(client_id(self.plan, client)), self.clock)


class IdempotentProducer:
    """Batches per topic-partition, retried until acknowledged (`native_lanes.py`). An instance."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, clock: Clock) -> None:
        self.plan = plan
        self.leaders = leaders
        self.clock = clock
        self.sequence = 0
        self.lanes = {where: lane(plan, leaders, clock, where) for where in plan.topic_partitions}

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        self.sequence += 1
        done: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        deadline = self.clock.now_ns() + int(DELIVERY_SECONDS * 1e9)
        self.lanes[operation.topic, operation.partition].put(Queued(operation, self.sequence, deadline, done))
        return await done

    def end(self, *, abandoned: bool) -> None:
        for one in self.lanes.values():
            one.close()
        self.leaders.end(abandoned=abandoned)

    def successor(self, client: int) -> IdempotentProducer:
        return IdempotentProducer(self.plan, self.leaders.anew(client_id(self.plan, client)), self.clock)
