"""The in-sync replicas of a topic-partition at its leader: the committed ISR, and one change under way.

    committed ──propose──▶ pending ──accepted──▶ committed          the controller's response, or metadata
                              │ ──refused───▶ committed (as before)
                              │ ──undecided─▶ pending, unanswered    until metadata arrives

While a change is pending the leader must be right whichever way it ends. So the high watermark waits for the *maximal*
ISR: a pending expansion counts the new member at once (IS-05), a pending shrink still counts the old members (IS-04).
Only the committed ISR counts for min ISR.
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.nodes.replication.ports import IsrProposal


@dataclass(frozen=True, slots=True)
class IsrState:
    """Committed ISR, and the proposal under way. `answered`: no response will come, metadata will decide."""

    committed: tuple[int, ...]
    pending: IsrProposal | None = None
    answered: bool = False

    @property
    def maximal(self) -> tuple[int, ...]:
        if self.pending is None:
            return self.committed
        added = tuple(broker for broker in self.pending.members if broker not in self.committed)
        return self.committed + added

    @property
    def proposal(self) -> IsrProposal | None:
        """The proposal that still needs a response from the controller."""
        return None if self.answered else self.pending

    def proposing(self, proposal: IsrProposal) -> IsrState:
        """Add a proposal. At most one change is under way (rule 20)."""
        assert self.pending is None, "an ISR change is under way already"
        return IsrState(self.committed, proposal)

    def reverted(self) -> IsrState:
        return IsrState(self.committed)

    def undecided(self) -> IsrState:
        return IsrState(self.committed, self.pending, answered=True)
