"""The consumer of kafka-python: one `KafkaConsumer`, manually assigned; a process polls one topic-partition of it.

The library is not safe for threads, so one thread owns it: constructs it, polls, seeks, asks for offsets. What arrives
goes to the event loop as runs, each of one topic-partition and one session. On a truncated or vanished position that
topic-partition starts again from the beginning, in a new session; the failed poll before it tells why.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors

from squall.workloads.clients.client import ClientPlan, TopicPartition
from squall.workloads.clients.errors import exception_name
from squall.workloads.clients.inbox import Inbox, Run
from squall.workloads.clients.kafka_python import AGAIN_SECONDS, LOG, Mailbox, read_failed
from squall.workloads.clients.payload import decode_value
from squall.workloads.operation import FAIL, LIST_OFFSETS, OK, Completion, Operation

POLL_SECONDS = 1.0
LIBRARY_POLL_MS = 100
LIBRARY_CLOSE_MS = 1000
LIST_OFFSETS_MS = 5000

STARTING_AGAIN: tuple[type[Exception], ...] = (kafka_errors.LogTruncationError, kafka_errors.OffsetOutOfRangeError)


class KafkaPythonConsumer:
    """Reads every topic-partition of its plan."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Any]) -> None:
        self.plan = plan
        self.configuration = {
            **configuration,
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_uncommitted",
            "fetch_min_bytes": 16_384,
            "fetch_max_wait_ms": 100,
            "request_timeout_ms": 4000,
            "max_poll_records": 1000,
        }
        self.inboxes = {place: Inbox() for place in plan.topic_partitions}
        self._sessions = dict.fromkeys(plan.topic_partitions, 0)
        self._questions: deque[tuple[TopicPartition, asyncio.Future[Completion]]] = deque()
        self._ending = threading.Event()
        self._mailbox: Mailbox | None = None
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        self._mailbox = Mailbox(asyncio.get_running_loop())
        self._thread = threading.Thread(target=self._serve, name="kafka-python-consumer", daemon=True)
        self._thread.start()

    async def setup(self) -> None:
        return None

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        place = (operation.topic, operation.partition)
        if operation.f == LIST_OFFSETS:
            return await self._list_offsets(place)
        inbox = self.inboxes[place]
        if not self._ending.is_set():
            await inbox.arrival(POLL_SECONDS)
        return inbox.take()

    async def _list_offsets(self, place: TopicPartition) -> Completion:
        answer: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._questions.append((place, answer))
        if self._ending.is_set():
            return Completion(FAIL, error="closed")
        return await answer

    async def teardown(self) -> None:
        return None

    async def close(self) -> None:
        self._ending.set()
        for inbox in self.inboxes.values():
            inbox.release()
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        consumer = self._constructed()
        if consumer is not None:
            self._assign(consumer)
            while not self._ending.is_set():
                self._answer_questions(consumer)
                self._poll(consumer)
            with contextlib.suppress(kafka_errors.KafkaError):
                consumer.close(autocommit=False, timeout_ms=LIBRARY_CLOSE_MS)
        while self._questions:
            _, answer = self._questions.popleft()
            self._settle(answer, Completion(FAIL, error="closed"))

    def _constructed(self) -> KafkaConsumer | None:
        while not self._ending.is_set():
            try:
                return KafkaConsumer(**self.configuration)
            except (kafka_errors.KafkaError, OSError) as trouble:
                LOG.debug("no consumer yet: %s", trouble)
                self._tell_all(trouble)
            self._ending.wait(AGAIN_SECONDS)
        return None

    def _assign(self, consumer: KafkaConsumer) -> None:
        places = [KafkaTopicPartition(*place) for place in self.plan.topic_partitions]
        consumer.assign(places)
        if self.plan.from_beginning:
            consumer.seek_to_beginning(*places)
        else:
            consumer.seek_to_end(*places)

    def _poll(self, consumer: KafkaConsumer) -> None:
        try:
            found = consumer.poll(timeout_ms=LIBRARY_POLL_MS)
        except STARTING_AGAIN as trouble:
            self._start_again(consumer, trouble)
        except (kafka_errors.KafkaError, OSError) as trouble:
            self._tell_all(trouble)
            self._ending.wait(AGAIN_SECONDS)
        else:
            for place, records in found.items():
                offsets = [record.offset for record in records]
                values = [decode_value(record.value) for record in records]
                self._arrived((place.topic, place.partition), offsets, values, leader_epoch=records[-1].leader_epoch)

    def _start_again(self, consumer: KafkaConsumer, trouble: Exception) -> None:
        """Where positions are gone: tell it, and read these topic-partitions from the beginning."""
        gone = getattr(trouble, "divergent_offsets", None) or (trouble.args[0] if trouble.args else {})
        for place in gone:
            self._arrived((place.topic, place.partition), [], [], exception_name(trouble))
            self._sessions[place.topic, place.partition] += 1
        consumer.seek_to_beginning(*gone)

    def _answer_questions(self, consumer: KafkaConsumer) -> None:
        while self._questions:
            place, answer = self._questions.popleft()
            wanted = KafkaTopicPartition(*place)
            try:
                low = consumer.beginning_offsets([wanted], timeout_ms=LIST_OFFSETS_MS)[wanted]
                high = consumer.end_offsets([wanted], timeout_ms=LIST_OFFSETS_MS)[wanted]
            except kafka_errors.KafkaError as trouble:
                self._settle(answer, read_failed(trouble))
            else:
                self._settle(answer, Completion(OK, log_start=low, high_watermark=high))

    def _settle(self, answer: asyncio.Future[Completion], completion: Completion) -> None:
        assert self._mailbox is not None
        self._mailbox.post(lambda: None if answer.done() else answer.set_result(completion))

    def _tell_all(self, trouble: BaseException) -> None:
        for place in self.plan.topic_partitions:
            self._arrived(place, [], [], exception_name(trouble))

    def _arrived(
        self,
        place: TopicPartition,
        offsets: list[int],
        values: list[int],
        error: str | None = None,
        *,
        leader_epoch: int | None = None,
    ) -> None:
        assert self._mailbox is not None
        run, inbox = Run(self._sessions[place], offsets, values, leader_epoch, error), self.inboxes[place]
        self._mailbox.post(lambda: inbox.deliver(run))
