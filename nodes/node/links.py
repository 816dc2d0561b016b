"""Outbound connections: to brokers, to voters, to the active controller.

Components submit `OutboundRequest`s, each of which is completed exactly once. In between, this module finds the
address, keeps one connection per (destination, purpose), so that a long poll never delays a heartbeat, and abandons
connections without responses:

* a connection that fails ends the requests it carried and those that waited for it with None; an unknown address is
  looked up again after a pause, until the request's deadline; a request to the active controller does not wait for it,
  since a removed voter's address stays unknown while another one leads (`worlds` seed 996747);
* after a failure a link pauses before it connects again, from 50 ms doubling to 1 s, with jitter (FD-01: a returning
  peer is found within a second);
* a request past its deadline ends, and with it the connection it was sent on, since the response may still arrive. As
  in Kafka, a request to a certain node has its whole time-out from when it is sent, however long it waited for the
  connection: else the pause after a failure could leave less of it than a fetch waits, each time anew (`worlds` seeds
  1024500, 1024821). One to the active controller has it from its submission, since others wait for its outcome;
* a connection not established within `CONNECT_TIMEOUT` is abandoned: in a network partition the retransmissions of a
  connect become rarer, and a new connect finds the healed network sooner.

Requests to the active controller follow the quorum's leader. A request is retried at the current leader until its
deadline if it was answered NOT_CONTROLLER in all its parts, since a controller answers that only if nothing was changed
(`controller.error_responses`), or if it was never sent. A request that was sent and whose connection was lost before a
response may have been carried out, and is never retried here: it ends with None. Peers use our fixed versions, so no
ApiVersions precedes the first request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from squall.nodes.metadata.admin_writes import WRITES, asked_of
from squall.nodes.node.dispatch import ORDERS, peer_version, purpose_of
from squall.nodes.node.effects import Buffer, Close, Connect, Effect, Send
from squall.nodes.node.timings import Recent
from squall.nodes.ports import NullTrace, Rng, Trace
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ClientSession, Complete, OutboundRequest, ToActiveController, ToVoter
from squall.nodes.protocol.schema import Message

NEVER = 2**63 - 1
CONNECT_TIMEOUT = 1_000_000
BACKOFF_MIN = 50_000
BACKOFF_MAX = 1_000_000
CONTROLLER_RETRY = 50_000


NOBODY = NullTrace()


class VersionOf(Protocol):
    """The version of a request, which the peer serves."""

    def __call__(self, message: Message, *, to_controller: bool) -> int: ...


class Directory(Protocol):
    """The addresses of nodes, as this node knows them now."""

    def broker_address(self, broker: int) -> tuple[str, int] | None: ...

    def orders_address(self, broker: int) -> tuple[str, int] | None:
        """Where a broker takes the requests of a ZooKeeper-era controller."""
        ...

    def voter_address(self, voter: int) -> tuple[str, int] | None: ...

    def active_controller(self) -> int | None:
        """The leader of the metadata quorum, None if unknown."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that is not sent yet."""

    request: OutboundRequest
    submitted: int
    deadline: int
    number: int


@dataclass(slots=True, eq=False)
class _Link:
    """One connection to one destination for one purpose. `connection` is 0 while there is none."""

    to_controller: bool
    node: int
    purpose: str
    session: ClientSession
    connection: int = 0
    established: bool = False
    connect_deadline: int = NEVER
    rest_until: int = 0
    backoff: int = BACKOFF_MIN
    due: int = 0
    """When `tick` must check it; 0 while unknown, because something has changed."""
    waiting: deque[_Waiting] = field(default_factory=deque)


class Links:
    """All outbound connections of one node. Effects go to the node's outbox."""

    def __init__(
        self,
        client_id: str,
        directory: Directory,
        rng: Rng,
        outbox: list[Effect],
        trace: Trace = NOBODY,
        version_of: VersionOf = peer_version,
    ) -> None:
        """Traces `admin_sent` each time an administrative write is sent, with the number of the request.

        Also `request_expired`, if no response came in time.
        """
        self._trace = trace
        self._version_of = version_of
        self._client_id = client_id
        self._submitted = 0
        self._directory = directory
        self._rng = rng
        self._outbox = outbox
        self._links: dict[tuple[bool, int, str], _Link] = {}
        self._by_connection: dict[int, _Link] = {}
        self._for_controller: list[_Waiting] = []
        self._look_again = NEVER
        self._nearest = 0
        """When `tick` has something to do; 0 while unknown, because something has changed."""
        self._last_connection = 0
        self.controller_times: dict[int, Recent] = {}
        """By API key: time from a component's request to the active controller to its completion, with any result."""

    # -- requests -------------------------------------------------------------------------------------------------

    def submit(self, now: int, request: OutboundRequest) -> None:
        """Submit a request. Its `complete` is never called from inside this."""
        self._submitted += 1
        waiting = _Waiting(request, now, now + request.timeout, self._submitted)
        if isinstance(request.destination, ToActiveController):
            self._ask_controller(now, waiting)
        elif isinstance(request.destination, ToVoter):
            self._enqueue(now, waiting, to_controller=True, node=request.destination.id)
        else:
            self._enqueue(now, waiting, to_controller=False, node=request.destination.id)

    def _ask_controller(self, now: int, waiting: _Waiting) -> None:
        leader = self._directory.active_controller()
        if leader is None:
            self._ask_again(now, waiting)
        else:
            self._enqueue(now, waiting, to_controller=True, node=leader)

    def _ask_again(self, now: int, waiting: _Waiting) -> None:
        """Look for the active controller after a pause."""
        self._for_controller.append(waiting)
        self._look_again = min(self._look_again, now + CONTROLLER_RETRY)
        self._nearest = 0

    def _enqueue(self, now: int, waiting: _Waiting, *, to_controller: bool, node: int) -> None:
        key = (to_controller, node, purpose_of(waiting.request.message))
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = _Link(*key, ClientSession(self._client_id))
        link.waiting.append(waiting)
        self._advance(now, link)

    def _advance(self, now: int, link: _Link) -> None:
        """Send waiting requests, or start a connection for them."""
        link.due = self._nearest = 0
        if link.established:
            while link.waiting:
                self._send(now, link, link.waiting.popleft())
        elif not link.connection and link.waiting and link.rest_until <= now:
            self._connect(now, link)

    def _connect(self, now: int, link: _Link) -> None:
        address = self._address_of(link)
        if address is None:
            self._rest(now, link)
            self._look_for_the_leader(now, link)
            return
        self._last_connection -= 1
        link.connection = self._last_connection
        link.connect_deadline = now + CONNECT_TIMEOUT
        self._by_connection[link.connection] = link
        self._outbox.append(Connect(link.connection, *address))

    def _look_for_the_leader(self, now: int, link: _Link) -> None:
        """Take from a link without an address what is for the active controller: another voter may lead by now."""
        waiting, link.waiting = link.waiting, deque()
        for one in waiting:
            if isinstance(one.request.destination, ToActiveController):
                self._ask_again(now, one)
            else:
                link.waiting.append(one)

    def _address_of(self, link: _Link) -> tuple[str, int] | None:
        directory = self._directory
        if link.to_controller:
            return directory.voter_address(link.node)
        return directory.orders_address(link.node) if link.purpose == ORDERS else directory.broker_address(link.node)

    def _send(self, now: int, link: _Link, waiting: _Waiting) -> None:
        request = waiting.request
        complete = request.complete
        if isinstance(request.destination, ToActiveController):
            complete = self._follow_controller(waiting)
            if request.message.API_KEY in WRITES:
                self._trace.event(
                    "admin_sent",
                    client=self._client_id,
                    correlation=link.session.next_id,
                    controller=link.node,
                    asked=asked_of(request.message),
                    request=waiting.number,
                )
            deadline = waiting.deadline
        else:
            deadline = now + request.timeout
        version = self._version_of(request.message, to_controller=link.to_controller)
        chunks = link.session.send(request.message, version, now, deadline, complete)
        self._outbox.append(Send(link.connection, chunks, early=request.message.API_KEY == ApiKey.APPEND_ENTRIES))

    def _follow_controller(self, waiting: _Waiting) -> Complete:
        def complete(now: int, response: Message | None) -> None:
            if response is not None and says_not_controller(response) and now + CONTROLLER_RETRY < waiting.deadline:
                self._ask_again(now, waiting)
            else:
                self._finish(now, waiting, response)

        return complete

    def _finish(self, now: int, waiting: _Waiting, response: Message | None) -> None:
        """Complete a request to the active controller."""
        api_key = waiting.request.message.API_KEY
        times = self.controller_times.get(api_key)
        if times is None:
            times = self.controller_times[api_key] = Recent()
        times.add(now - waiting.submitted)
        waiting.request.complete(now, response)

    def described(self, connection: int) -> str | None:
        """Describe an outbound connection in words; None for an unknown number."""
        link = self._by_connection.get(connection)
        if link is None:
            return None
        return f"the {link.purpose} link to {'controller' if link.to_controller else 'broker'} {link.node}"

    def to_voters(self) -> Iterator[tuple[int, int]]:
        """Yield node and API key of each request to a controller that is sent or waits to be, and is not answered."""
        for link in self._links.values():
            if link.to_controller:
                for api_key in link.session.outstanding():
                    yield link.node, api_key
                for waiting in link.waiting:
                    yield link.node, waiting.request.message.API_KEY

    def first_timeout(self) -> int:
        """When the first request times out that waits to be sent, NEVER without one; for observers."""
        return min((waiting.deadline for link in self._links.values() for waiting in link.waiting), default=NEVER)

    # -- connections ----------------------------------------------------------------------------------------------

    def opened(self, now: int, connection: int) -> None:
        link = self._by_connection.get(connection)
        if link is not None:
            link.established = True
            link.connect_deadline = NEVER
            self._advance(now, link)

    def received(self, now: int, connection: int, frame: Buffer) -> None:
        link = self._by_connection.get(connection)
        if link is None:
            return
        link.backoff = BACKOFF_MIN
        link.due = self._nearest = 0
        try:
            link.session.received(now, frame)
        except ProtocolError as error:
            self._trace.event("answer_refused", client=self._client_id, to=link.node, why=str(error))
            self._abandon(now, link)

    def closed(self, now: int, connection: int) -> None:
        link = self._by_connection.pop(connection, None)
        if link is not None:
            self._lost(now, link)

    def _abandon(self, now: int, link: _Link) -> None:
        """Close a connection from this side."""
        if link.connection:
            self._by_connection.pop(link.connection, None)
            self._outbox.append(Close(link.connection))
        self._lost(now, link)

    def _lost(self, now: int, link: _Link) -> None:
        link.connection = 0
        link.due = self._nearest = 0
        link.established = False
        link.connect_deadline = NEVER
        self._rest(now, link)
        session = link.session
        link.session = ClientSession(self._client_id, session.next_id)
        doomed, link.waiting = link.waiting, deque()
        session.closed(now)
        for waiting in doomed:
            self._end(now, waiting)

    def _rest(self, now: int, link: _Link) -> None:
        link.rest_until = now + link.backoff // 2 + int(self._rng.random() * link.backoff)
        link.backoff = min(link.backoff * 2, BACKOFF_MAX)

    def _end(self, now: int, waiting: _Waiting) -> None:
        """Fail a request that was never sent; one to the active controller may be retried at another."""
        request = waiting.request
        if isinstance(request.destination, ToActiveController) and now < waiting.deadline:
            self._ask_again(now, waiting)
        elif isinstance(request.destination, ToActiveController):
            self._finish(now, waiting, None)
        else:
            request.complete(now, None)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self.deadline() > now:
            return
        for link in list(self._links.values()):
            if link.due <= now:
                self._tick_link(now, link)
        if self._look_again <= now:
            self._look_again = NEVER
            self._nearest = 0
            again, self._for_controller = self._for_controller, []
            for waiting in again:
                if waiting.deadline <= now:
                    self._finish(now, waiting, None)
                else:
                    self._ask_controller(now, waiting)

    def _tick_link(self, now: int, link: _Link) -> None:
        expired = link.session.expired(now) if len(link.session) else None
        if expired is not None:
            self._trace.event("request_expired", client=self._client_id, to=link.node, api=expired[0], sent=expired[1])
        if link.connect_deadline <= now or expired is not None:
            self._abandon(now, link)
        if link.waiting and any(waiting.deadline <= now for waiting in link.waiting):
            late = [waiting for waiting in link.waiting if waiting.deadline <= now]
            link.waiting = deque(waiting for waiting in link.waiting if waiting.deadline > now)
            for waiting in late:
                self._end(now, waiting)
        self._advance(now, link)

    def deadline(self) -> int:
        if self._nearest == 0:
            nearest = self._look_again
            for link in self._links.values():
                if link.due == 0:
                    link.due = self._due(link)
                if link.due < nearest:
                    nearest = link.due
            self._nearest = nearest
        return self._nearest

    @staticmethod
    def _due(link: _Link) -> int:
        nearest = link.session.deadline()
        if link.connection and link.connect_deadline < nearest:
            nearest = link.connect_deadline
        if link.waiting:
            nearest = min(nearest, min(waiting.deadline for waiting in link.waiting))
            if not link.connection:
                nearest = min(nearest, link.rest_until)
        return nearest


def says_not_controller(response: Message) -> bool:
    """Whether the node was not the active controller and so changed nothing: every part of the response states this."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    items = [item for name in ("topics", "responses", "results") for item in getattr(response, name, ())]
    return bool(items) and all(getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER for item in items)
