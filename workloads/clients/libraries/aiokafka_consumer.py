"""The consumer of aiokafka, manually assigned; a process polls one of its topic-partitions.

One task owns the library's consumer: creates it, polls it, and seeks. What arrives goes into inboxes as runs, each of
one topic-partition and one session. A position outside the log starts a new session from the beginning; a consumer that
had to be recreated does so for all topic-partitions. The failed poll before it states the reason. The library checks no
leader epochs, so it notices a truncated log only when its position lies beyond the end, and it does not report the
epoch of what it delivers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as LibraryTopicPartition
from aiokafka import errors as aiokafka_errors

from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.common.inbox import Run
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.clients.common.shared_consumer import ConsumerInstance, Sessions, SharedConsumer
from squall.workloads.clients.libraries.library_times import AGAIN_SECONDS, CLOSE_SECONDS
from squall.workloads.core.operation import LIST_OFFSETS, OK, Completion

LOG = logging.getLogger("squall.aiokafka")

LIBRARY_POLL_MS = 100
LARGEST_POLL = 1000


class AiokafkaConsumer(SharedConsumer):
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
        }

    def start(self, sessions: Sessions) -> AiokafkaInstance:
        instance = AiokafkaInstance(self.configuration, sessions, from_beginning=self.plan.from_beginning)
        instance.begin()
        return instance


class AiokafkaInstance(ConsumerInstance):
    """One `AIOKafkaConsumer` at a time, and the task that owns it."""

    def __init__(self, configuration: Mapping[str, Any], sessions: Sessions, *, from_beginning: bool) -> None:
        super().__init__(sessions)
        self.configuration = configuration
        self._from_beginning = from_beginning
        self._consumer: AIOKafkaConsumer | None = None
        self._starts: dict[TopicPartition, int] = {}
        """The targets of seeks made while there was no consumer."""
        self._serving: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._serving = self.loop.create_task(self._live())

    def retire(self) -> None:
        self.finish()
        if self._serving is not None:
            self._serving.cancel()

    def gone(self) -> bool:
        return self._serving is None or self._serving.done()

    async def ended(self) -> None:
        while self._serving is not None and not self._serving.done():
            await asyncio.wait({self._serving}, timeout=CLOSE_SECONDS)
            self._serving.cancel()

    async def seek(self, place: TopicPartition, offset: int) -> Completion:
        """Seek without waiting: nothing else runs between the reset of the library and the reset here."""
        if self._consumer is None:
            self._starts[place] = offset
        else:
            self._consumer.seek(LibraryTopicPartition(*place), offset)
        return self.inboxes[place].begin(self.begin_session(place), offset)

    async def list_offsets(self, place: TopicPartition) -> Completion:
        """Report both ends of a log."""
        consumer = self._consumer
        if consumer is None:
            await asyncio.sleep(AGAIN_SECONDS)
            return errors.refused("not_connected")
        wanted = LibraryTopicPartition(*place)
        try:
            low = (await consumer.beginning_offsets([wanted]))[wanted]
            high = (await consumer.end_offsets([wanted]))[wanted]
        except (aiokafka_errors.KafkaError, OSError) as trouble:
            return errors.raised(errors.AIOKAFKA, LIST_OFFSETS, trouble)
        return Completion(OK, log_start=low, high_watermark=high)

    # -- the task that owns the consumer ----------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            await self._serve()
        except Exception as trouble:
            LOG.warning("a consumer is dead", exc_info=trouble)
            self.finish(errors.exception_name(trouble))

    async def _serve(self) -> None:
        """Create a consumer and poll it; if it breaks, create another.

        Runs until retired and not until cancelled: the library may swallow a cancel.
        """
        while not self.over.done():
            consumer = AIOKafkaConsumer(**self.configuration)
            try:
                await consumer.start()
                await self._assign(consumer)
                self._consumer = consumer
                self._go_to_starts(consumer)
                while not self.over.done():
                    await self._poll(consumer)
            except (aiokafka_errors.KafkaError, OSError) as trouble:
                LOG.debug("a consumer has ended: %s", trouble)
                self._begin_again(self.sessions, trouble)
            finally:
                self._consumer = None
                await _stopped(consumer)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _assign(self, consumer: AIOKafkaConsumer) -> None:
        places = [LibraryTopicPartition(*place) for place in self.sessions]
        consumer.assign(places)
        if self._from_beginning:
            await consumer.seek_to_beginning(*places)
        else:
            await consumer.seek_to_end(*places)

    def _go_to_starts(self, consumer: AIOKafkaConsumer) -> None:
        for place, offset in self._starts.items():
            consumer.seek(LibraryTopicPartition(*place), offset)
        self._starts.clear()

    async def _poll(self, consumer: AIOKafkaConsumer) -> None:
        """Deliver what has arrived. Raises KafkaError if this consumer is no longer usable."""
        try:
            found = await consumer.getmany(timeout_ms=LIBRARY_POLL_MS, max_records=LARGEST_POLL)
        except aiokafka_errors.OffsetOutOfRangeError as trouble:
            gone = list(trouble.args[0])
            self._begin_again(((one.topic, one.partition) for one in gone), trouble)
            await consumer.seek_to_beginning(*gone)
            return
        except aiokafka_errors.KafkaError as trouble:
            if not trouble.retriable:
                raise
            for place in self.sessions:
                self._arrived(place, error=errors.exception_name(trouble))
            await asyncio.sleep(AGAIN_SECONDS)
            return
        for place, records in found.items():
            offsets = [record.offset for record in records]
            values = [decode_value(record.value) for record in records]
            self._arrived((place.topic, place.partition), offsets, values)

    def _begin_again(self, places: Iterable[TopicPartition], trouble: BaseException) -> None:
        """Report the reason, and count what comes from now on as a new session."""
        for place in places:
            self._arrived(place, error=errors.exception_name(trouble))
            self.begin_session(place)

    def _arrived(
        self, place: TopicPartition, offsets: list[int] | None = None, values: list[int] | None = None, error: str = ""
    ) -> None:
        run = Run(self.sessions[place], offsets or [], values or [], error=error or None)
        self.inboxes[place].deliver(run)


async def _stopped(consumer: AIOKafkaConsumer) -> None:
    with contextlib.suppress(TimeoutError, aiokafka_errors.KafkaError, OSError):
        await asyncio.wait_for(consumer.stop(), CLOSE_SECONDS)
