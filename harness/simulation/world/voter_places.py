"""Where the voters of the metadata log listen, beside where the log has them (KIP-853).

A voter that has moved reaches the others; they reach it once the log has its new place.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nodes.node.node import Node


def leading(nodes: Mapping[str, Node | None]) -> Node | None:
    """Return the node that leads the quorum, None if none does."""
    return next((node for node in nodes.values() if node is not None and node.raft.is_leader), None)


def misplaced_voter(nodes: Mapping[str, Node | None]) -> str | None:
    """Describe a voter that listens elsewhere than the leader's log says, None if there is none.

    `nodes` are by host; None stands for one that does not run.
    """
    leader = leading(nodes)
    if leader is None or not leader.raft.config.dynamic_voters:
        return None
    for name, node in nodes.items():
        address = None if node is None else node.raft.config.address
        listed = None if node is None else leader.raft.voters.find(node.config.node_id)
        if address is not None and listed is not None and address != (listed.host, listed.port):
            return f"{name} listens at {address[0]}:{address[1]}, and not at {listed.host}:{listed.port}"
    return None
