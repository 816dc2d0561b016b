"""Features of the cluster and their levels, kept as FeatureLevelRecords in the metadata log (KIP-584, EL-06).

A level that is not in the log is 0. A new cluster starts with `metadata.version` and, if the configuration enables it,
with `eligible.leader.replicas.version` 1; UpdateFeatures changes the latter at any time.
"""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"

METADATA_VERSION_LEVEL = 23
"""Kafka 4.0-IV1: the first whose records of topic-partitions can name eligible leader replicas."""

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
}
"""The lowest and the highest level of each feature that this code supports."""
