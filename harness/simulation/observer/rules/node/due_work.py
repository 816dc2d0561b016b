"""DUE: a node asks its host to call it again as soon as it has something to do, and does nothing before that.

Between its inputs a node is called at the time that its last `deadline` named. If that is too late, its work waits for
the next input: where traffic is dense nothing shows it, and in a quiet cluster a heartbeat is missed, a fetch that
should be answered waits, an election is late. So the simulated host takes a turn more before some of the inputs that
come earlier (`SimProcess.EARLY`), and such a turn must send nothing, open and close nothing, and trace nothing.
Asserted as well after each turn: a node that has served some requests of a queue, and has left others there, has asked
to be called at once; no request to another node is left unsent; a node that was called at the time that it had named,
and did nothing, does not name the same time again: it would be called in vain again; and no node names a later time
than that at which a request that waits to be sent times out, or at which a broker looks at its replicas. Who asks to be
called at once may have to go on with something that shows nowhere, as it loads metadata, but not for over `AT_ONCE`
turns in a row.

Source: the contract between host and node, `nodes/node/base.py`. Legal: work that the inputs after it cause; a broker
on ZooKeeper, whose heartbeat may be answered within the turn, so that the next one is due at once; a candidate that
backs off for no time, since that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER, SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect, Send
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.raft.roles import Candidate, Role

AT_ONCE = 100
"""Turns. Among the first seventy seeds of `worlds` the most were 4."""


class DueWork(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._served: dict[str, tuple[int, int]] = {}
        """By host, how many requests its process had served of each queue, of data and of control, a turn before."""
        self._named: dict[str, tuple[int, int]] = {}
        """By host, the times that its process named after the turn before the last one, and after the last one."""
        self._in_vain: dict[str, int] = {}
        """By host, if its last turn did nothing and asked for another at once: how many such turns were in a row."""
        self._in_vain_before = 0
        """The same of the process whose turn is examined, before this turn."""

    def died(self, process: SimProcess) -> None:
        self._in_vain.pop(process.name, None)
        self._served.pop(process.name, None)
        self._named.pop(process.name, None)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        due = node.deadline()
        self._named[process.name] = self._named.get(process.name, (NEVER, NEVER))[1], due
        self._in_vain_before = self._in_vain.pop(process.name, 0)
        before = self._served.get(process.name, (0, 0))
        self._served[process.name] = node.data.served, node.control.served
        for channel, served in zip((node.data, node.control), before, strict=True):
            if channel.served > served and len(channel) and due > process.now:
                raise InvariantBroken(
                    "DUE",
                    f"{process.name} has served some requests of a queue at {process.now}, has left {len(channel)} "
                    f"there, and named {_named(due)}",
                )
        if _has_unsent(node):
            raise InvariantBroken("DUE", f"{process.name} has left a request to another node unsent at {process.now}")
        for what, at in _parts(node):
            if due > at:
                raise InvariantBroken("DUE", f"{process.name} named {_named(due)}, and {what} at {at}")

    def turned_in_vain(self, process: SimProcess, node: BaseNode) -> None:
        before, due = self._named[process.name]
        if due <= 0:
            in_a_row = self._in_vain[process.name] = self._in_vain_before + 1
            if in_a_row > AT_ONCE:
                raise InvariantBroken(
                    "DUE",
                    f"{process.name} asked {AT_ONCE} times in a row to be called at once, and each time did nothing",
                )
        with_quorum = node_of_quorum(node)
        if with_quorum is None or _backs_off(with_quorum.raft.role):
            return
        if 0 < due == before <= process.now:
            raise InvariantBroken(
                "DUE", f"{process.name} was called at {process.now}, did nothing, and names {due} again"
            )

    def turned_early(self, process: SimProcess, node: BaseNode, due: int, traced: Sequence[str]) -> None:
        if "buggify" in traced:
            return
        done = [f"traces {name}" for name in traced] + [_said(effect) for effect in node.outbox]
        if done:
            raise InvariantBroken(
                "DUE", f"{process.name} named {_named(due)}, and when called at {process.now} it {', '.join(done[:4])}"
            )


def _backs_off(role: Role) -> bool:
    return isinstance(role, Candidate) and role.backing_off


def _parts(node: BaseNode) -> Iterator[tuple[str, int]]:
    """Yield what a node will have to do, and when."""
    yield "a request that waits to be sent times out", node.links.first_timeout()
    if node_of_quorum(node) is not None and node.broker is not None and node.broker.replicas.all():
        yield "its broker looks at its replicas", node.broker.replicas.next_look


def _has_unsent(node: BaseNode) -> bool:
    with_quorum = node_of_quorum(node)
    if with_quorum is not None and with_quorum.raft.requests:
        return True
    return node.broker is not None and node.broker.has_requests


def _named(due: int) -> str:
    return "nothing to be due" if due >= NEVER else f"the time {due}"


def _said(effect: Effect) -> str:
    if not isinstance(effect, Send):
        return f"asks for {effect}"
    if effect.connection > 0:
        return f"answers on connection {effect.connection}"
    return f"sends {ApiKey(int.from_bytes(b''.join(effect.chunks)[:2], 'big')).name}"
