"""The producer of aiokafka, a third real client, and the kit. It runs in the event loop and needs no threads.

It batches and retries differently from the others. An idempotent producer retries a batch with the same sequence
numbers as long as it has a leader to send to; it never takes a new epoch, so nothing is sent again under other numbers.
But a batch that it gives up (no leader is known for a while, or the response is final) has used up its numbers, and
everything after it on that topic-partition gets OUT_OF_ORDER_SEQUENCE_NUMBER: an idempotent instance is dead after the
first failure.

Records of a topic-partition are handed over one after the other, in the order of calls: the library's `send` waits for
metadata and for room in a batch, and several that wait continue in any order. A record for which it raises there was
never put into a batch, and so is `fail`; `errors.AIOKAFKA` classifies what it reports later. It has no time limit per
record, so a record not reported within ours is `info`, although the library continues to try.

A DUPLICATE_SEQUENCE_NUMBER response counts as acknowledged but carries no offset; the library still computes offsets,
from -1 on. They are recognized by the log start offset, which is -1 as well, and then no offset is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka import errors as aiokafka_errors

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import Client, ClientPlan, TopicPartition
from squall.workloads.clients.common.shared_producer import Delivered, SharedProducer
from squall.workloads.clients.libraries.library_times import AGAIN_SECONDS, CLOSE_SECONDS
from squall.workloads.core.operation import SEND

DELIVERY_SECONDS = 10.0
REQUEST_MS = 3000

LOG = logging.getLogger("squall.aiokafka")

COMMON: Mapping[str, Any] = {
    "metadata_max_age_ms": 2000,
    "retry_backoff_ms": 50,
    "request_timeout_ms": REQUEST_MS,
}

HARMLESS: tuple[type[Exception], ...] = (
    aiokafka_errors.KafkaTimeoutError,
    aiokafka_errors.MessageSizeTooLargeError,
    AssertionError,
)
"""Raised by `send` for one record: there is no room for it, it is too large, or its topic-partition is unknown."""


@dataclass(frozen=True)
class AiokafkaFactory:
    """Makes aiokafka clients for one cluster. `settings` are added to every client's configuration."""

    bootstrap: tuple[tuple[str, int], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = "aiokafka"

    def client(self, plan: ClientPlan) -> Client:
        from squall.workloads.clients.libraries.aiokafka_consumer import AiokafkaConsumer

        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # faults are normal for these clients
        configuration = {
            **COMMON,
            "bootstrap_servers": [f"{host}:{port}" for host, port in self.bootstrap],
            "client_id": f"squall-{plan.role}-{plan.client}",
            **self.settings,
        }
        if plan.rack is not None:
            configuration["client_rack"] = plan.rack
        if plan.role == "producer":
            return AiokafkaProducer(plan, configuration)
        return AiokafkaConsumer(plan, configuration)


class AiokafkaProducer(SharedProducer):
    """One aiokafka producer shared by many processes."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Any]) -> None:
        super().__init__(plan)
        self.configuration = {
            **configuration,
            "acks": "all" if plan.acks == "all" else int(plan.acks),
            "enable_idempotence": plan.idempotent,
            "linger_ms": 10,
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> ProducerInstance:
        return ProducerInstance(self.configuration, loop)


@dataclass(frozen=True, eq=False)
class _Record:
    """A record on its way to the library; after the loop's time `late` it is no longer handed over."""

    place: TopicPartition
    payload: bytes
    report: asyncio.Future[Delivered]
    late: float


class ProducerInstance:
    """An `AIOKafkaProducer` and the tasks that start it, hand it records and end it."""

    def __init__(self, configuration: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.dead = False
        self.renumberings = 0  # it never renumbers
        self._configuration = configuration
        self._loop = loop
        self._started: asyncio.Future[AIOKafkaProducer] = loop.create_future()
        self._retired = asyncio.Event()
        self._abandoned = False
        self._lanes: dict[TopicPartition, asyncio.Queue[_Record]] = {}
        self._pumps: list[asyncio.Task[None]] = []
        self._waiting: set[asyncio.Future[Delivered]] = set()
        self._handed_over: set[asyncio.Future[Delivered]] = set()
        self._serving = loop.create_task(self._serve())

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered:
        """Hand over a record, in the order of calls, and wait for its delivery report."""
        if self._retired.is_set():
            return Delivered(error="closed", refused=True)
        report: asyncio.Future[Delivered] = self._loop.create_future()
        self._waiting.add(report)
        record = _Record((topic, partition), payload, report, self._loop.time() + DELIVERY_SECONDS)
        self._lane(record.place).put_nowait(record)
        try:
            return await report
        finally:
            self._waiting.discard(report)
            self._handed_over.discard(report)

    def retire(self) -> None:
        """Accept no more records; all open ones get a report, and the tasks end."""
        self._retired.set()

    def abandon(self) -> None:
        """Hand over nothing more, and end the library's producer without a flush."""
        self._abandoned = True
        self.retire()
        for pump in self._pumps:
            pump.cancel()
        if self._started.done():
            _send_no_more(self._started.result())

    def gone(self) -> bool:
        return self._serving.done()

    async def ended(self) -> None:
        await asyncio.wait({self._serving})

    async def _serve(self) -> None:
        """Run from start to end. However it ends, every waiting record gets a report."""
        try:
            producer = await self._start()
            if producer is not None:
                self._started.set_result(producer)
                await self._retired.wait()
                await self._stop_pumps()
                await (_broken_off(producer) if self._abandoned else _stopped(producer, CLOSE_SECONDS))
        finally:
            self.dead = True
            await self._stop_pumps()
            for report in tuple(self._handed_over):
                _settle(report, Delivered(error="closed_in_flight" if self._abandoned else "closed"))
            for report in tuple(self._waiting):
                _settle(report, Delivered(error="closed", refused=True))

    async def _start(self) -> AIOKafkaProducer | None:
        """A producer, once a broker responds; None if this instance was retired first."""
        while not self._retired.is_set():
            producer = AIOKafkaProducer(**self._configuration)
            starting = self._loop.create_task(producer.start())
            retired = self._loop.create_task(self._retired.wait())
            await asyncio.wait({starting, retired}, return_when=asyncio.FIRST_COMPLETED)
            retired.cancel()
            if starting.done() and starting.exception() is None:
                return producer
            starting.cancel()
            await asyncio.wait({starting})
            trouble = None if starting.cancelled() else starting.exception()
            await producer.stop()
            if trouble is not None and not isinstance(trouble, aiokafka_errors.KafkaError | OSError):
                raise trouble
            LOG.debug("no producer yet: %s", trouble)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._retired.wait(), AGAIN_SECONDS)
        return None

    async def _stop_pumps(self) -> None:
        """Stop handing over. A cancelled `send` has put nothing into a batch."""
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def _lane(self, place: TopicPartition) -> asyncio.Queue[_Record]:
        if place not in self._lanes:
            self._lanes[place] = asyncio.Queue()
            self._pumps.append(self._loop.create_task(self._pump(self._lanes[place])))
        return self._lanes[place]

    async def _pump(self, lane: asyncio.Queue[_Record]) -> None:
        """Hand over the records of one topic-partition, one after the other."""
        while True:
            record = await lane.get()
            await asyncio.wait({self._started}, timeout=max(0.0, record.late - self._loop.time()))
            if not self._started.done():
                _settle(record.report, Delivered(error="no_broker_answers", refused=True))
            elif record.late < self._loop.time():
                _settle(record.report, Delivered(error="too_late_to_send", refused=True))
            else:
                await self._hand_over(self._started.result(), record)

    async def _hand_over(self, producer: AIOKafkaProducer, record: _Record) -> None:
        topic, partition = record.place
        try:
            delivery = await producer.send(topic, record.payload, partition=partition)
        except Exception as refusal:  # any exception here is raised before the record is in a batch
            self.dead = self.dead or not (isinstance(refusal, HARMLESS) or getattr(refusal, "retriable", False))
            _settle(record.report, Delivered(error=errors.exception_name(refusal), refused=True))
            return
        self._waiting.discard(record.report)
        self._handed_over.add(record.report)
        delivery.add_done_callback(lambda done: self._reported(record.report, done))
        self._loop.call_at(record.late, _settle, record.report, Delivered(error="message_timed_out"))

    def _reported(self, report: asyncio.Future[Delivered], delivery: asyncio.Future[Any]) -> None:
        error = delivery.exception() if not delivery.cancelled() else asyncio.CancelledError()
        if error is None:
            _settle(report, Delivered(offset=offset_of(delivery.result())))
            return
        self.dead = self.dead or bool(self._configuration["enable_idempotence"])
        outcome = errors.raised(errors.AIOKAFKA, SEND, error)
        _settle(report, Delivered(error=outcome.error, meaning=outcome.type))


def offset_of(metadata: Any) -> int | None:
    """The offset at which a record was acknowledged; None if the response had none (see the module)."""
    if metadata is None or metadata.offset < 0 or metadata.log_start_offset == -1:
        return None
    return int(metadata.offset)


async def _stopped(producer: AIOKafkaProducer, seconds: float) -> None:
    """Flush for a while, then end. The library's own `stop` would flush as long as a leader is missing."""
    with contextlib.suppress(TimeoutError, aiokafka_errors.KafkaError):
        await asyncio.wait_for(producer.flush(), seconds)
    with contextlib.suppress(aiokafka_errors.KafkaError):
        await producer._sender.close()  # there is no other way to end it without a flush
    with contextlib.suppress(aiokafka_errors.KafkaError):
        await producer.stop()


def _send_no_more(producer: AIOKafkaProducer) -> None:
    """Stop sending at once: the library drains no further batch. What it has sent continues."""
    sending = producer._sender.sender_task
    if sending is not None and not sending.cancelling():
        sending.cancel()


async def _broken_off(producer: AIOKafkaProducer) -> None:
    """End the producer without a flush, as if it had crashed; the library's own `stop` would flush."""
    producer._closed = True
    _send_no_more(producer)
    with contextlib.suppress(aiokafka_errors.KafkaError, OSError):
        await producer.client.close()  # this also breaks off what is in flight
    sending = producer._sender.sender_task
    if sending is not None and not (await asyncio.wait({sending}, timeout=CLOSE_SECONDS))[0]:
        sending.cancel()  # it waited for metadata, which will not come


def _settle(report: asyncio.Future[Delivered], delivered: Delivered) -> None:
    if not report.done():
        report.set_result(delivered)
