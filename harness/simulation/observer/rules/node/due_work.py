"""DUE: a node does nothing before the time at which it asked its host to call it again.

Between its inputs a node is called at the time that its last `deadline` named. If that is too late, its work waits for
the next input: where traffic is dense nothing shows it, and in a quiet cluster a heartbeat is missed, a fetch that
should be answered waits, an election is late. So the simulated host takes a turn more before some of the inputs that
come earlier (`SimProcess.EARLY`), and such a turn must send nothing, open and close nothing, and trace nothing.

Source: the contract between host and node, `nodes/node/base.py`. Legal: work that the inputs after it cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import NEVER, SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect, Send
from squall.nodes.protocol.messages import ApiKey


class DueWork(Rule):
    """See the module."""

    def turned_early(self, process: SimProcess, node: BaseNode, due: int, traced: Sequence[str]) -> None:
        if "buggify" in traced:
            return
        done = [f"traces {name}" for name in traced] + [_said(effect) for effect in node.outbox]
        if done:
            named = "nothing to be due" if due >= NEVER else f"the time {due}"
            raise InvariantBroken(
                "DUE", f"{process.name} named {named}, and when called at {process.now} it {', '.join(done[:4])}"
            )


def _said(effect: Effect) -> str:
    if not isinstance(effect, Send):
        return f"asks for {effect}"
    if effect.connection > 0:
        return f"answers on connection {effect.connection}"
    return f"sends {ApiKey(int.from_bytes(b''.join(effect.chunks)[:2], 'big')).name}"
