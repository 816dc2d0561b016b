"""Which replica a consumer had better read from (KIP-392, rule 18): one in its own rack.

Only the leader says so, since only it knows how far its followers are. It sends a consumer away if the consumer names a
rack other than its own, and some in-sync replica in that rack, alive as far as metadata shows, has the offset that is
asked for; of several the one that has most. The consumer goes there, and comes back when that replica fails it.

`replica.selector.class` decides whether this is done at all; by default every consumer reads from the leader.
"""

from __future__ import annotations

from squall.nodes.metadata.image import MetadataImage
from squall.nodes.replication.replica import TopicPartitionReplica

LEADER = -1


class RackAwareReplicaSelector:
    """Kafka's selector of that name."""

    def __init__(self, rack: str | None, image: MetadataImage) -> None:
        """`rack` is this broker's."""
        self._rack = rack
        self._image = image

    def select(self, replica: TopicPartitionReplica, offset: int, rack: str) -> int:
        """The broker to read from at `offset`, LEADER if there is none better."""
        if not rack or rack == self._rack:
            return LEADER
        best, most = LEADER, -1
        for broker, end in replica.in_sync_followers_with(offset):
            registered = self._image.brokers.get(broker)
            if registered is not None and registered.active and registered.rack == rack and end > most:
                best, most = broker, end
        return best
