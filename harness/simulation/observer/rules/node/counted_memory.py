"""BUDGET: a plane's budget of memory counts what the plane's open connections hold, and nothing else.

What is counted and never given back ends in a plane that reads nothing more and closes every connection; what is held
and not counted, in a node without memory. Either takes long, with many connections. So the sum is compared after every
`EVERY`-th turn of a node, and at the end of the run. A response that waits for those of earlier requests counts with
its size.

Source: KIP-72 (`queued.max.request.bytes`). Legal: a plane without a limit counts as well.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
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
        held = node.connections.memory_of(channel)
        if channel.budget.used != held:
            raise InvariantBroken(
                "BUDGET",
                f"{name}: the {channel.name} plane counts {channel.budget.used} bytes, and its connections hold {held}",
            )
        for inbound in node.connections.waiting(channel):
            size = sum(map(len, inbound.chunks or ()))
            if inbound.charge != size:
                raise InvariantBroken(
                    "BUDGET",
                    f"{name}: a response of {size} bytes waits on the {channel.name} plane for earlier ones, and "
                    f"counts as {inbound.charge}",
                )
