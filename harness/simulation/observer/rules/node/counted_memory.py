"""BUDGET: a plane's budget of memory counts what the plane's open connections hold, and nothing else.

What is counted and never given back ends in a plane that reads nothing more and closes every connection; what is held
and not counted, in a node without memory. Either takes long, with many connections. So the sums are compared after
every `EVERY`-th turn of a node, and at the end of the run:

* a budget counts what the open connections of its plane hold;
* a connection holds what its host holds for it, the responses that leave with this turn, and its requests. A request
  counts with its size before it is served, and with its decoded items while it waits; a response that waits for those
  of earlier requests with its size;
* a connection's `queued_bytes` are those of its requests that are not served yet, and its `fetches` are the served ones
  without an answer, at most `FETCHES_MAX`;
* a channel counts the bytes of the requests that wait in it.

Source: KIP-72 (`queued.max.request.bytes`). Legal: a plane without a limit counts as well; a request of a connection
that has ended waits in its channel until it is reached.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.channels import ELEMENT_COST, FETCHES_MAX, Connection, Inbound, RequestChannel
from squall.nodes.node.node import Node

EVERY = 16


class CountedMemory(Rule):
    """See the module."""

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self.cluster.turns[process.name] % EVERY == 0:
            _check(process.name, node)

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            if process.node is not None:
                _check(process.name, process.node)


def _check(name: str, node: BaseNode) -> None:
    if not isinstance(node, Node):
        return
    for channel in (node.data, node.control):
        held = waits = 0
        for connection in node.connections.of_channel(channel):
            _check_connection(f"{name}: connection {connection.id} of the {channel.name} plane", connection)
            held += connection.memory
            waits += connection.queued_bytes - sum(inbound.size for inbound in connection.held)
        _check_channel(f"{name}: the {channel.name} plane", channel, held, waits)


def _check_channel(where: str, channel: RequestChannel, held: int, waits: int) -> None:
    if channel.budget.used != held:
        raise _broken(f"{where} counts {channel.budget.used} bytes, and its connections hold {held}")
    if channel.bytes < waits or (channel.bytes and not len(channel)):
        raise _broken(
            f"{where} counts {channel.bytes} bytes of {len(channel)} requests that wait, and those of open connections "
            f"have {waits}"
        )


def _check_connection(where: str, connection: Connection) -> None:
    charged = queued = fetches = 0
    for inbound in connection.in_flight:
        expected = _charge_of(inbound)
        if inbound.charge != expected:
            raise _broken(f"{where} has {_state_of(inbound)} of {expected} bytes, which counts as {inbound.charge}")
        charged += inbound.charge
        queued += inbound.size if inbound.request is None else 0
        fetches += inbound.is_fetch and inbound.request is not None and not inbound.answered
    if connection.memory != connection.at_host + connection.unsent + charged:
        raise _broken(
            f"{where} counts {connection.memory} bytes; its host holds {connection.at_host}, {connection.unsent} leave "
            f"with this turn, and its requests have {charged}"
        )
    if connection.queued_bytes != queued:
        raise _broken(f"{where} counts {connection.queued_bytes} bytes of requests to be served, and {queued} are")
    if not connection.fetches == fetches <= FETCHES_MAX:
        raise _broken(
            f"{where} counts {connection.fetches} fetches without an answer; there are {fetches}, and may be "
            f"{FETCHES_MAX}"
        )


def _charge_of(inbound: Inbound) -> int:
    if inbound.answered:
        return sum(map(len, inbound.chunks or ()))
    return inbound.size if inbound.request is None else inbound.request.elements * ELEMENT_COST


def _state_of(inbound: Inbound) -> str:
    if inbound.answered:
        return "a response that waits for earlier ones"
    return "a request that waits to be served" if inbound.request is None else "a request that waits for its answer"


def _broken(what: str) -> InvariantBroken:
    return InvariantBroken("BUDGET", what)
