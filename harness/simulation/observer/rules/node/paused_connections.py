"""PAUSED: a node reads nothing from a connection for which it has no room, and reads on as soon as it has.

A connection that is never resumed is a client that hangs until its own time-out; one that is not paused makes a node
hold whatever it sends. Both need many requests at once, and clients try again, so that nothing else shows it. Asserted
after a turn:

* a connection that has sent something is paused if it has `IN_FLIGHT_MAX` unanswered requests, or `QUEUED_BYTES_MAX`
  bytes of unprocessed ones;
* a connection that has sent something is marked as paused if it is among those that the node will resume, and else not;
* a connection stays paused for a reason: its channel is not half free, or its memory has no room, or the connection
  itself has too much. The reason may be over at the end of one turn, since the node looks at paused connections before
  it serves, but not of two;
* a connection that has ended is not among those that the node will resume;
* the host has paused what the node had paused after the turn before, and nothing else.

Source: `queued.max.requests` and `queued.max.request.bytes` of Kafka, KIP-72; backpressure in `channels.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.channels import IN_FLIGHT_MAX, QUEUED_BYTES_MAX, Connection


@dataclass(slots=True)
class _Seen:
    """The paused connections of a process after its last turn, and those of them that nothing kept from going on."""

    incarnation: int
    paused: set[int] = field(default_factory=set)
    able: set[int] = field(default_factory=set)


class PausedConnections(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, _Seen] = {}

    def died(self, process: SimProcess) -> None:
        self._seen.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        connections = node.connections
        paused = list(connections.paused())
        ended = next((one.id for one in paused if connections.find(one.id) is not one), None)
        if ended is not None:
            raise InvariantBroken("PAUSED", f"{process.name} would resume connection {ended}, which has ended")
        _check_senders(process, node, {one.id for one in paused})
        before = self._seen.pop(process.name, None)
        if before is not None and before.incarnation == process.incarnation:
            self._compare_host(process, before)
            for one in paused:
                if one.id in before.able and _is_able(one):
                    raise InvariantBroken(
                        "PAUSED",
                        f"{process.name} keeps a connection paused that has {_has(one)}, and has room: "
                        f"{len(one.channel)} of {one.channel.capacity} requests wait",
                    )
        able = {one.id for one in paused if _is_able(one)}
        self._seen[process.name] = _Seen(process.incarnation, {one.id for one in paused}, able)

    def _compare_host(self, process: SimProcess, before: _Seen) -> None:
        """The host acts on what left after the turn before; a connection that has ended meanwhile is no more."""
        for connection in before.paused ^ process.held_connections:
            if process.peer_address(connection) is not None:
                what = "still reads from" if connection in before.paused else "no longer reads from"
                raise InvariantBroken(
                    "PAUSED",
                    f"the host of {process.name} {what} connection {connection}, and the node believes otherwise",
                )


def _check_senders(process: SimProcess, node: BaseNode, paused: set[int]) -> None:
    for method, arguments in process.last_inputs:
        if method.__name__ == "received" and arguments[0] > 0:
            sender = node.connections.find(int(arguments[0]))
            if sender is None:
                continue
            if _has_too_much(sender) and sender.id not in paused:
                raise InvariantBroken("PAUSED", f"{process.name} reads on from a connection that has {_has(sender)}")
            if sender.paused != (sender.id in paused):
                raise InvariantBroken(
                    "PAUSED",
                    f"{process.name} takes connection {sender.id} {'' if sender.paused else 'not '}to be paused, and "
                    f"will {'not ' if sender.paused else ''}resume it",
                )


def _has_too_much(connection: Connection) -> bool:
    return len(connection.in_flight) >= IN_FLIGHT_MAX or connection.queued_bytes >= QUEUED_BYTES_MAX


def _is_able(connection: Connection) -> bool:
    """Return whether nothing keeps a paused connection from being read from."""
    channel = connection.channel
    return channel.half_free and channel.budget.has_room and not _has_too_much(connection)


def _has(connection: Connection) -> str:
    return f"{len(connection.in_flight)} unanswered requests, and {connection.queued_bytes} bytes of unprocessed ones"
