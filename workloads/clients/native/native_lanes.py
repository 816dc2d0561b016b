"""The lanes of an idempotent producer: each sends the records of one topic-partition, in order and once.

A lane has a producer id of its own. Every record that is put in it is settled once:

* `ok` when the broker acknowledges it, or answers that an earlier attempt was appended.
* `info` when the lane gives it up or is closed, and an attempt may have been transmitted.
* `fail` only if no attempt was transmitted.

`SerialLane` keeps one batch in flight, `PipelinedLane` up to `ClientPlan.batches_in_flight`, as Kafka's producers do
(max.in.flight.requests.per.connection). Invariants of the second:

* A batch has the same records, producer id and sequence numbers in all of its attempts.
* `flight` is in order of sequence numbers, and its first batch is not acknowledged. Batches that were acknowledged
  behind the first stay in it until the first is settled. So every batch that may be sent again is among the last ones
  of its producer that the broker remembers, as long as that is at least `batches_in_flight`.
* After a failure no new batch is sent before all responses have come and the failed batches are sent again, in order.
* Batches of two producer ids are never in flight together: a retry of the earlier one could overtake the later one.

OUT_OF_ORDER_SEQUENCE_NUMBER for a batch behind the first unacknowledged one means that the earlier one has to be
appended before it. A batch may still be appended although the one before it was refused: a broker accepts any sequence
number from a producer that it does not know. The refused batch is then out of order and is given up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
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
from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.common.payload import encode_value
from squall.workloads.clients.native.connection import KafkaConnection
from squall.workloads.clients.native.leaders import Address, Leaders, Replica
from squall.workloads.clients.native.native_consumer import short
from squall.workloads.core.operation import OK, SEND, Completion, Operation
from squall.workloads.core.ports import Clock

PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 3
ACKS = {"all": -1, "1": 1, "0": 0}

REQUEST_SECONDS = 3.0
BROKER_TIMEOUT_MS = 2000
RETRY_SECONDS = 0.1
LARGEST_BATCH = 500
LAST_SEQUENCE = 0x7FFFFFFF
"""Sequence numbers continue with 0 after this one."""
TIMED_OUT = "message_timed_out"

OUT_OF_ORDER = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
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


@dataclass
class Queued:
    """A record that waits to be sent, or is in flight."""

    operation: Operation
    sequence: int
    deadline: int
    done: asyncio.Future[Completion]

    def settle(self, completion: Completion) -> None:
        if not self.done.done():
            self.done.set_result(completion)


def lane(plan: ClientPlan, leaders: Leaders, clock: Clock, where: TopicPartition) -> Lane:
    """A lane with as many batches in flight as the plan says."""
    kind = SerialLane if plan.batches_in_flight == 1 else PipelinedLane
    return kind(plan, leaders, clock, where)


class Lane(ABC):
    """One topic-partition of an idempotent producer, with its own producer id."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, clock: Clock, where: TopicPartition) -> None:
        self.plan = plan
        self.leaders = leaders
        self.clock = clock
        self.where = where
        self.queue: deque[Queued] = deque()
        self.identity: tuple[int, int] | None = None
        self.next_sequence = 0
        self.sending: asyncio.Task[None] | None = None

    def put(self, queued: Queued) -> None:
        self.queue.append(queued)
        if self.sending is None or self.sending.done():
            self.sending = asyncio.get_running_loop().create_task(self._send_all())

    def close(self) -> None:
        """Settle every record, and send nothing more."""
        if self.sending is not None:
            self.sending.cancel()
        self._refuse_queued("closed_before_sending")

    @abstractmethod
    async def _send_all(self) -> None:
        """Send until every record is settled."""

    def _refuse_queued(self, reason: str) -> None:
        for queued in self.queue:
            queued.settle(errors.refused(reason))
        self.queue.clear()

    def _next_records(self) -> list[Queued]:
        """Take the records of a new batch out of the queue."""
        return [self.queue.popleft() for _ in range(min(len(self.queue), LARGEST_BATCH))]

    async def _identified(self, address: Address) -> bool:
        """Whether this lane has a producer id; requests one if not."""
        if self.identity is not None:
            return True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await self.leaders.ask(
                address, self.where, request, INIT_PRODUCER_ID_VERSION, InitProducerIdResponse, REQUEST_SECONDS
            )
        except OSError:
            self.leaders.forget(self.where)
            return False
        if answer.error_code != 0:
            return False
        self.identity, self.next_sequence = (answer.producer_id, answer.producer_epoch), 0
        return True

    def _request(self, batch: Sequence[Queued], identity: tuple[int, int], base_sequence: int) -> ProduceRequest:
        size = self.plan.record_size
        records = [
            Record(value=encode_value(queued.operation.value, size))
            for queued in batch
            if queued.operation.value is not None
        ]
        content = build_batch(
            records,
            timestamp=self.clock.now_ns() // 1_000_000,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=base_sequence,
        )
        return produce_request(self.where, content, ACKS[self.plan.acks])


class SerialLane(Lane):
    """A lane that sends the next batch after the one in flight is settled."""

    async def _send_all(self) -> None:
        while self.queue:
            batch = self._next_records()
            try:
                await self._send(batch)
            except asyncio.CancelledError:
                for queued in batch:
                    queued.settle(errors.lost(queued.operation.f, "closed_in_flight"))
                raise
            except Exception as trouble:
                # After any exception every waiting record must be settled.
                self._gave_up(batch, short(trouble), transmitted=True)

    async def _send(self, batch: list[Queued]) -> None:
        """Retry one batch until it is acknowledged or times out."""
        clock, deadline = self.clock, batch[0].deadline
        transmitted = False
        trouble = TIMED_OUT
        while clock.now_ns() < deadline:
            leader = await self.leaders.leader(self.where)
            if leader is None or not await self._identified(leader.address):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            assert self.identity is not None
            try:
                connection = await self.leaders.connection(leader.address, self.where)
                transmitted = True
                request = self._request(batch, self.identity, self.next_sequence)
                response = await connection.request(request, PRODUCE_VERSION, ProduceResponse, REQUEST_SECONDS)
            except OSError as failed:
                trouble = short(failed)
                self.leaders.forget(self.where)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            code, offset = produce_answer(response)
            answered = errors.answered(errors.NATIVE_RETRYING, SEND, code)
            if answered.type == OK:
                self.next_sequence = _after(self.next_sequence, batch)
                _acknowledge(batch, offset if code == 0 else -1, leader)
                return
            trouble = answered.error or trouble
            if code in GIVE_UP:
                break
            self.leaders.forget(self.where)
            await asyncio.sleep(RETRY_SECONDS)
        self._gave_up(batch, trouble, transmitted=transmitted)

    def _gave_up(self, batch: list[Queued], trouble: str, *, transmitted: bool) -> None:
        self.identity = None
        _give_up(batch, errors.lost(SEND, trouble) if transmitted else errors.refused("never_transmitted"))


@dataclass(eq=False)
class _Batch:
    """Records that every attempt sends under the same sequence numbers; `attempt` is the one under way."""

    records: list[Queued]
    identity: tuple[int, int]
    base_sequence: int
    attempt: asyncio.Task[None] | None = None
    transmitted: bool = False
    acknowledged: bool = False
    fatal: bool = False
    trouble: str = TIMED_OUT

    @property
    def failed(self) -> bool:
        """Whether its last attempt has failed."""
        return self.attempt is None and not self.acknowledged

    @property
    def deadline(self) -> int:
        return self.records[0].deadline


class PipelinedLane(Lane):
    """A lane that sends batches without waiting for the responses to those before; see the module."""

    def __init__(self, plan: ClientPlan, leaders: Leaders, clock: Clock, where: TopicPartition) -> None:
        super().__init__(plan, leaders, clock, where)
        self.flight: list[_Batch] = []
        self.changed = asyncio.Event()
        """Set when a record is put here and when an attempt ends."""
        self.closed = False

    def put(self, queued: Queued) -> None:
        if self.closed:
            queued.settle(errors.refused("closed_before_sending"))
            return
        super().put(queued)
        self.changed.set()

    def close(self) -> None:
        self.closed = True
        super().close()
        self._close_flight()

    async def _send_all(self) -> None:
        try:
            while self.queue or self.flight:
                try:
                    settled = await self._round()
                except Exception as trouble:
                    # After any exception every waiting record must be settled.
                    self._give_up_all(short(trouble))
                    continue
                if not settled:
                    await asyncio.sleep(RETRY_SECONDS)
        except asyncio.CancelledError:
            self._close_flight()
            self._refuse_queued("closed_before_sending")
            raise

    async def _round(self) -> bool:
        """Send what is in flight, then new batches until one fails; return when no response is outstanding.

        False: nothing could be sent, or there are batches to send again.
        """
        if self.flight and self.flight[0].deadline <= self.clock.now_ns():
            self._give_up_from(0)
        self._refuse_expired()
        if not self.queue and not self.flight:
            return True
        leader = await self.leaders.leader(self.where)
        if leader is None:
            return False
        if not self.flight and not await self._identified(leader.address):
            return False
        try:
            connection = await self.leaders.connection(leader.address, self.where)
        except OSError:
            self.leaders.forget(self.where)
            return False
        for batch in self.flight:
            if not batch.acknowledged:
                self._start(batch, connection, leader)
        await self._fill(connection, leader)
        for index, batch in enumerate(self.flight):
            if batch.fatal:
                self._give_up_from(index)
                break
        if self.flight:
            self.leaders.forget(self.where)
        return not self.flight

    async def _fill(self, connection: KafkaConnection, leader: Replica) -> None:
        """Send new batches while none has failed and there is room; return when no response is outstanding."""
        while True:
            while (batch := self._next_batch()) is not None:
                self._start(batch, connection, leader)
            if all(batch.attempt is None for batch in self.flight):
                return
            self.changed.clear()
            await self.changed.wait()

    def _next_batch(self) -> _Batch | None:
        """Form a batch of queued records and add it to those in flight; None if there is no room or no record."""
        if self.identity is None or len(self.flight) >= self.plan.batches_in_flight:
            return None
        if any(batch.failed for batch in self.flight):
            return None
        self._refuse_expired()
        if not self.queue:
            return None
        batch = _Batch(self._next_records(), self.identity, self.next_sequence)
        self.next_sequence = _after(self.next_sequence, batch.records)
        self.flight.append(batch)
        return batch

    def _start(self, batch: _Batch, connection: KafkaConnection, leader: Replica) -> None:
        # Tasks start in the order of their creation, and a request is on its way before its task first waits.
        batch.attempt = asyncio.get_running_loop().create_task(self._attempt(batch, connection, leader))

    async def _attempt(self, batch: _Batch, connection: KafkaConnection, leader: Replica) -> None:
        try:
            request = self._request(batch.records, batch.identity, batch.base_sequence)
            batch.transmitted = True
            response = await connection.request(request, PRODUCE_VERSION, ProduceResponse, REQUEST_SECONDS)
            self._answered(batch, *produce_answer(response), leader)
        except OSError as failed:
            batch.trouble = short(failed)
        except Exception as unexpected:
            batch.trouble, batch.fatal = short(unexpected), True
        finally:
            batch.attempt = None
            self.changed.set()

    def _answered(self, batch: _Batch, code: int, offset: int, leader: Replica) -> None:
        answered = errors.answered(errors.NATIVE_RETRYING, SEND, code)
        if answered.type == OK:
            batch.acknowledged = True
            _acknowledge(batch.records, offset if code == 0 else -1, leader)
            while self.flight and self.flight[0].acknowledged:
                del self.flight[0]
            return
        batch.trouble = answered.error or batch.trouble
        behind_another = code == OUT_OF_ORDER and batch not in self.flight[:1]
        batch.fatal = code in GIVE_UP and not behind_another

    def _give_up_from(self, index: int) -> None:
        """Settle the index-th batch in flight and all after it. Later records get a new producer id."""
        self.identity = None
        given_up = self.flight[index:]
        del self.flight[index:]
        for batch in given_up:
            if batch.attempt is not None:
                batch.attempt.cancel()
            lost, refused = errors.lost(SEND, batch.trouble), errors.refused(batch.trouble)
            _give_up(batch.records, lost if batch.transmitted else refused)

    def _give_up_all(self, trouble: str) -> None:
        for batch in self.flight:
            batch.trouble = trouble
        self._give_up_from(0)
        self._refuse_queued(trouble)

    def _refuse_expired(self) -> None:
        """Settle queued records whose deadline is over. No attempt of them was made."""
        now = self.clock.now_ns()
        while self.queue and self.queue[0].deadline <= now:
            _give_up([self.queue.popleft()], errors.refused("never_transmitted"))

    def _close_flight(self) -> None:
        for batch in self.flight:
            if batch.attempt is not None:
                batch.attempt.cancel()
            for queued in batch.records:
                lost = errors.lost(queued.operation.f, "closed_in_flight")
                queued.settle(lost if batch.transmitted else errors.refused("closed_before_sending"))
        self.flight.clear()


def _after(sequence: int, records: Sequence[Queued]) -> int:
    """The sequence number after these records."""
    return (sequence + len(records)) & LAST_SEQUENCE


def _acknowledge(records: Sequence[Queued], base_offset: int, leader: Replica) -> None:
    """Settle records as acknowledged; a negative offset is unknown."""
    for index, queued in enumerate(records):
        offset = base_offset + index if base_offset >= 0 else None
        queued.settle(
            Completion(OK, offset=offset, sequence=queued.sequence, leader_epoch=leader.epoch, node=leader.node)
        )


def _give_up(records: Sequence[Queued], given: Completion) -> None:
    for queued in records:
        queued.settle(Completion(given.type, error=given.error, sequence=queued.sequence))


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
