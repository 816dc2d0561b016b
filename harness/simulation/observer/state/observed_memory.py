"""Follow what a single controller decides, as the metadata log of a quorum is followed (`quorum_follower.py`).

There is one log and no replica of it, so LM, HWM and ELECT have nothing to judge. Its records are held to the
controller's rules (RA-05, CS-02), and the images of all nodes to each other and to the epochs (IMAGE, EPOCH).
"""

from __future__ import annotations

from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.nodes.raft.metadata_log import CommittedBatch


class ObservedMemory:
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        self._cluster = cluster

    def begun(self, node: int, epoch: int) -> None:
        """An incarnation of the controller begins."""
        self._cluster.counters.quorum_leaders += 1
        self._cluster.on_quorum_leader(self._cluster.names[node], epoch)

    def appended(self, batch: CommittedBatch) -> None:
        """Follow one batch. Raises InvariantBroken."""
        self._cluster.images.committed(list(batch.values))
        self._cluster.metadata.follow(batch)
