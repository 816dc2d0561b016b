"""kafka-python: a second real client, in plain Python, that shares no code with librdkafka.

Two clients that agree about a broker are stronger evidence than one: their producers number, batch, retry and give up
differently (kafka-python keeps one request of a topic-partition in flight and fails open records when it takes a new
producer epoch). `shared_producer.py` decides what is recorded of a producer.

The library blocks: at construction until a broker responds, in `send` until it knows the topic-partition. So every
instance has one thread that constructs it and hands it records in the order of `sequence`; the library's own threads
report deliveries, which reach the event loop in batches (`Mailbox`).

It retries on its own, so each of its errors is `info`; only a record that it never received, or refused at once, is
`fail`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import Client, ClientPlan
from squall.workloads.clients.common.client_threads import await_end
from squall.workloads.clients.common.errors import exception_name
from squall.workloads.clients.common.inbox import Mailbox
from squall.workloads.clients.common.shared_producer import Delivered, SharedProducer
from squall.workloads.clients.libraries.library_times import AGAIN_SECONDS, CLOSE_SECONDS
from squall.workloads.core.operation import SEND

DELIVERY_SECONDS = 10.0

LOG = logging.getLogger("squall.kafka-python")

COMMON: Mapping[str, Any] = {
    "bootstrap_timeout_ms": 2000,
    "metadata_max_age_ms": 2000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}

RECOVERED: tuple[type[Exception], ...] = (
    kafka_errors.RetriableError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.UnknownProducerIdError,
    kafka_errors.InvalidProducerEpochError,
)
"""Errors after which a producer recovers, with a new epoch if necessary."""


@dataclass(frozen=True)
class KafkaPythonFactory:
    """Makes kafka-python clients for one cluster. `settings` are added to every client's configuration."""

    bootstrap: tuple[tuple[str, int], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = "kafka-python"

    def client(self, plan: ClientPlan) -> Client:
        from squall.workloads.clients.libraries.kafka_python_consumer import KafkaPythonConsumer

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # faults are normal for these clients
        configuration = {
            **COMMON,
            "bootstrap_servers": [f"{host}:{port}" for host, port in self.bootstrap],
            "client_id": f"squall-{plan.role}-{plan.client}",
            **self.settings,
        }
        if plan.rack is not None:
            configuration["client_rack"] = plan.rack
        if plan.role == "producer":
            return KafkaPythonProducer(plan, configuration)
        return KafkaPythonConsumer(plan, configuration)


class KafkaPythonProducer(SharedProducer):
    """One kafka-python producer shared by many processes."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Any]) -> None:
        super().__init__(plan)
        self.configuration = {
            **configuration,
            "acks": "all" if plan.acks == "all" else int(plan.acks),
            "enable_idempotence": plan.idempotent,
            "linger_ms": 10,
            "request_timeout_ms": 2000,
            "delivery_timeout_ms": int(DELIVERY_SECONDS * 1000),
            "max_block_ms": 2000,
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> ProducerInstance:
        return ProducerInstance(self.configuration, loop)


@dataclass(frozen=True)
class _Record:
    """A record on its way to the library; after the monotonic second `late` it is no longer handed over."""

    topic: str
    partition: int
    payload: bytes
    report: asyncio.Future[Delivered]
    late: float


class ProducerInstance:
    """A `KafkaProducer` and the thread that constructs it and hands it records."""

    def __init__(self, configuration: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.dead = False
        self.renumberings = 0  # it reports none without failing a record
        self._configuration = configuration
        self._loop = loop
        self._mailbox = Mailbox(loop)
        self._open: set[asyncio.Future[Delivered]] = set()
        self._records: queue.SimpleQueue[_Record | None] = queue.SimpleQueue()
        self._waiting: deque[_Record | None] = deque()
        """What the thread has taken out of the queue and not handed over; all of it precedes the queue's content."""
        self._retired = threading.Event()
        self._abandoned = threading.Event()
        self._producer: KafkaProducer | None = None
        self.thread = threading.Thread(target=self._serve, name="kafka-python-producer", daemon=True)
        self.thread.start()

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered:
        """Hand over a record, in the order of calls, and wait for its delivery report."""
        report: asyncio.Future[Delivered] = self._loop.create_future()
        if self._retired.is_set():
            return Delivered(error="closed", refused=True)
        self._open.add(report)
        report.add_done_callback(self._open.discard)
        self._records.put(_Record(topic, partition, payload, report, time.monotonic() + DELIVERY_SECONDS))
        return await report

    def retire(self) -> None:
        """Accept no more records; all open ones get a report, and the thread ends."""
        if not self._retired.is_set():
            self._retired.set()
            self._records.put(None)

    def abandon(self) -> None:
        """Hand over nothing more, and make the library drop what it has."""
        self._abandoned.set()
        self.retire()
        producer = self._producer  # read once: the thread forgets it when it ends
        if producer is not None:
            producer._sender.force_close()  # its `close` would flush first

    def gone(self) -> bool:
        return not self.thread.is_alive()

    async def ended(self) -> None:
        await await_end(self.thread)

    def _serve(self) -> None:
        """The thread's function. However it ends, every waiting record gets a report."""
        try:
            self._producer = producer = self._constructed()
            if producer is not None:
                try:
                    while (record := self._next()) is not None:
                        self._hand_over(producer, record)
                finally:
                    self._end(producer)
        finally:
            self._producer = None
            self.dead = True
            self._mailbox.post(self._settle_open)

    def _constructed(self) -> KafkaProducer | None:
        """A producer, once a broker responds; None if this instance was retired first."""
        while not self._retired.is_set():
            try:
                return KafkaProducer(**self._configuration)
            except (kafka_errors.KafkaError, OSError) as trouble:
                LOG.debug("no producer yet: %s", trouble)
            self._refuse_late("no_broker_answers")
            self._retired.wait(AGAIN_SECONDS)
        self._refuse_late("closed", all_of_them=True)
        return None

    def _refuse_late(self, reason: str, *, all_of_them: bool = False) -> None:
        """Refuse records that have waited too long for a producer; they were never transmitted, and will not be.

        The remaining ones stay first: what the event loop adds to the queue meanwhile comes after them.
        """
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.append(self._records.get_nowait())
        while self._waiting:
            record = self._waiting[0]
            if record is None or not (all_of_them or record.late < time.monotonic()):
                return
            self._waiting.popleft()
            self._report(record.report, Delivered(error=reason, refused=True))

    def _next(self) -> _Record | None:
        """The oldest record not handed over; None after the last."""
        return self._waiting.popleft() if self._waiting else self._records.get()

    def _end(self, producer: KafkaProducer) -> None:
        """Flush for a while, unless abandoned, then drop the rest.

        The library's own `close` raises when its flush does not succeed, and leaves its thread running.
        """
        if not self._abandoned.is_set():
            with contextlib.suppress(kafka_errors.KafkaError):
                producer.flush(CLOSE_SECONDS)
        producer._sender.force_close()
        producer._sender.join(CLOSE_SECONDS)
        with contextlib.suppress(kafka_errors.KafkaError):
            producer.close(timeout=0)

    def _hand_over(self, producer: KafkaProducer, record: _Record) -> None:
        if self._abandoned.is_set() or record.late < time.monotonic():
            reason = "closed" if self._abandoned.is_set() else "too_late_to_send"
            self._report(record.report, Delivered(error=reason, refused=True))
            return
        try:
            future = producer.send(record.topic, record.payload, partition=record.partition)
        except (kafka_errors.KafkaError, AssertionError) as refusal:  # raised before the record is in a batch
            self.dead = self.dead or not isinstance(refusal, RECOVERED)
            self._report(record.report, Delivered(error=exception_name(refusal), refused=True))
            return
        future.add_callback(lambda metadata: self._acknowledged(record.report, metadata.offset))
        future.add_errback(lambda error: self._failed(record.report, error))

    def _acknowledged(self, report: asyncio.Future[Delivered], offset: int) -> None:
        """Without acknowledgements the library invents offsets, from 0 on in every batch."""
        told = offset >= 0 and self._configuration.get("acks") != 0
        self._report(report, Delivered(offset=offset if told else None))

    def _failed(self, report: asyncio.Future[Delivered], error: Exception) -> None:
        self.dead = self.dead or not isinstance(error, RECOVERED)
        outcome = errors.raised(errors.KAFKA_PYTHON, SEND, error)
        self._report(report, Delivered(error=outcome.error, meaning=outcome.type))

    def _report(self, report: asyncio.Future[Delivered], delivered: Delivered) -> None:
        self._mailbox.post(lambda: _settle(report, delivered))

    def _settle_open(self) -> None:
        """Settle records that will get no report any more; they may have arrived."""
        for report in tuple(self._open):
            _settle(report, Delivered(error="closed_in_flight" if self._abandoned.is_set() else "closed"))


def _settle(report: asyncio.Future[Delivered], delivered: Delivered) -> None:
    if not report.done():
        report.set_result(delivered)
