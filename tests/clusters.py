"""Clusters of real node processes for tests: `from tests.clusters import Cluster`. See
`squall.harness.loopback.loopback`.
"""

from squall.harness.loopback.loopback import FAST, Cluster, ClusterTrouble, NodeProcess, free_ports

__all__ = ["FAST", "Cluster", "ClusterTrouble", "NodeProcess", "free_ports"]
