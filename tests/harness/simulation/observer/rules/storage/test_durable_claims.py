"""DURABLE as the observer asserts it of claims: what a node takes for durable survives a power loss."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.rule import METADATA_DIRECTORY
from squall.harness.simulation.observer.rules.storage.durable_claims import DurableClaims
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import Disturbance, SimDisk
from squall.nodes.node.effects import Send
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from squall.nodes.protocol.requests.headers import encode_request
from squall.nodes.protocol.topic_partition import METADATA_TOPIC
from squall.nodes.storage.checkpoints import RECOVERY_POINTS, write_offsets
from tests.harness.simulation.observer.observed import batch

FIRST, SECOND = "t-0/00000000000000000000.log", "t-0/00000000000000000004.log"


class Host:
    """A host with a log of two segments: offsets 0 to 3, all durable, and 4 to 7, as two batches, not durable yet."""

    def __init__(self) -> None:
        self.rule = DurableClaims(None)  # type: ignore[arg-type]
        self.disk = SimDisk(Random(1))
        self.process: Any = SimpleNamespace(name="b1", disk=self.disk)
        self.write(FIRST, batch(0, 1, 1, 2), batch(2, 1, 3, 4))
        self.sync(FIRST)
        self.write(SECOND, batch(4, 1, 5, 6), batch(6, 1, 7, 8))

    def write(self, path: str, *contents: bytes) -> None:
        self.disk.open(path, create=True).append(*contents)

    def sync(self, path: str, *, name: bool = True) -> None:
        self.disk.open(path).sync()
        if name:
            self.disk.sync_directory("t-0")

    def claims(self, offset: int, end: int = 9, *, cut: int | None = None) -> None:
        log = SimpleNamespace(directory="t-0", durable_offset=offset, end_offset=end)
        replica = SimpleNamespace(log=log, topic="t", partition=0)
        turn: Any = SimpleNamespace(process=self.process, replica=replica, cut=cut)
        self.rule.replica_examined(turn, 0)

    def dies_with(self, recovery_point: int) -> None:
        write_offsets(self.disk, RECOVERY_POINTS, {("t", 0): recovery_point})
        self.rule.died(self.process)


@pytest.mark.parametrize("offset", [6, 8])
def test_a_claim_beyond_what_is_durable_breaks_durable(offset: int) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^DURABLE: b1 calls durable all of t-0 below offset {offset}; .* begins at 4,"
    ):
        Host().claims(offset)


def test_a_claim_that_outlives_a_truncation_breaks_durable() -> None:
    host = Host()
    host.claims(4, end=4)
    with pytest.raises(
        InvariantBroken, match=r"^DURABLE: b1 calls durable all of t-0 below offset 4, and it ends at 3"
    ):
        host.claims(4, end=3)


def test_a_recovery_point_above_a_truncated_log_breaks_durable() -> None:
    host = Host()
    write_offsets(host.disk, RECOVERY_POINTS, {("t", 0): 4})
    with pytest.raises(InvariantBroken, match=r"^DURABLE: b1 has cut t-0 to 3, .* and keeps the recovery point 4$"):
        host.claims(3, end=3, cut=3)


def test_one_below_it_may_stay() -> None:
    host = Host()
    write_offsets(host.disk, RECOVERY_POINTS, {("t", 0): 3})
    host.claims(3, end=5, cut=3)


def test_a_segment_that_was_cut_off_and_may_come_back_breaks_durable() -> None:
    host = Host()
    host.sync(SECOND)
    host.disk.remove(SECOND)
    with pytest.raises(
        InvariantBroken, match=rf"^DURABLE: b1 has cut t-0 to 4, and a power loss brings back {SECOND}$"
    ):
        host.claims(4, end=4, cut=4)


def test_one_whose_removal_is_durable_does_not_come_back() -> None:
    host = Host()
    host.sync(SECOND)
    host.disk.remove(SECOND)
    host.disk.sync_directory("t-0")
    host.claims(4, end=4, cut=4)


def test_what_retention_removes_and_index_files_may_come_back() -> None:
    host = Host()
    host.write(index := SECOND.replace(".log", ".index"), b"index")
    host.sync(SECOND)
    host.disk.remove(FIRST)
    host.claims(4)
    host.disk.sync_directory("t-0")
    host.disk.remove(index)
    host.claims(4, end=4, cut=4)


def test_what_lies_above_the_claim_need_not_be_durable() -> None:
    host = Host()
    host.claims(4)
    host.claims(5)  # within the first batch of the second segment: no whole batch lies below
    host.sync(SECOND)
    host.write(SECOND, batch(8, 1, 9))
    host.claims(8)


def test_a_segment_whose_name_may_be_lost_is_not_durable() -> None:
    host = Host()
    host.sync(SECOND, name=False)
    with pytest.raises(InvariantBroken, match=r"^DURABLE: .* and 0 survive a power loss"):
        host.claims(8)


def test_a_sealed_segment_counts_as_well() -> None:
    host = Host()
    host.sync(SECOND)
    host.write(FIRST, batch(4, 1, 0))
    with pytest.raises(InvariantBroken, match=r"^DURABLE: .* of the segment that begins at 0,"):
        host.claims(8)


def test_a_recovery_point_beyond_what_is_durable_breaks_it_when_the_process_ends() -> None:
    with pytest.raises(InvariantBroken, match=r"^DURABLE: b1 has left as a recovery point all of t-0 below offset 6; "):
        Host().dies_with(6)
    Host().dies_with(4)


def test_a_torn_batch_at_the_end_is_nobodys_claim() -> None:
    host = Host()
    host.sync(SECOND)
    host.write(SECOND, batch(8, 1, 9)[:30])
    host.dies_with(8)


def test_a_disk_that_lies_breaks_its_own_promise() -> None:
    host = Host()
    host.disk.disturb("lie", Disturbance(frozenset({"fsync"}), lie=True))
    host.sync(SECOND)
    host.claims(8)


METADATA_LOG = f"{METADATA_DIRECTORY}/00000000000000000042.log"
METADATA_SNAPSHOT = f"{METADATA_DIRECTORY}/00000000000000000042-0000000003.checkpoint"
SNAPSHOT = "m/00000000000000000042-0000000003.checkpoint"


def has_snapshot(host: Host, end: int = 42) -> None:
    """The newest snapshot of the metadata ends at this offset."""
    snapshots = SimpleNamespace(latest=SimpleNamespace(end_offset=end), path=lambda latest: SNAPSHOT)
    host.rule.metadata_touched(host.process, SimpleNamespace(raft=SimpleNamespace(snapshots=snapshots)))  # type: ignore[arg-type]


def test_a_snapshot_that_a_power_loss_could_take_breaks_durable() -> None:
    host = Host()
    host.write(SNAPSHOT, bytes(700))
    with pytest.raises(InvariantBroken, match=r"a snapshot .* up to offset 42; of its 700 bytes 0 survive"):
        has_snapshot(host)


def test_a_snapshot_that_was_synced_with_its_name_is_durable() -> None:
    host = Host()
    host.write(SNAPSHOT, bytes(700))
    host.disk.open(SNAPSHOT).sync()
    host.disk.sync_directory("m")
    has_snapshot(host)


def empties_its_metadata_log(host: Host) -> None:
    """The host's log of the metadata goes on at offset 42."""
    host.rule.cluster = SimpleNamespace(names={1: "b1"}, processes={"b1": host.process})  # type: ignore[assignment]
    host.rule.traced("log_reset", {"node": 1, "end": 42, "was": 7})
    host.disk.open(METADATA_LOG, create=True)
    raft = SimpleNamespace(
        config=SimpleNamespace(directory=METADATA_DIRECTORY), log=SimpleNamespace(durable_offset=42), end_offset=42
    )
    turn: Any = SimpleNamespace(process=host.process, node=SimpleNamespace(raft=raft), cut=None)
    host.rule.quorum_moved(turn)


@pytest.mark.parametrize("written", [True, False])
def test_a_metadata_log_that_is_emptied_before_the_snapshot_is_durable_breaks_durable(written: bool) -> None:
    host = Host()
    if written:
        host.write(METADATA_SNAPSHOT, bytes(700))
    with pytest.raises(InvariantBroken, match=r"^DURABLE: b1 has emptied its log .* go on at offset 42, before"):
        empties_its_metadata_log(host)


def test_a_metadata_log_may_give_way_to_a_durable_snapshot() -> None:
    host = Host()
    host.write(METADATA_SNAPSHOT, bytes(700))
    host.disk.open(METADATA_SNAPSHOT).sync()
    host.disk.sync_directory(METADATA_DIRECTORY)
    empties_its_metadata_log(host)


# -- what leaves before the flush ----------------------------------------------------------------------------------


def sends_early(offset: int, *, connection: int = -3, topic: str = METADATA_TOPIC) -> None:
    """Of the log of the metadata all below 9 is durable, and before the flush a Fetch from an offset leaves."""
    fetch = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[FetchPartition(0, 5, offset)])])
    chunks = encode_request(int(ApiKey.FETCH), 12, 1, "node-1", fetch)
    node: Any = SimpleNamespace(raft=SimpleNamespace(log=SimpleNamespace(durable_offset=9)))
    host = Host()
    host.rule.released_early(host.process, node, [Send(connection, chunks, early=True)])


def test_a_voter_that_acknowledges_what_it_has_not_flushed_breaks_durable() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DURABLE: b1 fetches the metadata log from 10 before .* below 9 is dur"
    ):
        sends_early(10)


def test_it_may_acknowledge_what_is_durable_and_fetch_other_logs() -> None:
    sends_early(9)
    sends_early(10, topic="t")


def test_what_leaves_on_a_connection_of_a_client_is_a_response() -> None:
    sends_early(10, connection=3)
