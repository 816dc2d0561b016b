"""DIRECTORY: a node uses the id that is stored in its directory, and the directory keeps that id.

The id distinguishes a disk from its replacement: a voter that returns with an empty disk is another voter, which has
promised nothing (KIP-853). If a node used a new id after each start, the quorum would take it for a replacement each
time: its vote could count twice, and it would be no voter any more. Asserted after the first turn of each process:

* `meta.properties` has the directory id that the node uses, the node's id, and the cluster's id;
* all of that file is durable, so that no power loss gives the directory another id;
* the directory id is that of the host's earlier process.

Source: KIP-853, KIP-858. Legal: a disk that was wiped or has pretended to sync.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.storage.checkpoints import META_PROPERTIES, read_properties


class DirectoryIds(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, int] = {}
        """By host, the incarnation whose first turn is over."""
        self._ids: dict[str, str] = {}

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        if self._seen.get(process.name) == process.incarnation:
            return
        self._seen[process.name] = process.incarnation
        own = _id_of(node)
        if own is None or not process.disk.keeps_promises:
            return
        _check_file(process, node, own)
        before = self._ids.setdefault(process.name, own)
        if own != before:
            raise InvariantBroken("DIRECTORY", f"{process.name} uses the directory id {own}, and used {before} before")


def _id_of(node: BaseNode) -> str | None:
    """The directory id that a node uses; None for a node without a directory."""
    if isinstance(node, Node):
        return format_id(node.raft.config.directory_id)
    broker = node.broker
    return None if broker is None else format_id(broker.config.directory_id)


def _check_file(process: SimProcess, node: BaseNode, own: str) -> None:
    disk = process.disk
    with disk.at_no_cost():
        found = read_properties(disk, META_PROPERTIES) or {}
        content = disk.content(META_PROPERTIES) or b""
    wanted = {"cluster.id": node.config.cluster_id, "node.id": str(node.config.node_id), "directory.id": own}
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InvariantBroken(
                "DIRECTORY", f"{process.name} uses {name}={value}, and its {META_PROPERTIES} says {found.get(name)}"
            )
    if disk.durable_bytes(META_PROPERTIES) < len(content):
        raise InvariantBroken("DIRECTORY", f"a power loss may take the {META_PROPERTIES} of {process.name}")
