"""confluent-kafka (librdkafka): the real client on hosts.

librdkafka runs its own threads and calls back only from `poll`. So each adapter runs one Python thread that only polls
and passes the results to the event loop in batches; `invoke` only waits for a future.

`shared_producer.py` decides what is recorded of a producer. librdkafka pipelines its records; a fatal error makes an
instance dead. In two cases it takes a new producer epoch and sends again, as new records, everything without a
response, on any topic-partition: when a record times out, and when a request behind a failed one gets
OUT_OF_ORDER_SEQUENCE_NUMBER. No delivery report mentions the latter, but its log does (`RENUMBERS`), through the same
queue as the reports. A response without an offset (DUPLICATE_SEQUENCE_NUMBER) gives the first record of its batch the
offset -1, and the others 0, 1 and so on: librdkafka counts on from it (`Offsets`).

A consumer reads every topic-partition of its plan by manual assignment and passes each topic-partition's records to the
process that polls it. On a truncated or vanished position the consumer restarts that topic-partition from the beginning
in a new session; the failed poll before it states the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import Client, ClientPlan, TopicPartition
from squall.workloads.clients.common.client_threads import await_end
from squall.workloads.clients.common.inbox import Run
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.clients.common.shared_consumer import POLL_SECONDS, Sessions, SharedConsumer, ThreadedInstance
from squall.workloads.clients.common.shared_producer import Delivered, SharedProducer
from squall.workloads.core.operation import LIST_OFFSETS, OK, SEND, Completion

CONSUME_BATCH = 1000
CONSUME_SECONDS = 0.1
POLL_THREAD_SECONDS = 0.05
CLOSE_SECONDS = 2.0

LOG = logging.getLogger("squall.confluent")

RENUMBERS = ("epoch bump", " reset for ")
"""Parts of librdkafka's log lines about producer ids (debug context `eos`): it is about to use other numbers."""

Setting = str | int | float | bool

COMMON: Mapping[str, Setting] = {
    "socket.nagle.disable": True,
    "socket.timeout.ms": 4000,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "api.version.request.timeout.ms": 3000,
    "log_level": 0,
}


@dataclass(frozen=True)
class ConfluentFactory:
    """Makes librdkafka clients for one cluster. `settings` are added to every client's configuration."""

    bootstrap: tuple[tuple[str, int], ...]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    name: str = "confluent"

    def client(self, plan: ClientPlan) -> Client:
        configuration: dict[str, Setting] = {
            **COMMON,
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self.bootstrap),
            "client.id": f"squall-{plan.role}-{plan.client}",
            **self.settings,
        }
        if plan.role == "producer":
            return ConfluentProducer(plan, configuration)
        return ConfluentConsumer(plan, configuration)


class ConfluentProducer(SharedProducer):
    """One librdkafka producer shared by many processes."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Setting]) -> None:
        super().__init__(plan)
        self.configuration = {
            **configuration,
            "acks": plan.acks,
            "enable.idempotence": plan.idempotent,
            "linger.ms": 10,
            "request.timeout.ms": 2000,
            "delivery.timeout.ms": 10_000,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 500,
            "debug": "eos",
            "log_level": 7,
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> _ProducerInstance:
        return _ProducerInstance(self.configuration, loop)


Report = tuple[KafkaError | None, int | None]
Told = tuple[asyncio.Future[Report], Report]


class _Listener(logging.Handler):
    """Receives what an instance of librdkafka logs, and reports renumberings."""

    def __init__(self, renumbers: Callable[[], None]) -> None:
        super().__init__(logging.DEBUG)
        self._renumbers = renumbers

    def emit(self, record: logging.LogRecord) -> None:
        if tells_of_renumbering(record.getMessage()):
            self._renumbers()


def tells_of_renumbering(line: str) -> bool:
    """Whether a line of librdkafka's log says that a producer continues under another id or epoch."""
    return line.startswith("DRAIN") and any(words in line for words in RENUMBERS)


def _heard_by(listener: _Listener) -> logging.Logger:
    """A private logger with this listener."""
    logger = logging.Logger("squall.librdkafka", logging.DEBUG)
    logger.addHandler(listener)
    return logger


class Offsets:
    """Distinguishes the brokers' offsets in delivery reports from invented ones, in the order of the reports.

    librdkafka invents offsets from -1 on for the records of a batch. They are recognizable: these records have been
    appended, so a record appended after them has a larger offset than the next invented one.
    """

    def __init__(self) -> None:
        self._made_up_next: dict[tuple[str | None, int | None], int] = {}

    def answered(self, topic: str | None, partition: int | None, offset: int | None) -> int | None:
        """The broker's offset, or None. `offset` is the report's: None where that is negative."""
        place = (topic, partition)
        if offset is None or self._made_up_next.get(place) == offset:
            self._made_up_next[place] = 0 if offset is None else offset + 1
            return None
        self._made_up_next.pop(place, None)
        return offset


class _ProducerInstance:
    """A librdkafka producer and the thread that polls it for delivery reports."""

    def __init__(self, configuration: Mapping[str, Setting], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.dead = False
        self.retired = threading.Event()
        self.renumberings = 0
        self.reports: deque[Told | None] = deque()
        """None stands for a renumbering."""
        self.open: set[asyncio.Future[Report]] = set()
        self.offsets = Offsets()
        self.acknowledged = configuration["acks"] != "0"
        logger = _heard_by(_Listener(lambda: self.reports.append(None)))
        self.producer: Producer | None = Producer({**configuration, "error_cb": self._error}, logger=logger)
        self.thread = threading.Thread(target=self._poll, name="producer-poll", daemon=True)
        self.thread.start()

    async def send(self, topic: str, partition: int, payload: bytes) -> Delivered:
        """Hand over a record, without waiting, and wait for its delivery report."""
        producer = self.producer
        if producer is None or self.retired.is_set():
            return Delivered(error="closed", refused=True)
        report: asyncio.Future[Report] = self.loop.create_future()
        self.open.add(report)

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = None if error else self.offsets.answered(message.topic(), message.partition(), message.offset())
            self.reports.append((report, (error, offset)))

        try:
            producer.produce(topic, value=payload, partition=partition, on_delivery=delivered)
        except (BufferError, KafkaException) as refusal:
            self.open.discard(report)
            full = isinstance(refusal, BufferError)
            return Delivered(error="queue_full" if full else _named(refusal.args[0]), refused=True)
        try:
            error, offset = await report
        finally:
            self.open.discard(report)
        if error is None:
            return Delivered(offset=offset if self.acknowledged else None)
        outcome = errors.retrying(SEND, error.code(), error.name())
        return Delivered(error=outcome.error, meaning=outcome.type)

    def retire(self) -> None:
        """Stop polling once everything open has been reported or purged."""
        self.retired.set()

    def abandon(self) -> None:
        """Purge at once, so that nothing more is sent while the thread ends."""
        self.retire()
        producer = self.producer  # read once: the thread forgets it when it ends
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)

    def gone(self) -> bool:
        return not self.thread.is_alive()

    async def ended(self) -> None:
        await await_end(self.thread)

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.dead = True

    def _poll(self) -> None:
        """In a thread: poll until retired or dead, then make sure that every open record gets a report."""
        producer = self.producer
        assert producer is not None
        try:
            while not self.retired.is_set():
                producer.poll(POLL_THREAD_SECONDS)
                self._hand_over()
        except Exception as death:  # usually librdkafka has given up this instance
            self.dead = True
            LOG.warning("a producer is dead: %s", death)
        with contextlib.suppress(KafkaException):
            producer.purge()
            producer.flush(CLOSE_SECONDS)
        self._hand_over()
        _call_soon(self.loop, self._settle_open)
        self.producer = None  # the last reference ends librdkafka's threads, here and not in the event loop

    def _settle_open(self) -> None:
        """Settle records that will get no report any more; they may have arrived."""
        self._settle(deque((report, (KafkaError(KafkaError._DESTROY), None)) for report in tuple(self.open)))

    def _hand_over(self) -> None:
        if self.reports:
            batch, self.reports = self.reports, deque()
            _call_soon(self.loop, lambda: self._settle(batch))

    def _settle(self, batch: deque[Told | None]) -> None:
        """In the event loop. Tasks that wait for a report continue only after all of these."""
        for told in batch:
            if told is None:
                self.renumberings += 1
            elif not told[0].done():
                told[0].set_result(told[1])


def _named(error: KafkaError) -> str:
    return error.name().lower().lstrip("_")


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Schedule from another thread; dropped if the loop has ended."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        LOG.debug("the event loop has ended; dropping a callback")


class ConfluentConsumer(SharedConsumer):
    """One librdkafka consumer, manually assigned; every process polls one of its topic-partitions."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Setting]) -> None:
        super().__init__(plan)
        self.configuration: dict[str, Setting] = {
            **configuration,
            "group.id": f"squall-{plan.client}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "fetch.min.bytes": 16_384,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
        }
        if plan.rack is not None:
            self.configuration["client.rack"] = plan.rack

    def start(self, sessions: Sessions) -> ConfluentInstance:
        instance = ConfluentInstance(self.configuration, sessions, from_beginning=self.plan.from_beginning)
        instance.begin()
        return instance


class ConfluentInstance(ThreadedInstance):
    """A librdkafka consumer and the thread that polls it."""

    def __init__(self, configuration: Mapping[str, Setting], sessions: Sessions, *, from_beginning: bool) -> None:
        super().__init__(sessions, "consumer-poll")
        self.offsets = OffsetsClient(of_connections(configuration))
        self.consumer = Consumer(dict(configuration), logger=LOG)
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self.consumer.assign([ConfluentTopicPartition(topic, partition, start) for topic, partition in sessions])

    async def list_offsets(self, place: TopicPartition) -> Completion:
        """Report both ends of a log, by an admin client: librdkafka's consumer would block a thread for it."""
        try:
            asked = self.offsets.ask(place)
            if asked is None:
                await asyncio.wait({self.over})
                return errors.refused(self.died_of or "closed")
            low, high = await asyncio.gather(*map(asyncio.wrap_future, asked))
        except KafkaException as trouble:
            return errors.retrying(LIST_OFFSETS, trouble.args[0].code(), trouble.args[0].name())
        return Completion(OK, high_watermark=high.offset, log_start=low.offset, leader_epoch=high.leader_epoch)

    def name_of(self, trouble: Exception) -> str:
        return _named(trouble.args[0]) if isinstance(trouble, KafkaException) else super().name_of(trouble)

    # -- the thread -----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        try:
            while not self.retired.is_set():
                self.carry_out_seeks()
                self._sort_in(self.consumer.consume(CONSUME_BATCH, timeout=CONSUME_SECONDS))
        finally:
            self.offsets.end()
            with contextlib.suppress(KafkaException):
                self.consumer.close()

    def go_to(self, place: TopicPartition, offset: int) -> None:
        """Unassign and reassign, so that librdkafka drops what it has fetched."""
        assignment = [ConfluentTopicPartition(*place, offset)]
        self.consumer.incremental_unassign(assignment)
        self.consumer.incremental_assign(assignment)

    def _sort_in(self, messages: list[Message]) -> None:
        runs, gone = sort_out(messages, self.sessions)
        for place, run in runs:
            self.arrived(place, run)
        for place in gone:
            self.go_to(place, OFFSET_BEGINNING)
            self.begin_session(place)


class OffsetsClient:
    """The admin client of a consumer, created for the first question about offsets.

    The event loop asks, and the consumer's thread ends the client, possibly in between. With the lock a question is
    asked as a whole, and none is asked after the end. librdkafka ends a client when its last reference goes, and waits
    for the client's threads then. So the last reference goes in the consumer's thread, outside the lock.
    """

    def __init__(self, configuration: Mapping[str, Setting]) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._ended = False

    def ask(self, place: TopicPartition) -> tuple[Future[ListOffsetsResultInfo], ...] | None:
        """In the event loop: ask for the first offset of a log and for its end. None after the end of the client."""
        with self._lock:
            if self._ended:
                return None
            if self._admin is None:
                self._admin = AdminClient(dict(self._configuration))
            wanted = ConfluentTopicPartition(*place)
            asked = [
                self._admin.list_offsets({wanted: which}, request_timeout=POLL_SECONDS * 5)
                for which in (OffsetSpec.earliest(), OffsetSpec.latest())
            ]
        return tuple(future for answer in asked for future in answer.values())

    def end(self) -> None:
        """In the consumer's thread: end the client, and answer no more questions."""
        with self._lock:
            self._ended = True
            admin, self._admin = self._admin, None
        del admin


def of_connections(configuration: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings that say how to connect, for a client of another kind beside a consumer."""
    names = {"bootstrap.servers", "client.id", *COMMON}
    secured = ("security.", "ssl.", "sasl.")
    return {key: value for key, value in configuration.items() if key in names or key.startswith(secured)}


PlacedRun = tuple[TopicPartition, Run]

RESTARTING = frozenset({KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


def sort_out(messages: list[Message], sessions: Sessions) -> tuple[list[PlacedRun], set[TopicPartition]]:
    """Return the messages of one `consume` as runs, in delivery order, and the topic-partitions with a lost position.

    All of the messages were fetched in the current sessions, even where the position is lost.
    """
    runs: list[PlacedRun] = []
    growing: dict[TopicPartition, Run] = {}
    gone: set[TopicPartition] = set()
    for message in messages:
        topic, partition, error, offset = message.topic(), message.partition(), message.error(), message.offset()
        if topic is None or partition is None or (topic, partition) not in sessions:
            continue
        place = (topic, partition)
        if error is not None:
            growing.pop(place, None)
            runs.append((place, Run(sessions[place], error=_named(error))))
            if error.code() in RESTARTING:
                gone.add(place)
        elif offset is not None:
            if place not in growing:
                growing[place] = Run(sessions[place])
                runs.append((place, growing[place]))
            run = growing[place]
            run.offsets.append(offset)
            run.values.append(decode_value(message.value()))
            run.leader_epoch = message.leader_epoch()
    return runs, gone
