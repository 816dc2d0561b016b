"""Outbound connections: to brokers, to voters, to whoever is the active controller.

Components hand over `OutboundRequest`s and are told the end of each exactly once. In between, this module finds the
address, keeps one connection per (destination, purpose), so that a long poll never stands before a heartbeat, and
lets go of what does not answer:

* a connection that fails ends the requests it carried and those that waited for it with None; a destination whose
  address is not known yet is looked up again after a pause, until the request's deadline;
* after a failure a link rests before it connects again, from 50 ms doubling to 1 s, with jitter (FD-01: a returning
  peer is found within a second);
* a request past its deadline ends, and with it the connection it was sent on, since the answer may still come;
* a connection not established within `CONNECT_TIMEOUT` is given up: in a network partition the retransmissions of a
  connect thin out, and a fresh one finds the healed network sooner.

Requests to the active controller follow the quorum's leader. One answered NOT_CONTROLLER, in all of its parts, is asked
again of the then leader until its deadline: a controller says so only of what has changed nothing
(`controller.refusals`). So is one that was never sent. One that was sent and whose connection was lost before an answer
may have been carried out, and is never repeated here: it ends with None. Peers speak our fixed versions, so no
ApiVersions precedes the first request.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from squall.nodes.metadata.admin_writes import WRITES, asked_of
from squall.nodes.node.dispatch import peer_version, purpose_of
from squall.nodes.node.effects import Buffer, Close, Connect, Effect, Send
from squall.nodes.node.timings import Recent
from squall.nodes.ports import NullTrace, Rng, Trace
from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import ClientSession, Complete, OutboundRequest, ToActiveController, ToVoter

NEVER = 2**63 - 1
CONNECT_TIMEOUT = 1_000_000
BACKOFF_MIN = 50_000
BACKOFF_MAX = 1_000_000
CONTROLLER_RETRY = 50_000


NOBODY = NullTrace()


class Directory(Protocol):
    """Where nodes are, as this node knows it now."""

    def broker_address(self, broker: int) -> tuple[str, int] | None: ...

    def voter_address(self, voter: int) -> tuple[str, int] | None: ...

    def active_controller(self) -> int | None:
        """The leader of the metadata quorum, if one is known."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request not yet on the wire."""

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
    """When `tick` must look at it; 0 while that is not known, because something has changed."""
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
    ) -> None:
        """Traced: `admin_sent`, each time that an administrator's write is sent, with the number of the request."""
        self._trace = trace
        self._client_id = client_id
        self._submitted = 0
        self._directory = directory
        self._rng = rng
        self._outbox = outbox
        self._links: dict[tuple[bool, int, str], _Link] = {}
        self._by_connection: dict[int, _Link] = {}
        self._for_controller: list[_Waiting] = []
        self._look_again = NEVER
        self._last_connection = 0
        self.controller_times: dict[int, Recent] = {}
        """By API key: from a component's asking the active controller to its hearing the end of it, whatever it was."""

    # -- requests -------------------------------------------------------------------------------------------------

    def submit(self, now: int, request: OutboundRequest) -> None:
        """Take over a request. Its `complete` is never called from inside this."""
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
            self._for_controller.append(waiting)
            self._look_again = min(self._look_again, now + CONTROLLER_RETRY)
        else:
            self._enqueue(now, waiting, to_controller=True, node=leader)

    def _enqueue(self, now: int, waiting: _Waiting, *, to_controller: bool, node: int) -> None:
        key = (to_controller, node, purpose_of(waiting.request.message))
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = _Link(*key, ClientSession(self._client_id))
        link.waiting.append(waiting)
        self._advance(now, link)

    def _advance(self, now: int, link: _Link) -> None:
        """Send what waits, or see to it that there is a connection to send it on."""
        link.due = 0
        if link.established:
            while link.waiting:
                self._send(now, link, link.waiting.popleft())
        elif not link.connection and link.waiting and link.rest_until <= now:
            self._connect(now, link)

    def _connect(self, now: int, link: _Link) -> None:
        find = self._directory.voter_address if link.to_controller else self._directory.broker_address
        address = find(link.node)
        if address is None:
            self._rest(now, link)
            return
        self._last_connection -= 1
        link.connection = self._last_connection
        link.connect_deadline = now + CONNECT_TIMEOUT
        self._by_connection[link.connection] = link
        self._outbox.append(Connect(link.connection, *address))

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
                    asked=asked_of(request.message),
                    request=waiting.number,
                )
        version = peer_version(request.message, to_controller=link.to_controller)
        chunks = link.session.send(request.message, version, now, waiting.deadline, complete)
        self._outbox.append(Send(link.connection, chunks))

    def _follow_controller(self, waiting: _Waiting) -> Complete:
        def complete(now: int, response: Message | None) -> None:
            if response is not None and says_not_controller(response) and now + CONTROLLER_RETRY < waiting.deadline:
                self._for_controller.append(waiting)
                self._look_again = min(self._look_again, now + CONTROLLER_RETRY)
            else:
                self._finish(now, waiting, response)

        return complete

    def _finish(self, now: int, waiting: _Waiting, response: Message | None) -> None:
        """A request to the active controller has its end."""
        api_key = waiting.request.message.API_KEY
        times = self.controller_times.get(api_key)
        if times is None:
            times = self.controller_times[api_key] = Recent()
        times.add(now - waiting.submitted)
        waiting.request.complete(now, response)

    def described(self, connection: int) -> str | None:
        """An outbound connection in words, None if there is none of that number."""
        link = self._by_connection.get(connection)
        if link is None:
            return None
        return f"the {link.purpose} link to {'controller' if link.to_controller else 'broker'} {link.node}"

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
        link.due = 0
        try:
            link.session.received(now, frame)
        except ProtocolError:
            self._abandon(now, link)

    def closed(self, now: int, connection: int) -> None:
        link = self._by_connection.pop(connection, None)
        if link is not None:
            self._lost(now, link)

    def _abandon(self, now: int, link: _Link) -> None:
        """Close a connection from our side."""
        if link.connection:
            self._by_connection.pop(link.connection, None)
            self._outbox.append(Close(link.connection))
        self._lost(now, link)

    def _lost(self, now: int, link: _Link) -> None:
        link.connection = 0
        link.due = 0
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
        """A request that was never sent has failed; one to the active controller may yet find another."""
        request = waiting.request
        if isinstance(request.destination, ToActiveController) and now < waiting.deadline:
            self._for_controller.append(waiting)
            self._look_again = min(self._look_again, now + CONTROLLER_RETRY)
        elif isinstance(request.destination, ToActiveController):
            self._finish(now, waiting, None)
        else:
            request.complete(now, None)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        for link in list(self._links.values()):
            if link.due <= now:
                self._tick_link(now, link)
        if self._look_again <= now:
            self._look_again = NEVER
            again, self._for_controller = self._for_controller, []
            for waiting in again:
                if waiting.deadline <= now:
                    self._finish(now, waiting, None)
                else:
                    self._ask_controller(now, waiting)

    def _tick_link(self, now: int, link: _Link) -> None:
        if link.connect_deadline <= now or (len(link.session) and link.session.expired(now)):
            self._abandon(now, link)
        if link.waiting and any(waiting.deadline <= now for waiting in link.waiting):
            late = [waiting for waiting in link.waiting if waiting.deadline <= now]
            link.waiting = deque(waiting for waiting in link.waiting if waiting.deadline > now)
            for waiting in late:
                self._end(now, waiting)
        self._advance(now, link)

    def deadline(self) -> int:
        nearest = self._look_again
        for link in self._links.values():
            if link.due == 0:
                link.due = self._due(link)
            if link.due < nearest:
                nearest = link.due
        return nearest

    @staticmethod
    def _due(link: _Link) -> int:
        nearest = link.connect_deadline if link.connection else NEVER
        if len(link.session):
            nearest = min(nearest, link.session.deadline())
        if link.waiting:
            nearest = min(nearest, min(waiting.deadline for waiting in link.waiting))
            if not link.connection:
                nearest = min(nearest, link.rest_until)
        return nearest


def says_not_controller(response: Message) -> bool:
    """Whether the node asked was not the active controller, and so did nothing: no part of the answer says else."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    items = [item for name in ("topics", "responses", "results") for item in getattr(response, name, ())]
    return bool(items) and all(getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER for item in items)
