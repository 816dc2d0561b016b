"""NEAR: a leader sends a consumer, and only a consumer, to an in-sync replica in its rack (KIP-392).

A consumer that is sent to no replica reads from the leader, and one that is sent elsewhere comes back: reading
takes longer, and nothing is lost. Asserted when a broker answers a Fetch, for each topic-partition:

* it names another replica only to a consumer of another rack than its own, only if it leads, and only if
  `replica.selector.class` asks for it. That replica is an active broker of the consumer's rack, and in the ISR
* it names one where there is such a replica that has the requested offset

Legal: a follower that stands in a rack, and gets its records from the leader; a topic-partition that the request does
not name, whose offset only the session knows.

Source: KIP-392, rule 18; `ReplicaManager.findPreferredReadReplica` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum, replica_named
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.requests.fetch_sessions import fetcher_of
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

NOBODY = -1
Key = tuple[str, bytes, int]


class NearbyReplicas(Rule):
    """See the module."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        asked = request.body
        if not isinstance(asked, FetchRequest) or request.answer is None or node_of_quorum(node) is None:
            return
        told = request.answer.response
        if node.broker is None or not isinstance(told, FetchResponse) or told.error_code:
            return
        rack = "" if fetcher_of(request)[0] >= 0 else asked.rack_id
        offsets = _offsets(asked)
        for key, part in _parts(told):
            replica = replica_named(node.broker.replicas, *key)
            if replica is not None and not part.error_code:
                why = _wrong(node, replica, part, rack, offsets.get(key))
                if why:
                    where = f"{replica.topic}-{replica.partition}"
                    raise InvariantBroken("NEAR", f"{where}: {process.name} sends {request.client_id} {why}")


def _offsets(asked: FetchRequest) -> dict[Key, int]:
    """The offset of each topic-partition that a request names."""
    return {
        (topic.topic, topic.topic_id, part.partition): part.fetch_offset
        for topic in asked.topics
        for part in topic.partitions
    }


def _parts(told: FetchResponse) -> Iterator[tuple[Key, PartitionData]]:
    for topic in told.responses:
        for part in topic.partitions:
            yield (topic.topic, topic.topic_id, part.partition_index), part


def _wrong(node: BaseNode, replica: TopicPartitionReplica, part: PartitionData, rack: str, offset: int | None) -> str:
    """Return what is wrong with the replica that an answer names, or with naming none; empty if nothing is."""
    named = part.preferred_read_replica
    near = _in_rack(node, replica, rack, offset)
    if named != NOBODY:
        return "" if named in near else f"to broker {named}; in its rack, {rack!r}, are {sorted(near)} of the ISR"
    if near and offset is not None and part.diverging_epoch.epoch < 0:
        return f"to nobody, although {sorted(near)} of its rack, {rack!r}, have offset {offset}"
    return ""


def _in_rack(node: BaseNode, replica: TopicPartitionReplica, rack: str, offset: int | None) -> set[int]:
    """The replicas to which a consumer may be sent; those that have the offset, if it is known."""
    assert node.broker is not None
    config, brokers = node.broker.config, node.broker.image.brokers
    if not rack or not config.rack_aware_reads or rack == config.rack or not replica.is_leader:
        return set()
    starts, ends = replica.follower_starts(), replica.follower_ends()
    having = [one for one in replica.isr if offset is None or starts.get(one, -1) <= offset <= ends.get(one, -1)]
    return {one for one in having if one in brokers and brokers[one].active and brokers[one].rack == rack}
