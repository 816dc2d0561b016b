"""ELECT: a new leader of the quorum has every committed record of the metadata log.

Source: KIP-595, leader completeness. Asserted in the turn in which a node begins to lead an epoch; that an epoch has
one leader is asserted at the same time (`ObservedLog.one_leader`). Records that the leader appends to begin its epoch
do not count.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, ObservedLog
from squall.nodes.raft.roles import Leader


class QuorumLeader(Rule):
    """See the module."""

    def quorum_led(self, turn: QuorumTurn) -> None:
        log, end, epoch = self.cluster.quorum, turn.now[0], turn.now[3]
        if end < log.end:
            raise InvariantBroken(
                "ELECT",
                f"{turn.process.name} leads quorum epoch {epoch} with log end {end}, {log.end} are committed: "
                f"{_first_lacking(log, turn.node.raft.role, end)}",
            )


def _first_lacking(log: ObservedLog, role: object, end: int) -> str:
    """Describe the first committed record that a new quorum leader lacks."""
    offset = min(end, role.epoch_start_offset) if isinstance(role, Leader) else end
    batch = log.at(offset)
    return f"it lacks offset {offset}" + ("" if batch is None else f" of epoch {batch.epoch}")
