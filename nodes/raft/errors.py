"""Errors that a quorum replica raises."""

from __future__ import annotations


class InvariantViolation(Exception):
    """This replica itself broke a safety rule of the protocol: a leader without a majority, a second vote.

    The node must stop: continuing could turn a mistake into lost data (rules 36 and 37).
    """


class Implausible(Exception):
    """A peer's message is impossible: two leaders in one epoch, an unreachable epoch, truncating committed records.

    Raised before anything has changed. The message is refused and reported, never obeyed, and never ends the node: it
    may be forged.
    """


class NotLeader(Exception):
    """An operation that needs the leader was called on a replica that is not, or is no longer, the leader."""

    def __init__(self, leader_id: int | None, epoch: int) -> None:
        where = "no leader is known" if leader_id is None else f"the leader is {leader_id}"
        super().__init__(f"not the leader of epoch {epoch}; {where}")
        self.leader_id = leader_id
        self.epoch = epoch
