"""Request channels and the connections that feed them: bounded queues, backpressure, responses in request order.

A node has two channels, one for control requests (the controller listeners) and one for data (the brokers' listeners);
every listener feeds exactly one. KIP-291 introduced that split and KRaft keeps it by `controller.listener.names`
(CL-24): a flood of produce requests fills the data channel and pauses the connections that feed it, and a vote or a
heartbeat does not queue behind it.

Backpressure. A channel that is full, by requests or by bytes (`queued.max.requests`, `queued.max.request.bytes`),
pauses every connection that feeds it. It resumes as many of them as there is room for requests, first paused first, and
all once half of it is free. If they all waited until then, others could keep it more than half full for ever, and those
that are paused would starve, the controller's connection among them. A connection with
`IN_FLIGHT_MAX` unanswered requests, or `QUEUED_BYTES_MAX` bytes of unprocessed ones, is paused too. Kafka allows one
request; clients send up to a million, and each of them may hold memory while it waits. Frames that the host had read
before the pause still arrive, so one read may exceed these bounds.

Responses are memory, too: a request of ten bytes may ask for fifty megabytes. A connection is served no further request
while its peer does not read its responses, as the host reports by `stalled`, or after it got `UNSENT_MAX` bytes in this
turn. No connection has more than `FETCHES_MAX` fetches processed and unanswered. So a peer that sends requests and does
not read makes a node hold at most `UNSENT_MAX` bytes and `FETCHES_MAX` responses, each within `fetch.max.bytes`.
Requests that wait for this are kept at their connection and do not delay others.

Memory. All memory that a plane's connections make this node hold counts against one budget (`memory_budget.py`). While
a budget is used up, the node does not read from a connection that adds to it, and serves no request with a long
response.

Size. Only Produce carries records, so only its requests may be as long as `socket.request.max.bytes`; any other request
longer than `PLAIN_REQUEST_MAX` closes its connection before it is decoded into objects many times its size.

Order. Kafka responds to a connection's requests in the order in which they arrived. A response that is ready early
waits in its `Inbound` for the earlier ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from squall.nodes.node.effects import Buffer, Close, Effect, Pause, Resume, Send
from squall.nodes.node.memory_budget import MemoryBudget
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest, ServerSession, Versions

IN_FLIGHT_MAX = 64
QUEUED_BYTES_MAX = 16 << 20
UNSENT_MAX = 4 << 20
FETCHES_MAX = 2
"""In a fetch session, a second fetch may overtake the parked one (`broker/requests/fetch_sessions.py`)."""
PLAIN_REQUEST_MAX = 8 << 20
ELEMENTS_MAX = 1 << 17
"""Items of all arrays in one request, of any depth: an empty item takes two bytes on the wire and hundreds here."""
ELEMENT_COST = 256
"""Bytes counted for an item as long as its request is parked."""
NO_LIMIT = -1
NEVER = 2**63 - 1
_PRODUCE, _FETCH = (int(key).to_bytes(2, "big") for key in (ApiKey.PRODUCE, ApiKey.FETCH))
_BULKY = frozenset(
    int(key).to_bytes(2, "big")
    for key in (
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    )
)
"""Short requests with long responses."""


class Inbound:
    """One request from its arrival to its response.

    `request` is None until it is decoded, `handled_at` 0 until its handler has returned.
    """

    __slots__ = (
        "answered", "began_at", "charge", "chunks", "connection", "frame", "handled_at", "is_bulky", "is_fetch",
        "received_at", "request", "size",
    )  # fmt: skip

    def __init__(self, connection: Connection, frame: Buffer, received_at: int) -> None:
        self.connection = connection
        self.frame: Buffer | None = frame
        self.size = len(frame)
        self.charge = self.size
        """This request's part of the connection's memory."""
        api_key = bytes(frame[:2])
        self.is_fetch = api_key == _FETCH
        self.is_bulky = api_key in _BULKY
        self.received_at = received_at
        self.began_at = 0
        self.handled_at = 0
        self.request: ServerRequest | None = None
        self.answered = False
        self.chunks: Sequence[Buffer] | None = None


class Connection:
    """One accepted connection.

    `in_flight` holds its requests, oldest first, until their responses have left; `held` are those not served before
    the peer has read responses. `unsent` counts the response bytes of this turn.
    """

    __slots__ = (
        "at_host", "channel", "closed", "fetches", "heard_at", "held", "id", "in_flight", "listener", "memory",
        "paused", "queued_bytes", "session", "stalled", "unsent",
    )  # fmt: skip

    def __init__(self, identity: int, listener: str, channel: RequestChannel, versions: Versions, now: int) -> None:
        self.id = identity
        self.heard_at = now
        self.listener = listener
        self.channel = channel
        self.session = ServerSession(identity, listener, versions)
        self.in_flight: deque[Inbound] = deque()
        self.held: deque[Inbound] = deque()
        self.queued_bytes = 0
        self.memory = 0
        """Bytes of the plane's budget that this connection uses, of which its host has reported `at_host`."""
        self.at_host = 0
        self.unsent = 0
        self.fetches = 0
        self.stalled = False
        self.paused = False
        self.closed = False

    @property
    def is_clogged(self) -> bool:
        return self.stalled or self.unsent >= UNSENT_MAX

    @property
    def is_overfull(self) -> bool:
        return len(self.in_flight) >= IN_FLIGHT_MAX or self.queued_bytes >= QUEUED_BYTES_MAX

    @property
    def is_half_free(self) -> bool:
        return len(self.in_flight) * 2 <= IN_FLIGHT_MAX and self.queued_bytes * 2 <= QUEUED_BYTES_MAX

    def must_wait(self, inbound: Inbound) -> bool:
        """Whether a request must not be served yet; nor then any later one."""
        if self.held or self.stalled or self.unsent >= UNSENT_MAX:
            return True
        if inbound.is_bulky and self.channel.budget.is_exhausted:
            return True
        return inbound.is_fetch and self.fetches >= FETCHES_MAX

    def use(self, size: int) -> None:
        """Add bytes to the memory in use; negative to free them."""
        self.memory += size
        self.channel.budget.used += size


class RequestChannel:
    """A bounded queue of requests.

    Plain counters, for metrics: `received`, `served`, `depth_max`, `pauses`, and `expired`, the connections that fed it
    and were closed because they were idle.
    """

    def __init__(self, name: str, capacity: int, bytes_max: int = NO_LIMIT, budget: MemoryBudget | None = None) -> None:
        """`bytes_max` bounds the queue, `budget` all memory that its connections make the node hold."""
        self.budget = budget or MemoryBudget()
        self.evicted = 0
        """Connections closed because they held most when the budget was used up."""
        self.name = name
        self.capacity = capacity
        self.bytes_max = bytes_max
        self.bytes = 0
        self.received = 0
        self.served = 0
        self.depth_max = 0
        self.pauses = 0
        self.expired = 0
        self._queue: deque[Inbound] = deque()
        self._paused: dict[int, Connection] = {}
        self.has_paused = False
        """Whether connections that feed it are paused."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def full(self) -> bool:
        return len(self) >= self.capacity or (self.bytes_max != NO_LIMIT and self.bytes >= self.bytes_max)

    @property
    def half_free(self) -> bool:
        few = len(self) * 2 <= self.capacity
        return few and (self.bytes_max == NO_LIMIT or self.bytes * 2 <= self.bytes_max)

    def put(self, inbound: Inbound) -> None:
        self._queue.append(inbound)
        self._count(inbound)

    def _count(self, inbound: Inbound) -> None:
        self.bytes += inbound.size
        inbound.connection.queued_bytes += inbound.size
        self.received += 1
        self.depth_max = max(self.depth_max, len(self))

    def take(self) -> Inbound | None:
        """The oldest request that may be served, of a connection that is still open."""
        while self._queue:
            inbound = self._served(self._queue.popleft())
            if inbound is not None:
                return inbound
        return None

    def _served(self, inbound: Inbound) -> Inbound | None:
        """Count a request out of the queue; None if it is not to be served, now or at all."""
        self.bytes -= inbound.size
        connection = inbound.connection
        if connection.closed:
            return None
        if connection.must_wait(inbound):
            connection.held.append(inbound)
            return None
        connection.queued_bytes -= inbound.size
        connection.fetches += inbound.is_fetch
        self.served += 1
        return inbound

    def put_back(self, connection: Connection) -> None:
        """Queue held requests again, before later ones, since they may be served now."""
        while connection.held:
            inbound = connection.held.pop()
            self.bytes += inbound.size
            self._queue.appendleft(inbound)

    def remember_paused(self, connection: Connection) -> None:
        self._paused[connection.id] = connection
        self.has_paused = True
        self.pauses += 1

    def forget(self, connection: Connection) -> None:
        self._paused.pop(connection.id, None)
        self.has_paused = bool(self._paused)

    @property
    def paused(self) -> Sequence[Connection]:
        """The connections that feed it and are paused, first paused first."""
        return tuple(self._paused.values())

    @property
    def is_strained(self) -> bool:
        """Whether connections are paused or memory is short; if not, there is nothing to resume or to close."""
        budget = self.budget
        return self.has_paused or budget.exhausted_since != NEVER or budget.used > budget.roomy

    def relieved(self) -> list[Connection]:
        """Paused connections that may be resumed: one for each request that has room, all if half of it is free.

        A connection that is overfull itself is left out.
        """
        if not self._paused or self.full or not self.budget.has_room:
            return []
        able = (connection for connection in self._paused.values() if not connection.is_overfull)
        return list(able if self.half_free else islice(able, self.capacity - len(self)))


class Connections:
    """All accepted connections of a node and the channels they feed. Effects go to the node's outbox."""

    def __init__(
        self,
        channels: Mapping[str, RequestChannel],
        versions: Mapping[str, Versions],
        outbox: list[Effect],
        idle_max: int = NEVER,
        fetched_early: RequestChannel | None = None,
    ) -> None:
        """`channels` and `versions` are by listener name.

        A connection without a request for `idle_max` is closed. Fetch responses of `fetched_early` may leave before
        they are durable here.
        """
        self._fetched_early = fetched_early
        self.idle_due = NEVER
        """When `expire` must check for idle connections."""
        self._idle_max = idle_max
        self._channels = channels
        self._versions = versions
        self._outbox = outbox
        self._open: dict[int, Connection] = {}
        self._given: list[Connection] = []
        self.notices: list[str] = []
        """Lines for the node's log."""
        self.opened_count: dict[str, int] = dict.fromkeys(channels, 0)
        """Connections accepted since the start, by listener."""
        self.on_late_answer: Callable[[Inbound], None] | None = None
        """Called with a request that gets its response after its handler has returned."""
        self.on_answer: Callable[[ServerRequest], None] | None = None
        """Called with every request that gets an answer, at the time of the decision; for observers."""

    def __len__(self) -> int:
        return len(self._open)

    def by_listener(self) -> list[tuple[str, int, int]]:
        """Listener, open connections, connections accepted since the start; for metrics."""
        now_open = dict.fromkeys(self._channels, 0)
        for connection in self._open.values():
            now_open[connection.listener] += 1
        return [(listener, count, self.opened_count[listener]) for listener, count in now_open.items()]

    def answers_waiting(self, channel: RequestChannel) -> int:
        """Responses that are ready and wait for earlier ones on their connection; for metrics."""
        return sum(
            inbound.answered
            for connection in self._open.values()
            if connection.channel is channel
            for inbound in connection.in_flight
        )

    def find(self, identity: int) -> Connection | None:
        """Return an open connection; for observers."""
        return self._open.get(identity)

    def paused(self) -> Iterator[Connection]:
        """Return the connections from which the host does not read, of all channels; for observers."""
        for channel in dict.fromkeys(self._channels.values()):
            if channel.has_paused:
                yield from channel.paused

    def in_flight(self, identity: int) -> Sequence[Inbound]:
        """Return the requests of a connection whose responses have not left, oldest first; none if it is not open."""
        connection = self._open.get(identity)
        return () if connection is None else connection.in_flight

    def of_channel(self, channel: RequestChannel) -> Iterator[Connection]:
        """Return the open connections that feed a channel; for observers."""
        return (connection for connection in self._open.values() if connection.channel is channel)

    def unanswered(self) -> Iterator[Inbound]:
        """Return the requests without an answer, of all connections that are open."""
        for connection in self._open.values():
            yield from (inbound for inbound in connection.in_flight if not inbound.answered)

    def parked(self, channel: RequestChannel) -> list[tuple[int, int]]:
        """API keys, and how many requests of each are handled and parked; for metrics."""
        counts: dict[int, int] = {}
        for connection in self._open.values():
            for inbound in connection.in_flight if connection.channel is channel else ():
                if inbound.handled_at and not inbound.answered and inbound.request is not None:
                    counts[inbound.request.api_key] = counts.get(inbound.request.api_key, 0) + 1
        return sorted(counts.items())

    def opened(self, now: int, identity: int, listener: str) -> None:
        channel, versions = self._channels[listener], self._versions[listener]
        self._open[identity] = Connection(identity, listener, channel, versions, now)
        self.idle_due = min(self.idle_due, now + self._idle_max)
        self.opened_count[listener] += 1

    def received(self, now: int, identity: int, frame: Buffer) -> None:
        connection = self._open.get(identity)
        if connection is None:
            return
        inbound, channel = Inbound(connection, frame, now), connection.channel
        connection.heard_at = now
        connection.in_flight.append(inbound)
        channel.put(inbound)
        connection.use(inbound.charge)
        if channel.full or connection.is_overfull or channel.budget.takes_no_more:
            self._pause(connection)

    def host_holds(self, identity: int, size: int) -> None:
        """Update how many bytes the host holds for a connection: an incomplete frame, and unread responses."""
        connection = self._open.get(identity)
        if connection is None:
            return
        grew = size > connection.at_host
        connection.use(size - connection.at_host)
        connection.at_host = size
        if grew and connection.channel.budget.takes_no_more:
            self._pause(connection)

    def is_short(self, listener: str) -> bool:
        """Whether the memory for this listener's connections is used up."""
        return self._channels[listener].budget.takes_no_more

    def stalled(self, identity: int, stalled: bool) -> None:
        """Record that the peer stopped, or resumed, reading its responses, as the host reports."""
        connection = self._open.get(identity)
        if connection is not None:
            connection.stalled = stalled
            self._release(connection)

    def drained(self) -> None:
        """Record that the host has drained the outbox."""
        if self._given:
            given, self._given = self._given, []
            for connection in given:
                if not connection.closed:
                    connection.use(-connection.unsent)
                connection.unsent = 0
                self._release(connection)

    @property
    def any_released(self) -> bool:
        """Whether some requests may be served as soon as the host has drained the outbox."""
        return any(connection.held and not connection.stalled for connection in self._given)

    def frees_memory(self, channel: RequestChannel) -> bool:
        """Whether memory of a channel's connections is free as soon as the host has drained the outbox."""
        return any(connection.channel is channel and not connection.closed for connection in self._given)

    def _release(self, connection: Connection) -> None:
        if connection.held and not connection.is_clogged and not connection.closed:
            connection.channel.put_back(connection)

    def closed(self, identity: int) -> Connection | None:
        """Remove a connection that the host lost, and drop its unanswered requests."""
        connection = self._open.pop(identity, None)
        if connection is not None:
            connection.closed = True
            connection.use(-connection.memory)
            connection.at_host = 0
            for inbound in connection.in_flight:
                if inbound.request is not None:
                    inbound.request.close()
            connection.in_flight.clear()
            connection.held.clear()
            connection.channel.forget(connection)
        return connection

    def expire(self, now: int) -> None:
        """Close connections that are idle for too long and have no unanswered request (`connections.max.idle.ms`)."""
        if now < self.idle_due:
            return
        self.idle_due = NEVER
        for connection in list(self._open.values()):
            heard = now if connection.in_flight else connection.heard_at
            if heard + self._idle_max <= now:
                connection.channel.expired += 1
                self.drop(connection)
            else:
                self.idle_due = min(self.idle_due, heard + self._idle_max)

    def drop(self, connection: Connection) -> None:
        """Close a connection from this side."""
        if self.closed(connection.id) is not None:
            self._outbox.append(Close(connection.id))

    def decode(self, now: int, inbound: Inbound) -> ServerRequest:
        """Decode the request in a frame; it is answered already if its version was refused. Raises ProtocolError."""
        assert inbound.frame is not None, "a frame is decoded once"
        if inbound.size > PLAIN_REQUEST_MAX and inbound.frame[:2] != _PRODUCE:
            raise ProtocolError(
                f"a request of {inbound.size} bytes; only Produce may have more than {PLAIN_REQUEST_MAX}"
            )
        request = inbound.connection.session.received(inbound.received_at, inbound.frame, ELEMENTS_MAX)
        inbound.frame = None
        inbound.request = request
        if request.answer is not None:
            self._answered(inbound, request)
        else:
            request.on_answer = partial(self._answered, inbound)
        return request

    def _answered(self, inbound: Inbound, request: ServerRequest) -> None:
        """Handle a request's answer: chunks, silence, or closing its connection. Send what is next in order."""
        request.on_answer = None  # breaks a cycle that would keep megabytes of records until garbage collection
        connection = inbound.connection
        if connection.closed:
            return
        assert request.answer is not None and not inbound.answered, "a request is answered once"
        if self.on_answer is not None:
            self.on_answer(request)
        if request.answer.close:
            self.drop(connection)
            return
        inbound.answered = True
        inbound.chunks = request.chunks()
        if inbound.handled_at and self.on_late_answer is not None:
            self.on_late_answer(inbound)
        waiting = connection.in_flight
        if waiting[0] is not inbound:
            self._charge(inbound, sum(map(len, inbound.chunks)))
        while waiting and waiting[0].answered:
            ready = waiting.popleft()
            self._charge(ready, 0)
            if ready.chunks:
                self._give(connection, ready.chunks, early=ready.is_fetch and connection.channel is self._fetched_early)
        if inbound.is_fetch:
            connection.fetches -= 1
            self._release(connection)
        if connection.paused and connection.is_half_free:
            channel = connection.channel
            if not channel.full and channel.budget.has_room:
                self._resume(connection)

    def handled(self, inbound: Inbound) -> None:
        """Charge a parked request for its decoded items: its frame is freed, the decoded request is kept."""
        request = inbound.request
        if request is not None and not inbound.answered:
            self._charge(inbound, request.elements * ELEMENT_COST)

    @staticmethod
    def _charge(inbound: Inbound, size: int) -> None:
        if not inbound.connection.closed:
            inbound.connection.use(size - inbound.charge)
            inbound.charge = size

    def _give(self, connection: Connection, chunks: Sequence[Buffer], *, early: bool) -> None:
        self._outbox.append(Send(connection.id, chunks, early))
        if not connection.unsent:
            self._given.append(connection)
        size = sum(map(len, chunks))
        connection.unsent += size
        connection.use(size)

    def relieve(self, channel: RequestChannel) -> None:
        """Resume connections that a full channel had paused, if there is room again."""
        if not channel.has_paused:
            return
        for connection in channel.relieved():
            self._resume(connection)

    def make_room(self, now: int, channel: RequestChannel) -> None:
        """Serve connections that waited for memory, or close those that hold most if none has become free for long."""
        budget = channel.budget
        was_exhausted = budget.exhausted_since != NEVER
        if budget.look(now):
            self._evict(now, channel)
            budget.look(now)  # before the released connections have filled what was freed
        if was_exhausted and budget.exhausted_since == NEVER:
            for connection in self._open.values():
                if connection.channel is channel:
                    self._release(connection)

    def _evict(self, now: int, channel: RequestChannel) -> None:
        holders = [one for one in self._open.values() if one.channel is channel]
        holders.sort(key=lambda one: one.memory, reverse=True)
        freed = closed = 0
        for largest in holders:
            if freed > channel.budget.to_close:
                break
            freed += largest.memory
            closed += 1
            self.drop(largest)
        if not closed:
            return
        channel.evicted += closed
        self.notices.append(
            f"closing {closed} connections on {holders[0].listener}: they hold {freed} bytes, and all that "
            f"queued.max.request.bytes allows is in use"
        )
        channel.budget.wait(now)

    def _pause(self, connection: Connection) -> None:
        if not connection.paused:
            connection.paused = True
            connection.channel.remember_paused(connection)
            self._outbox.append(Pause(connection.id))

    def _resume(self, connection: Connection) -> None:
        connection.paused = False
        connection.channel.forget(connection)
        self._outbox.append(Resume(connection.id))
