"""Directory ownership: `meta.properties`, written at the first start and checked at every later one.

A node must never write to a directory of another node or another cluster: it would cast that node's votes and write its
records a second time, under another name.
"""

from __future__ import annotations

from squall.nodes.config import NodeConfig
from squall.nodes.ports import Disk, Rng
from squall.nodes.protocol.topic_partition import format_id, parse_id, random_id
from squall.nodes.storage.checkpoints import META_PROPERTIES, read_properties, write_properties


class NodeError(Exception):
    """This node cannot run here; the message states the problem and the remedy."""


def write_identity(config: NodeConfig, disk: Disk, identity: bytes) -> None:
    """Take possession of an empty directory."""
    written = {"version": "1", "cluster.id": config.cluster_id, "node.id": str(config.node_id)}
    write_properties(disk, META_PROPERTIES, written | {"directory.id": format_id(identity)})


def directory_identity(config: NodeConfig, disk: Disk, rng: Rng) -> bytes:
    """The directory's id. Raises NodeError if another node owns the directory, CorruptFile if it cannot be read."""
    stored = read_properties(disk, META_PROPERTIES)
    if stored is None:
        identity = random_id(rng)
        write_identity(config, disk, identity)
        return identity
    for key, expected in (("cluster.id", config.cluster_id), ("node.id", str(config.node_id))):
        if stored.get(key) != expected:
            raise NodeError(
                f"{config.log_dirs}/{META_PROPERTIES}: {key}={stored.get(key)} but the configuration says {expected}; "
                "the directory belongs to another node: correct the configuration or name another log.dirs"
            )
    try:
        return parse_id(stored["directory.id"])
    except (KeyError, ValueError) as error:
        raise NodeError(f"{config.log_dirs}/{META_PROPERTIES}: directory.id cannot be read: {error}") from None
