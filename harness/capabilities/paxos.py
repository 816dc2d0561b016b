"""The roles of Paxos that a replica has by its own role: proposer, acceptor, learner (DA-07).

A leader proposes values and accepts its own proposals. Replicas whose acknowledgement counts, voters and members of the
ISR, accept. All replicas learn what is chosen, by the high watermark.
"""

from __future__ import annotations

PROPOSER, ACCEPTOR, LEARNER = "proposer", "acceptor", "learner"
OBSERVER = "observer"


def roles_in_quorum(role: str) -> tuple[str, ...]:
    """The roles of a replica of the metadata log, by the role that its trace has."""
    if role == OBSERVER or role.startswith(f"{OBSERVER}-"):
        return (LEARNER,)
    return (PROPOSER, ACCEPTOR, LEARNER) if role == "leader" else (ACCEPTOR, LEARNER)


def roles_in_data(*, leads: bool, in_sync: bool) -> tuple[str, ...]:
    """The roles of a replica of a topic-partition."""
    if leads:
        return (PROPOSER, ACCEPTOR, LEARNER)
    return (ACCEPTOR, LEARNER) if in_sync else (LEARNER,)
