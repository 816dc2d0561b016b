"""The record that opens an epoch reads in another implementation as Kafka's LeaderChangeMessage."""

from __future__ import annotations

from random import Random

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.serial import entity_reader

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.records import control_kind, parse_records
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.metadata_log import MetadataLog


def test_another_implementation_reads_our_leader_change() -> None:
    config = RaftConfig(2, "cluster", bytes(16), (Voter(2, "host", 9093),))
    log = MetadataLog(config, disk=SimDisk(Random(0)), now_ms=0, trace=NullTrace())
    log.append_leader_change((1, 2, 3), (2, 3), epoch=4, now_ms=5)
    (batch,) = log.batches(0, log.end_offset)
    assert batch.is_control and batch.epoch == 4
    (record,) = parse_records(log.read(0, 1_000))
    assert control_kind(record.key) == 2
    change, _ = entity_reader(LeaderChangeMessage)(record.value, 0)
    assert change.leader_id == 2
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in change.granting_voters] == [2, 3]
