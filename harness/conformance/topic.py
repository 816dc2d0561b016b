"""The topic of a check: its topic-partitions as they were asked for, and what the check has appended to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from squall.harness.conformance.client import Address, ConformanceClient, expect
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID_SINCE, METADATA_BY_ID_SINCE, EPOCHS_SINCE = 10, 12, 4
CONSUMER, LATEST = -1, -1


@dataclass(frozen=True)
class Appended:
    """One record of the check, as it must be read."""

    offset: int
    timestamp: int
    leader_epoch: int
    value: bytes


@dataclass
class CheckedPartition:
    """One topic-partition: where it is, and its records in the order of their offsets."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    records: list[Appended] = field(default_factory=list)
    batch_starts: list[int] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return self.records[-1].offset + 1 if self.records else 0


@dataclass
class CheckedTopic:
    """The topic of a check. `brokers` are those of the cluster, by id."""

    name: str
    brokers: dict[int, Address]
    partitions: list[CheckedPartition]
    settings: dict[str, str] = field(default_factory=dict)
    topic_id: bytes = b""

    def leader_of(self, number: int) -> Address:
        return self.brokers[self.partitions[number].leader]

    def others_of(self, number: int) -> list[Address]:
        """Brokers that do not lead this topic-partition."""
        return [address for one, address in self.brokers.items() if one != self.partitions[number].leader]


async def all_brokers(client: ConformanceClient) -> dict[int, Address]:
    """The addresses of all brokers by id, on which every broker must agree."""

    async def attempt() -> dict[int, Address]:
        lists = []
        for address in client.brokers:
            response = await client.ask(address, MetadataRequest(topics=[]), MetadataResponse, since=4)
            lists.append({one.node_id: (one.host, one.port) for one in response.brokers})
            expect(address, "the brokers that Metadata names", lists[-1], lists[0])
            expect(address, "the number of brokers", len(lists[-1]), len(client.brokers))
        return lists[0]

    return await client.settled(attempt)


async def shown_topic(client: ConformanceClient, address: Address, name: str) -> MetadataResponseTopic:
    """A topic as one broker's Metadata shows it, found by its name."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    response = await client.ask(address, request, MetadataResponse, since=TOPIC_ID_SINCE)
    expect(address, "the topics in Metadata of one topic", [one.name for one in response.topics], [name])
    return response.topics[0]


async def await_shown(client: ConformanceClient, topic: CheckedTopic, *, leads: bool = True) -> None:
    """Wait until every broker shows the topic as it was asked for; remember the leader epochs.

    `leads`: the first replica has to lead.
    """

    async def attempt() -> None:
        epochs: list[list[int]] = []
        for address in client.brokers:
            shown = await shown_topic(client, address, topic.name)
            expect(address, f"the error of {topic.name} in Metadata", shown.error_code, 0)
            expect(address, f"the id of {topic.name}", bytes(shown.topic_id), topic.topic_id)
            _compare(address, topic, shown.partitions, leads=leads)
            epochs.append([one.leader_epoch for one in shown.partitions])
            expect(address, f"the leader epochs of {topic.name}", epochs[-1], epochs[0])
        for checked, part, epoch in zip(topic.partitions, shown.partitions, epochs[0], strict=True):
            checked.leader, checked.leader_epoch = part.leader_id, epoch
        for number in range(len(topic.partitions)):
            await _expect_led(client, topic, number)

    await client.settled(attempt)


async def _expect_led(client: ConformanceClient, topic: CheckedTopic, number: int) -> None:
    """The leader leads: Apache Kafka's brokers show metadata before their replicas have followed it."""
    address, epoch = topic.leader_of(number), topic.partitions[number].leader_epoch
    asked = [ListOffsetsTopic(topic.name, [ListOffsetsPartition(number, epoch, LATEST)])]
    response = await client.ask(
        address, ListOffsetsRequest(CONSUMER, 0, asked), ListOffsetsResponse, since=EPOCHS_SINCE
    )
    codes = [part.error_code for one in response.topics for part in one.partitions]
    expect(address, f"the end of {topic.name}-{number} in epoch {epoch}", codes, [0])


def _compare(address: Address, topic: CheckedTopic, shown: Sequence[MetadataResponsePartition], *, leads: bool) -> None:
    numbers = [one.partition_index for one in shown]
    expect(address, f"the topic-partitions of {topic.name}", numbers, list(range(len(topic.partitions))))
    for number, (checked, part) in enumerate(zip(topic.partitions, shown, strict=True)):
        where = f"{topic.name}-{number}"
        expect(address, f"the error of {where}", part.error_code, 0)
        expect(address, f"the replicas of {where}", list(part.replica_nodes), list(checked.replicas))
        expect(address, f"the in-sync replicas of {where}", sorted(part.isr_nodes), sorted(checked.replicas))
        expect(address, f"the offline replicas of {where}", list(part.offline_replicas), [])
        leaders = checked.replicas[:1] if leads else checked.replicas
        expect(address, f"the leader of {where}", part.leader_id, *leaders)
