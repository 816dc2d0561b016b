"""What the harness asks of a NATS cluster beside load: which servers live, who leads a stream, and new streams.

A server lives if its monitoring port answers. Streams are asked for by nats-py, which shares no code with the Go client
of the load. A server that is cut off may believe for some seconds that it still leads: so each server that lives is
asked, and of different answers the one with the most replicas in sync is taken. Elections of JetStream have no numbers
that a client sees; the leader epoch is 0 throughout.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import nats.errors
from nats.js import JetStreamContext
from nats.js.api import StreamConfig, StreamInfo

from squall.harness.load.tcp import Sockets
from squall.harness.systems.asked import TROUBLES as UNANSWERED
from squall.harness.systems.asked import ask
from squall.harness.systems.go_servers import Member
from squall.harness.systems.nats.connection import connected
from squall.harness.systems.nats.streams import NOBODY, all_replicas, replicas_of, stream_config
from squall.workloads.clients.common.client import ClusterState, PartitionState, Topic

ANSWER_SECONDS: Final = 1.5
CREATE_SECONDS: Final = 4.0
TROUBLES: Final = (nats.errors.Error, OSError, TimeoutError)

Result = TypeVar("Result")


class NatsAdmin:
    """Asks the servers of a cluster."""

    def __init__(self, sockets: Sockets, members: Sequence[Member], port: int, monitor_port: int) -> None:
        self._sockets = sockets
        self._members = {member.name: member for member in members}
        self._numbers = {member.name: member.number for member in members}
        self._port = port
        self._monitor_port = monitor_port

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        """Describe the cluster. Raises ConnectionError if no server answers."""
        live = await self._live()
        if not live:
            raise ConnectionError("no server answers")
        partitions = await asyncio.gather(*(self._partition(topic, tuple(live)) for topic in topics or ()))
        return ClusterState(
            tuple((self._numbers[name], self._members[name].address, self._port) for name in live),
            tuple(one for one in partitions if one is not None),
            self._numbers.get(_meta_leader(live.values())),
        )

    async def create_topics(self, topics: Sequence[Topic]) -> None:
        """Create streams. One that is there already, and is the same, is no error. Raises ConnectionError."""
        for topic in topics:
            await self._created(topic)

    async def close(self) -> None:
        """Each question has a connection of its own; nothing is left."""

    async def _created(self, topic: Topic) -> None:
        trouble: Exception = ConnectionError("no server answers")
        for name in await self._live():
            try:
                await self._asked(
                    name, partial(_add_stream, stream_config(topic.name, topic.replication_factor)), CREATE_SECONDS
                )
                return
            except TROUBLES as found:
                trouble = found
        raise ConnectionError(f"stream {topic.name}: {str(trouble) or 'no answer in time'}")

    async def _partition(self, topic: str, live: Sequence[str]) -> PartitionState | None:
        """Return what the servers say of a stream; None if no server knows it."""
        answers = await asyncio.gather(*(self._info(name, topic) for name in live))
        found = [info for info in answers if info is not None]
        if not found:
            return None
        best = max(found, key=lambda info: len(replicas_of(info, self._numbers)[1]))
        leader, in_sync = replicas_of(best, self._numbers)
        return PartitionState(
            topic, 0, None if leader == NOBODY else leader, 0, all_replicas(best, self._numbers), in_sync
        )

    async def _info(self, name: str, topic: str) -> StreamInfo | None:
        try:
            return await self._asked(name, lambda js: js.stream_info(topic), ANSWER_SECONDS)
        except TROUBLES:
            return None

    async def _asked(
        self, name: str, question: Callable[[JetStreamContext], Awaitable[Result]], seconds: float
    ) -> Result:
        """Ask one server. Raises one of `TROUBLES`."""
        async with asyncio.timeout(seconds + ANSWER_SECONDS):
            client = await connected(self._sockets, (self._members[name].address, self._port))
            try:
                return await question(client.jetstream(timeout=seconds))
            finally:
                await client.close()

    async def _live(self) -> dict[str, dict[str, Any]]:
        """Return what each server that answers says of JetStream, by name."""
        names = list(self._members)
        found = await asyncio.gather(*(asyncio.to_thread(self._monitored, name) for name in names))
        return {name: said for name, said in zip(names, found, strict=True) if said is not None}

    def _monitored(self, name: str) -> dict[str, Any] | None:
        address = (self._members[name].address, self._monitor_port)
        try:
            return ask(address, "/jsz", ANSWER_SECONDS, sockets=self._sockets.socket)
        except UNANSWERED:
            return None


async def _add_stream(config: StreamConfig, js: JetStreamContext) -> StreamInfo:
    return await js.add_stream(config)


def _meta_leader(answers: Any) -> str:
    """Return the meta leader that most servers name; empty if none names one."""
    named: Counter[str] = Counter(leader for one in answers if (leader := leader_in(one)))
    return named.most_common(1)[0][0] if named else ""


def leader_in(jsz: Mapping[str, Any]) -> str:
    """Return the meta leader in a server's answer to `/jsz`; empty if it knows none."""
    return str(jsz.get("meta_cluster", {}).get("leader", ""))
