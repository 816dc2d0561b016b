"""What stands beside the client under test: streams, their leader and replicas, markers, and the final read.

It is nats-py, which shares no code with nats.go. Each question has a connection of its own, to any server that answers.

**A stream that no longer exists.** The meta leader answers for the whole cluster which streams there are. If it answers
for `GONE_SECONDS` on end that it knows no such stream, the stream is gone, and every acknowledged record with it. The
observer then creates the stream again, as an application would, so that its marker can be appended and read; what it
has found is among the `findings`. A stream without an answer proves nothing: then NotReproduced is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import nats
import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NoStreamResponseError, NotFoundError

from squall.harness.gallery.core.observations import MARKER, Marked, Place, Position, Read
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.waiting import wait_until
from squall.harness.systems.nats.streams import replicas_of, stream_config

CONNECT_SECONDS: Final = 2
ANSWER_SECONDS: Final = 5.0
START_SECONDS: Final = 120.0
MARK_SECONDS: Final = 60.0
READ_SECONDS: Final = 60.0
GONE_SECONDS: Final = 15.0
LOOK_EVERY_S: Final = 0.1
RECORDS_A_POLL: Final = 1000
NO_STREAM: Final = 10059
"""The error code of JetStream for a stream that does not exist."""
TROUBLES: Final = (nats.errors.Error, OSError, TimeoutError)

Result = TypeVar("Result")
Question = Callable[[JetStreamContext], Awaitable[Result]]


class NatsObserver:
    """Observes a cluster by its addresses."""

    def __init__(self, bootstrap: str, numbers: Mapping[str, int]) -> None:
        self._addresses = bootstrap.split(",")
        self._numbers = numbers
        self._findings: list[str] = []

    @property
    def findings(self) -> tuple[str, ...]:
        return tuple(self._findings)

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a stream that takes the subject of its name, with that many replicas, as soon as a leader can."""
        self._until_answered(
            lambda js: js.add_stream(stream_config(name, len(replicas[0]))), f"stream {name}", START_SECONDS
        )

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """The stream's leader (-1: none), and the servers that have all that it has. Raises NotReproduced."""
        return replicas_of(self._asked(lambda js: js.stream_info(topic)), self._numbers)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        raise NotReproduced("a stream of an entry does not move")

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something holds. Raises NotReproduced."""
        wait_until(holds, what, seconds, TROUBLES)

    def position(self, group: str, topic: str, partition: int) -> Position:
        raise NotReproduced("JetStream has no positions of groups")

    def read_register(self, name: str) -> Position:
        raise NotReproduced("JetStream has no registers of its own")

    def mark(self, places: Sequence[Place]) -> list[Marked]:
        """Append a marker to each stream. A stream that is gone is created again first. Raises NotReproduced."""
        return [self._marked(topic, number) for number, (topic, _) in enumerate(places)]

    def read_all(self, markers: Sequence[Marked]) -> list[Read]:
        """Read every record of these streams, up to their markers. Raises NotReproduced."""
        found: list[Read] = []
        for marker in markers:
            try:
                found += asyncio.run(self._with_connection(partial(_read, marker), READ_SECONDS))
            except TROUBLES as trouble:
                raise NotReproduced(f"the final read of {marker.topic} failed: {_words(trouble)}") from None
        return found

    # --- streams that are gone -----------------------------------------------------------------------------------

    def _marked(self, topic: str, number: int) -> Marked:
        if self._is_gone(topic):
            self._findings.append(
                f"stream {topic} did not exist any more, as the meta leader answered for {GONE_SECONDS:g} s on end, "
                "and was created again for its marker"
            )
            self.create_topic(topic, [tuple(self._numbers.values())], {})
        begun = time.monotonic_ns()
        sequence = self._appended(topic, str(MARKER + number).encode())
        return Marked(topic, 0, begun, time.monotonic_ns(), MARKER + number, sequence)

    def _appended(self, topic: str, content: bytes) -> int:
        """Append a record and return its sequence. Raises NotReproduced."""
        end = time.monotonic() + MARK_SECONDS
        while True:
            try:
                return self._asked(lambda js: js.publish(topic, content, timeout=ANSWER_SECONDS)).seq
            except TROUBLES as trouble:
                # Without a server that takes the subject the record is nowhere. After any other error it may be in the
                # stream, and sent again it would stand there twice.
                if not isinstance(trouble, NoStreamResponseError) or time.monotonic() > end:
                    raise NotReproduced(f"the marker of {topic} was not acknowledged: {_words(trouble)}") from None
            time.sleep(LOOK_EVERY_S)

    def _is_gone(self, topic: str) -> bool:
        """Whether the stream does not exist any more. Raises NotReproduced if neither answer comes."""
        missing_since: float | None = None
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            try:
                leader, _ = self.in_sync(topic, 0)
                if leader >= 0:
                    return False
                missing_since = None
            except NotFoundError as answer:
                if answer.err_code == NO_STREAM:
                    missing_since = missing_since or time.monotonic()
                    if time.monotonic() - missing_since >= GONE_SECONDS:
                        return True
            except TROUBLES:
                missing_since = None
            time.sleep(LOOK_EVERY_S)
        raise NotReproduced(f"whether stream {topic} exists is not known: no leader answers within {START_SECONDS:g} s")

    # --- connections ---------------------------------------------------------------------------------------------

    def _until_answered(self, question: Question[Result], what: str, seconds: float) -> Result:
        end = time.monotonic() + seconds
        while True:
            try:
                return self._asked(question)
            except TROUBLES as trouble:
                if time.monotonic() > end:
                    raise NotReproduced(f"{what}: no success within {seconds:g} s: {_words(trouble)}") from None
            time.sleep(LOOK_EVERY_S)

    def _asked(self, question: Question[Result]) -> Result:
        return asyncio.run(self._with_connection(question, ANSWER_SECONDS))

    async def _with_connection(self, question: Question[Result], seconds: float) -> Result:
        client = await self._connected()
        try:
            return await asyncio.wait_for(question(client.jetstream(timeout=ANSWER_SECONDS)), seconds + ANSWER_SECONDS)
        finally:
            await client.close()

    async def _connected(self) -> Client:
        """A connection to the first server that answers: one may be down, or paused."""
        last: Exception = nats.errors.NoServersError()
        for address in self._addresses:
            try:
                return await asyncio.wait_for(_connected_to(address), 3 * CONNECT_SECONDS)
            except TROUBLES as trouble:
                last = trouble
        raise last


async def _read(marker: Marked, js: JetStreamContext) -> list[Read]:
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, num_replicas=1)
    subscription = await js.pull_subscribe(marker.topic, stream=marker.topic, config=config)
    found: list[Read] = []
    end = time.monotonic() + READ_SECONDS
    while time.monotonic() < end:
        begun = time.monotonic_ns()
        messages = await subscription.fetch(RECORDS_A_POLL, timeout=1)
        records = tuple((one.metadata.sequence.stream, int(one.data.split()[0])) for one in messages)
        found.append(Read(marker.topic, 0, begun, time.monotonic_ns(), records))
        if any(value == marker.value for _, value in records):
            return found
    raise NotReproduced(f"the final read of {marker.topic} did not reach its marker in {READ_SECONDS:g} s")


async def _connected_to(address: str) -> Client:
    # nats-py counts attempts from 1 on; without a number it would go on for ever.
    return await nats.connect(
        address,
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=CONNECT_SECONDS,
        error_cb=_ignored,
    )


async def _ignored(_: Exception) -> None:
    """Errors of a connection come with the answer to the question as well."""


def _words(trouble: Exception) -> str:
    return str(trouble) or type(trouble).__name__
