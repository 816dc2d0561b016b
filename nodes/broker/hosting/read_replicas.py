"""Choose the replica that a consumer should read from (KIP-392, rule 18): one in the consumer's rack.

Only the leader decides, since only it knows how far its followers are. It redirects a consumer if the consumer names a
rack other than the leader's, and an in-sync replica in that rack, alive according to metadata, has the requested
offset; of several it chooses the one with the highest log end offset. The consumer returns to the leader when that
replica fails it.

`replica.selector.class` enables this; by default every consumer reads from the leader.
"""

from __future__ import annotations

from squall.nodes.metadata.image import MetadataImage
from squall.nodes.replication.replica import TopicPartitionReplica

LEADER = -1


class RackAwareReplicaSelector:
    """Kafka's selector of this name."""

    def __init__(self, rack: str | None, image: MetadataImage) -> None:
        """`rack` is this broker's."""
        self._rack = rack
        self._image = image

    def select(self, replica: TopicPartitionReplica, offset: int, rack: str) -> int:
        """The broker to read from at `offset`; LEADER if no other is better."""
        if not rack or rack == self._rack:
            return LEADER
        best, most = LEADER, -1
        for broker, end in replica.in_sync_followers_with(offset):
            registered = self._image.brokers.get(broker)
            if registered is not None and registered.active and registered.rack == rack and end > most:
                best, most = broker, end
        return best
