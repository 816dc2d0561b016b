"""What a quorum replica raises."""

from __future__ import annotations


class InvariantViolation(Exception):
    """A safety rule of the protocol was broken by this replica itself: a leader without a majority, a second vote.

    A node must not go on: what it would do next could turn a mistake into lost data (rules 36 and 37).
    """


class Implausible(Exception):
    """A peer says what cannot be: a second leader in one epoch, an epoch out of reach, committed records to be cut.

    Raised before anything has changed. The message is refused and reported, never obeyed, and never ends the node: it
    may be forged.
    """


class NotLeader(Exception):
    """Something only the leader may do was asked of a replica that is not, or is no longer, the leader."""

    def __init__(self, leader_id: int | None, epoch: int) -> None:
        where = "no leader is known" if leader_id is None else f"the leader is {leader_id}"
        super().__init__(f"not the leader of epoch {epoch}; {where}")
        self.leader_id = leader_id
        self.epoch = epoch
