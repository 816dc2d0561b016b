"""Request channels and the connections that feed them: bounded queues, backpressure, answers in request order.

A node has two channels, one for control requests (the controller listeners) and one for data (the brokers'
listeners); every listener feeds exactly one. That split is what KIP-291 asked for and KRaft keeps by
`controller.listener.names` (CL-24): a flood of produce requests fills the data channel and pauses the connections
that feed it, and a vote or a heartbeat does not queue behind it.

Backpressure. A channel that is full pauses every connection that puts into it; it resumes them, first paused first,
once half of it is free. A connection with `IN_FLIGHT_MAX` requests not yet answered is paused as well: Kafka allows
one, clients ask for up to a million, and each of them may hold memory while it waits. Frames that the host had read
before it saw the pause still come in, so the bound is soft by what one read holds.

Order. Kafka answers a connection's requests in the order in which they came. An answer that is ready early waits in
its `Inbound` for those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

from squall.nodes.node.effects import Buffer, Close, Effect, Pause, Resume, Send
from squall.nodes.protocol.session import ServerRequest, ServerSession, Versions

IN_FLIGHT_MAX = 64


class Inbound:
    """One request from its arrival to its answer. `request` is None until it is decoded."""

    __slots__ = ("answered", "chunks", "connection", "frame", "received_at", "request")

    def __init__(self, connection: Connection, frame: Buffer, received_at: int) -> None:
        self.connection = connection
        self.frame: Buffer | None = frame
        self.received_at = received_at
        self.request: ServerRequest | None = None
        self.answered = False
        self.chunks: Sequence[Buffer] | None = None


class Connection:
    """One accepted connection. `in_flight` holds its requests, oldest first, until their answers have left."""

    __slots__ = ("channel", "closed", "id", "in_flight", "listener", "paused", "session")

    def __init__(self, identity: int, listener: str, channel: RequestChannel, versions: Versions) -> None:
        self.id = identity
        self.listener = listener
        self.channel = channel
        self.session = ServerSession(identity, listener, versions)
        self.in_flight: deque[Inbound] = deque()
        self.paused = False
        self.closed = False


class RequestChannel:
    """A bounded queue of requests. Plain counters, for metrics: `received`, `depth_max`, `pauses`."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.received = 0
        self.depth_max = 0
        self.pauses = 0
        self._queue: deque[Inbound] = deque()
        self._paused: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def full(self) -> bool:
        return len(self._queue) >= self.capacity

    def put(self, inbound: Inbound) -> None:
        self._queue.append(inbound)
        self.received += 1
        self.depth_max = max(self.depth_max, len(self._queue))

    def take(self) -> Inbound | None:
        """The oldest request of a connection that is still open."""
        while self._queue:
            inbound = self._queue.popleft()
            if not inbound.connection.closed:
                return inbound
        return None

    def remember_paused(self, connection: Connection) -> None:
        self._paused[connection.id] = connection
        self.pauses += 1

    def forget(self, connection: Connection) -> None:
        self._paused.pop(connection.id, None)

    def relieved(self) -> list[Connection]:
        """Connections to look at again, because half of the channel is free; each is named once."""
        if not self._paused or len(self._queue) * 2 > self.capacity:
            return []
        waiting = list(self._paused.values())
        self._paused.clear()
        return waiting


class Connections:
    """All accepted connections of a node and the channels they feed. Effects go to the node's outbox."""

    def __init__(
        self, channels: Mapping[str, RequestChannel], versions: Mapping[str, Versions], outbox: list[Effect]
    ) -> None:
        """`channels` and `versions` are by listener name."""
        self._channels = channels
        self._versions = versions
        self._outbox = outbox
        self._open: dict[int, Connection] = {}
        self.opened_count = 0

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, identity: int, listener: str) -> None:
        self._open[identity] = Connection(identity, listener, self._channels[listener], self._versions[listener])
        self.opened_count += 1

    def received(self, now: int, identity: int, frame: Buffer) -> None:
        connection = self._open.get(identity)
        if connection is None:
            return
        inbound = Inbound(connection, frame, now)
        connection.in_flight.append(inbound)
        connection.channel.put(inbound)
        if connection.channel.full or len(connection.in_flight) >= IN_FLIGHT_MAX:
            self._pause(connection)

    def closed(self, identity: int) -> Connection | None:
        """The host lost a connection: what it still waited for is dropped."""
        connection = self._open.pop(identity, None)
        if connection is not None:
            connection.closed = True
            for inbound in connection.in_flight:
                if inbound.request is not None:
                    inbound.request.closed = True
            connection.in_flight.clear()
            connection.channel.forget(connection)
        return connection

    def drop(self, connection: Connection) -> None:
        """Close a connection from our side."""
        if self.closed(connection.id) is not None:
            self._outbox.append(Close(connection.id))

    def decode(self, now: int, inbound: Inbound) -> ServerRequest:
        """The request in a frame; answered already if its version had to be refused. Raises ProtocolError."""
        assert inbound.frame is not None, "a frame is decoded once"
        request = inbound.connection.session.received(inbound.received_at, inbound.frame)
        inbound.frame = None
        inbound.request = request
        if request.answer is not None:
            self._answered(inbound, request)
        else:
            request.on_answer = partial(self._answered, inbound)
        return request

    def _answered(self, inbound: Inbound, request: ServerRequest) -> None:
        """A request has its answer: chunks, silence, or the end of its connection. Send what is next in order."""
        request.on_answer = None  # it leads back here by a cycle, and megabytes of records would wait for the collector
        connection = inbound.connection
        if connection.closed:
            return
        assert request.answer is not None and not inbound.answered, "a request is answered once"
        if request.answer.close:
            self.drop(connection)
            return
        inbound.answered = True
        inbound.chunks = request.chunks()
        waiting = connection.in_flight
        while waiting and waiting[0].answered:
            ready = waiting.popleft()
            if ready.chunks:
                self._outbox.append(Send(connection.id, ready.chunks))
        if connection.paused and not connection.channel.full and len(waiting) * 2 <= IN_FLIGHT_MAX:
            self._resume(connection)

    def relieve(self, channel: RequestChannel) -> None:
        """Resume what a full channel had paused, if there is room again."""
        for connection in channel.relieved():
            if len(connection.in_flight) < IN_FLIGHT_MAX:
                self._resume(connection)

    def _pause(self, connection: Connection) -> None:
        if not connection.paused:
            connection.paused = True
            connection.channel.remember_paused(connection)
            self._outbox.append(Pause(connection.id))

    def _resume(self, connection: Connection) -> None:
        connection.paused = False
        connection.channel.forget(connection)
        self._outbox.append(Resume(connection.id))
