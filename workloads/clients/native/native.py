"""The native client: our own protocol code over a Connector, in simulation and where every response matters.

It exposes what librdkafka hides: which node responded, its leader epoch, the high watermark of every fetch. Nothing
happens without the caller's knowledge:

* A producer without idempotence makes exactly one attempt per operation, so that definite refusals are `fail`.
* An idempotent producer keeps one batch per topic-partition in flight and retries it with the same sequence numbers
  until it is acknowledged or times out (`info`, and a new producer id for later records).
* A consumer's poll is a share of one Fetch (`native_consumer.py`).

Only primitives of docs/architecture.md ("The same world twice") are used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import Client, ClientPlan, Topic, TopicPartition
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.leaders import Address, Leaders, Replica, client_id
from squall.workloads.clients.native.native_client import NativeClient
from squall.workloads.clients.native.native_consumer import NativeConsumer, short
from squall.workloads.clients.native.native_full_log import FullLogReader
from squall.workloads.clients.native.native_metadata import MetadataClient
from squall.workloads.core.admin_load import SIDE_PARTITIONS
from squall.workloads.core.operation import CREATE_PARTITIONS, CREATE_TOPIC, OK, SEND, Completion, Operation
from squall.workloads.core.ports import Clock, Connector

PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 3
ACKS = {"all": -1, "1": 1, "0": 0}

REQUEST_SECONDS = 3.0
BROKER_TIMEOUT_MS = 2000
DELIVERY_SECONDS = 10.0
RETRY_SECONDS = 0.1
LARGEST_BATCH = 500
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


@dataclass
class _Queued:
    """A record that waits to be sent, or is in flight."""

    operation: Operation
    sequence: int
    deadline: int
    done: asyncio.Future[Completion]


class IdempotentProducer:
    """Batches per topic-partition, retried until acknowledged; one batch of each in flight. An instance."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, clock: Clock) -> None:
        self.plan = plan
        self.leaders = leaders
        self.clock = clock
        self.sequence = 0
        self.lanes = {where: _Lane(self, where) for where in plan.topic_partitions}

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        self.sequence += 1
        done: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        deadline = self.clock.now_ns() + int(DELIVERY_SECONDS * 1e9)
        self.lanes[operation.topic, operation.partition].put(_Queued(operation, self.sequence, deadline, done))
        return await done

    def end(self, *, abandoned: bool) -> None:
        for lane in self.lanes.values():
            lane.close()
        self.leaders.end(abandoned=abandoned)

    def successor(self, client: int) -> IdempotentProducer:
        return IdempotentProducer(self.plan, self.leaders.anew(client_id(self.plan, client)), self.clock)


class _Lane:
    """One topic-partition of an idempotent producer, with its own producer id."""

    def __init__(self, producer: IdempotentProducer, where: TopicPartition) -> None:
        self.producer = producer
        self.where = where
        self.queue: deque[_Queued] = deque()
        self.identity: tuple[int, int] | None = None
        self.next_sequence = 0
        self.sending: asyncio.Task[None] | None = None

    def put(self, queued: _Queued) -> None:
        self.queue.append(queued)
        if self.sending is None or self.sending.done():
            self.sending = asyncio.get_running_loop().create_task(self._send_all())

    def close(self) -> None:
        if self.sending is not None:
            self.sending.cancel()
        for queued in self.queue:
            _settle(queued, errors.refused("closed_before_sending"))
        self.queue.clear()

    async def _send_all(self) -> None:
        while self.queue:
            batch = [self.queue.popleft() for _ in range(min(len(self.queue), LARGEST_BATCH))]
            try:
                await self._send(batch)
            except asyncio.CancelledError:
                for queued in batch:
                    _settle(queued, errors.lost(queued.operation.f, "closed_in_flight"))
                raise
            except Exception as trouble:
                # After any exception every waiting record must be settled.
                self._gave_up(batch, short(trouble), transmitted=True)

    async def _send(self, batch: list[_Queued]) -> None:
        """Retry one batch until it is acknowledged or times out."""
        clock, deadline = self.producer.clock, batch[0].deadline
        transmitted = False
        trouble = "message_timed_out"
        while clock.now_ns() < deadline:
            leader = await self.producer.leaders.leader(self.where)
            if leader is None or not await self._identified(leader.address):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            try:
                connection = await self.producer.leaders.connection(leader.address, self.where)
                transmitted = True
                response = await connection.request(
                    self._request(batch), PRODUCE_VERSION, ProduceResponse, REQUEST_SECONDS
                )
            except OSError as failed:
                trouble = short(failed)
                self.producer.leaders.forget(self.where)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            code, offset = produce_answer(response)
            answered = errors.answered(errors.NATIVE_RETRYING, SEND, code)
            if answered.type == OK:
                self._acknowledged(batch, offset if code == 0 else -1, leader)
                return
            trouble = answered.error or trouble
            if code in GIVE_UP:
                break
            self.producer.leaders.forget(self.where)
            await asyncio.sleep(RETRY_SECONDS)
        self._gave_up(batch, trouble, transmitted=transmitted)

    async def _identified(self, address: Address) -> bool:
        """Whether this lane has a producer id; requests one if not."""
        if self.identity is not None:
            return True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await self.producer.leaders.ask(
                address, self.where, request, INIT_PRODUCER_ID_VERSION, InitProducerIdResponse, REQUEST_SECONDS
            )
        except OSError:
            self.producer.leaders.forget(self.where)
            return False
        if answer.error_code != 0:
            return False
        self.identity, self.next_sequence = (answer.producer_id, answer.producer_epoch), 0
        return True

    def _request(self, batch: list[_Queued]) -> ProduceRequest:
        assert self.identity is not None
        size = self.producer.plan.record_size
        records = [
            Record(value=encode_value(queued.operation.value, size))
            for queued in batch
            if queued.operation.value is not None
        ]
        content = build_batch(
            records,
            timestamp=self.producer.clock.now_ns() // 1_000_000,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=self.next_sequence,
        )
        return produce_request(self.where, content, ACKS[self.producer.plan.acks])

    def _acknowledged(self, batch: list[_Queued], base_offset: int, leader: Replica) -> None:
        self.next_sequence = (self.next_sequence + len(batch)) & 0x7FFFFFFF
        for index, queued in enumerate(batch):
            offset = base_offset + index if base_offset >= 0 else None
            _settle(
                queued,
                Completion(OK, offset=offset, sequence=queued.sequence, leader_epoch=leader.epoch, node=leader.node),
            )

    def _gave_up(self, batch: list[_Queued], trouble: str, *, transmitted: bool) -> None:
        self.identity = None
        for queued in batch:
            given = errors.lost("send", trouble) if transmitted else errors.refused("never_transmitted")
            _settle(queued, Completion(given.type, error=given.error, sequence=queued.sequence))


GIVE_UP = frozenset(
    int(code)
    for code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_RECORD,
    )
)
"""Errors that a retry of the same batch cannot change."""


def _settle(queued: _Queued, completion: Completion) -> None:
    if not queued.done.done():
        queued.done.set_result(completion)


def produce_request(where: TopicPartition, batch: bytes | bytearray, acks: int) -> ProduceRequest:
    """One batch for one topic-partition."""
    data = TopicProduceData(name=where[0], partition_data=[PartitionProduceData(index=where[1], records=batch)])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=BROKER_TIMEOUT_MS, topic_data=[data])


def produce_answer(response: ProduceResponse) -> tuple[int, int]:
    """Error code and base offset of the requested topic-partition."""
    for topic in response.responses:
        for part in topic.partition_responses:
            return part.error_code, part.base_offset
    return int(ErrorCode.UNKNOWN_SERVER_ERROR), -1
