"""HWM: a leader commits nothing before a record of its own epoch, which also commits all older ones (QC-16).

Source: KIP-595 and Raft, section 5.4.2. Asserted in each turn that moves the leader's log or its high watermark. Legal:
a high watermark that is not known yet.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.raft.roles import Leader


class QuorumCommitment(Rule):
    """See the module."""

    def quorum_moved(self, turn: QuorumTurn) -> None:
        role = turn.node.raft.role
        if not isinstance(role, Leader):
            return
        if role.high_watermark is not None and role.high_watermark <= role.epoch_start_offset:
            raise InvariantBroken(
                "HWM",
                f"{turn.process.name} leads quorum epoch {role.epoch} from offset {role.epoch_start_offset} on, and "
                f"counts records up to {role.high_watermark} as committed, all of older epochs",
            )
