"""A metadata log written by hand, which the observer follows."""

from __future__ import annotations

import re

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.observer.state.observed_metadata import ReplayedMetadata
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.metadata_log import CommittedBatch

TOPIC_ID = bytes(range(16))


class Log:
    """A metadata log that the observer follows: brokers 1 to 5, topic-partition events-0 on 1, 2, 3."""

    def __init__(self) -> None:
        self.observer = ReplayedMetadata()
        self.records: list[Message] = []
        self.epoch = 1
        """The quorum's, in which the next batch is written."""
        brokers = [
            RegisterBrokerRecord(broker_id=one, broker_epoch=number, fenced=False)
            for number, one in enumerate((1, 2, 3, 4, 5))
        ]
        topic = TopicRecord(name="events", topic_id=TOPIC_ID)
        self.commit(*brokers, topic)
        self.commit(
            PartitionRecord(
                partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1, directories=[]
            )
        )

    def commit(self, *records: Message) -> None:
        base = len(self.records)
        self.records += records
        values = tuple(encode_record(record) for record in records)
        self.observer.follow(CommittedBatch(base, self.epoch, 0, values, is_control=False))

    def change(self, **fields: object) -> None:
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields))  # type: ignore[arg-type]

    def image(self) -> MetadataImage:
        image = MetadataImage()
        for offset, record in enumerate(self.records):
            image.replay(record, offset, 1)
        return image


def breaks(name: str, words: str = "") -> pytest.RaisesContext[InvariantBroken]:
    return pytest.raises(InvariantBroken, match=f"{name}.*{re.escape(words)}")
