"""Configure the voters of a cluster's metadata quorum, in both worlds.

Fixed voters are a key of every node's configuration. Dynamic ones (KIP-853) are kept in the quorum's log: the nodes'
configuration names where to find the quorum, and each controller's directory is formatted with all controllers as the
initial voters. Directory ids follow from the seed, like everything random.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from squall.nodes.node.formatting import InitialVoters
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.raft.config import Voter

Controller = tuple[int, str, int]
"""Node id, host, port."""


def quorum_properties(controllers: Iterable[Controller], *, dynamic: bool) -> dict[str, str]:
    """Return the configuration keys by which a node finds the quorum."""
    if dynamic:
        return {"controller.quorum.bootstrap.servers": ",".join(f"{host}:{port}" for _, host, port in controllers)}
    return {"controller.quorum.voters": ",".join(f"{node}@{host}:{port}" for node, host, port in controllers)}


def initial_voters(controllers: Iterable[Controller], seed: object) -> InitialVoters:
    """Return all controllers, each with its own directory."""
    return InitialVoters(
        tuple(Voter(node, host, port, _directory_id(seed, node)) for node, host, port in sorted(controllers))
    )


def format_arguments(initial: InitialVoters) -> list[str]:
    """Return the same as arguments of `squall.nodes.server.format` on a host."""
    listed = [
        f"{one.id}@{f'[{one.host}]' if ':' in one.host else one.host}:{one.port}:{format_id(one.directory_id)}"
        for one in initial.listed
    ]
    return ["--initial-controllers", ",".join(listed)]


def _directory_id(seed: object, node: int) -> bytes:
    return hashlib.sha256(f"{seed}/directory/{node}".encode()).digest()[:16]
