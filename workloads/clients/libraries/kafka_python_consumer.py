"""The consumer of kafka-python, manually assigned; a process polls one of its topic-partitions.

The library is not thread-safe, so one thread owns its `KafkaConsumer`: constructs it, polls, seeks, requests offsets.
What arrives goes to the event loop as runs, each of one topic-partition and one session. On a truncated or vanished
position that topic-partition restarts from the beginning, in a new session; the failed poll before it states the
reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors

from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.common.errors import exception_name
from squall.workloads.clients.common.inbox import Run
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.clients.common.shared_consumer import Sessions, SharedConsumer, ThreadedInstance
from squall.workloads.clients.libraries.library_times import AGAIN_SECONDS
from squall.workloads.core.operation import FAIL, OK, Completion

LOG = logging.getLogger("squall.kafka-python")

LIBRARY_POLL_MS = 100
LIBRARY_CLOSE_MS = 1000
LIST_OFFSETS_MS = 5000

STARTING_AGAIN: tuple[type[Exception], ...] = (kafka_errors.LogTruncationError, kafka_errors.OffsetOutOfRangeError)


class KafkaPythonConsumer(SharedConsumer):
    """Reads every topic-partition of its plan."""

    def __init__(self, plan: ClientPlan, configuration: Mapping[str, Any]) -> None:
        super().__init__(plan)
        self.configuration = {
            **configuration,
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_uncommitted",
            "check_crcs": True,
            "fetch_min_bytes": 16_384,
            "fetch_max_wait_ms": 100,
            "request_timeout_ms": 4000,
            "max_poll_records": 1000,
        }

    def start(self, sessions: Sessions) -> KafkaPythonInstance:
        instance = KafkaPythonInstance(self.configuration, sessions, from_beginning=self.plan.from_beginning)
        instance.begin()
        return instance


class KafkaPythonInstance(ThreadedInstance):
    """A `KafkaConsumer` and the thread that constructs and serves it."""

    def __init__(self, configuration: Mapping[str, Any], sessions: Sessions, *, from_beginning: bool) -> None:
        super().__init__(sessions, "kafka-python-consumer")
        self.configuration = configuration
        self._from_beginning = from_beginning
        self._consumer: KafkaConsumer | None = None
        self._starts: dict[TopicPartition, int] = {}
        """The targets of seeks made before there was a consumer."""
        self._questions: deque[tuple[TopicPartition, asyncio.Future[Completion]]] = deque()

    async def list_offsets(self, place: TopicPartition) -> Completion:
        answer: asyncio.Future[Completion] = self.loop.create_future()
        self._questions.append((place, answer))
        return await answer

    # -- the thread -----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        self._consumer = consumer = self._constructed()
        if consumer is None:
            return
        try:
            self._assign(consumer)
            while not self.retired.is_set():
                self._answer_questions(consumer)
                self.carry_out_seeks()
                self._poll(consumer)
        finally:
            with contextlib.suppress(kafka_errors.KafkaError):
                consumer.close(autocommit=False, timeout_ms=LIBRARY_CLOSE_MS)

    def _constructed(self) -> KafkaConsumer | None:
        while not self.retired.is_set():
            self.carry_out_seeks()
            try:
                return KafkaConsumer(**self.configuration)
            except (kafka_errors.KafkaError, OSError) as trouble:
                LOG.debug("no consumer yet: %s", trouble)
                self._tell_all(trouble)
            self.retired.wait(AGAIN_SECONDS)
        return None

    def _assign(self, consumer: KafkaConsumer) -> None:
        places = [KafkaTopicPartition(*place) for place in self.sessions]
        consumer.assign(places)
        if self._from_beginning:
            consumer.seek_to_beginning(*places)
        else:
            consumer.seek_to_end(*places)
        for place, offset in self._starts.items():
            consumer.seek(KafkaTopicPartition(*place), offset)

    def go_to(self, place: TopicPartition, offset: int) -> None:
        if self._consumer is None:
            self._starts[place] = offset
        else:
            self._consumer.seek(KafkaTopicPartition(*place), offset)

    def _poll(self, consumer: KafkaConsumer) -> None:
        try:
            found = consumer.poll(timeout_ms=LIBRARY_POLL_MS)
        except STARTING_AGAIN as trouble:
            self._start_again(consumer, trouble)
        except (kafka_errors.KafkaError, OSError) as trouble:
            self._tell_all(trouble)
            self.retired.wait(AGAIN_SECONDS)
        else:
            for place, records in found.items():
                where = (place.topic, place.partition)
                offsets = [record.offset for record in records]
                values = [decode_value(record.value) for record in records]
                self.arrived(where, Run(self.sessions[where], offsets, values, records[-1].leader_epoch))

    def _start_again(self, consumer: KafkaConsumer, trouble: Exception) -> None:
        """Report lost positions, and read these topic-partitions from the beginning."""
        gone = getattr(trouble, "divergent_offsets", None) or (trouble.args[0] if trouble.args else {})
        for place in gone:
            where = (place.topic, place.partition)
            self.failed(where, exception_name(trouble))
            self.begin_session(where)
        consumer.seek_to_beginning(*gone)

    def _answer_questions(self, consumer: KafkaConsumer) -> None:
        while self._questions:
            place, answer = self._questions.popleft()
            if answer.done():
                continue
            wanted = KafkaTopicPartition(*place)
            try:
                low = consumer.beginning_offsets([wanted], timeout_ms=LIST_OFFSETS_MS)[wanted]
                high = consumer.end_offsets([wanted], timeout_ms=LIST_OFFSETS_MS)[wanted]
            except kafka_errors.KafkaError as trouble:
                self._settle(answer, read_failed(trouble))
            else:
                self._settle(answer, Completion(OK, log_start=low, high_watermark=high))

    def _settle(self, answer: asyncio.Future[Completion], completion: Completion) -> None:
        self.mailbox.post(lambda: None if answer.done() else answer.set_result(completion))

    def _tell_all(self, trouble: BaseException) -> None:
        for place in self.sessions:
            self.failed(place, exception_name(trouble))


def read_failed(error: BaseException) -> Completion:
    """A read that failed has changed nothing."""
    return Completion(FAIL, error=exception_name(error))
