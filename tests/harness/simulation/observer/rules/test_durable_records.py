"""DURABLE as the observer asserts it: hand-made breaches and what is legal (QC-20)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.harness.simulation.observer.observed import TOPIC, TOPIC_ID, Cluster, HandMadeProcess, batch


def with_three(durable: int = 1) -> Cluster:
    """Three records on all brokers, two of them committed, `durable` of them durable on b3."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.append(0, 11, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    cluster.append(0, 12, "b1", "b2", "b3")
    cluster.replica("b3").log.durable_offset = durable
    cluster.show("b3")
    return cluster


def returns(
    cluster: Cluster,
    end: int,
    *,
    power_loss: bool = False,
    within_a_turn: bool = False,
    how_it_ended: str = "died",
    high_watermark: int = 0,
    written: int | None = None,
) -> None:
    """B3 dies and comes back with records up to `end`. `written` is its high watermark in the checkpoint file."""
    process = cluster.processes["b3"]
    process.leave_proof(2)
    process.up, process.how_it_ended = False, how_it_ended
    process.crashes_in_calls += within_a_turn
    cluster.observer.look(process)  # type: ignore[arg-type]
    if power_loss:
        cluster.observer.power_lost("b3")
    process.up = True
    process.incarnation += 1
    replica = cluster.replica("b3")
    replica.log.cut(end)
    replica.high_watermark = max(high_watermark, replica.log.start_offset)
    process.leave_high_watermark(high_watermark if written is None else written)
    cluster.show("b3", "follower")


def test_records_survive_the_death_of_the_process() -> None:
    with pytest.raises(InvariantBroken, match=r"^DURABLE: events-0: b3 .* up to 2, .* 3 were there when"):
        returns(with_three(), 2)


def test_durable_records_survive_a_power_loss() -> None:
    with pytest.raises(InvariantBroken, match=r"^DURABLE: events-0: b3 .* up to 1, and those up to 2 were durable"):
        returns(with_three(durable=2), 1, power_loss=True)


@pytest.mark.parametrize(("end", "lost", "kept"), [(2, 1, 0), (3, 0, 1)])
def test_a_power_loss_may_take_what_is_not_durable_and_may_leave_it(end: int, lost: int, kept: int) -> None:
    cluster = with_three(durable=2)
    returns(cluster, end, power_loss=True)
    counters = cluster.observer.cluster.counters
    assert (counters.unsynced_ends_lost, counters.unsynced_ends_kept) == (lost, kept)


def test_a_process_that_dies_within_a_turn_may_have_truncated_what_is_not_committed() -> None:
    returns(with_three(), 2, within_a_turn=True)
    with pytest.raises(InvariantBroken, match=r"^DURABLE"):
        returns(with_three(), 1, within_a_turn=True)


def test_a_process_that_dies_within_a_turn_may_have_truncated_what_differs_from_what_is_committed() -> None:
    """B3 has a record of an older epoch where another one was committed without it."""
    cluster = with_three()
    cluster.change(isr=[1, 2])
    fenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=1)
    cluster.decide(fenced, PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[2]))
    for name in ("b1", "b2"):
        cluster.truncate(name, 2)
    cluster.append(1, 22, "b1", "b2")
    cluster.append(1, 23, "b1", "b2")
    cluster.commit("b1", "b2")
    cluster.show("b3")
    returns(cluster, 2, within_a_turn=True)
    with pytest.raises(InvariantBroken, match=r"^DURABLE"):
        returns(cluster, 1, within_a_turn=True)


@pytest.mark.parametrize(("end", "within_a_turn", "legal"), [(1, True, True), (0, True, False), (1, False, False)])
def test_an_empty_log_may_begin_again_where_a_batch_begins(end: int, within_a_turn: bool, legal: bool) -> None:
    """Its leader's log begins at 2, within a batch of 1 to 3; the process died before it had written that batch."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.change(isr=[1, 2])
    whole = batch(1, 0, 11, 12, 13)
    for value in (11, 12, 13):
        cluster.sent(value)
    for name in ("b1", "b2"):
        cluster.replica(name).log.batches.append(whole)
        cluster.show(name)
    cluster.commit("b1", "b2")
    cluster.observer.event("deletion_asked", broker=1, topic=TOPIC, partition=0, offset=2)
    log = cluster.replica("b3").log
    log.batches, log.start_offset = [], 2
    cluster.replica("b3").high_watermark = 2
    cluster.show("b3")
    log.start_offset = end
    if legal:
        returns(cluster, end, within_a_turn=within_a_turn)
    else:
        with pytest.raises(InvariantBroken, match=r"^DURABLE"):
            returns(cluster, end, within_a_turn=within_a_turn)


def test_a_truncation_in_the_first_turn_is_legal() -> None:
    cluster = with_three()
    process = cluster.processes["b3"]
    process.incarnation += 1
    cluster.truncate("b3", 2)


def test_a_replica_that_was_moved_away_and_comes_back_begins_again() -> None:
    cluster = with_three()
    cluster.change(replicas=[1, 2], isr=[1, 2])
    cluster.change(replicas=[1, 2, 3])
    returns(cluster, 0)


def test_a_replica_that_does_not_know_yet_that_it_was_moved_away_and_back_begins_again() -> None:
    """It acts by the first epoch until it hears of both; then its log goes (seed 916447)."""
    cluster = with_three()
    cluster.change(replicas=[1, 2], isr=[1, 2], tell=("b1", "b2"))
    cluster.change(replicas=[1, 2, 3], tell=("b1", "b2"))
    cluster.show("b3")
    returns(cluster, 0)


def test_a_replica_that_knows_that_it_is_back_keeps_what_it_has() -> None:
    cluster = with_three()
    cluster.change(replicas=[1, 2], isr=[1, 2])
    cluster.change(replicas=[1, 2, 3])
    cluster.replica("b3").partition_epoch = 2
    cluster.show("b3")
    with pytest.raises(InvariantBroken, match=r"^DURABLE: events-0: b3 comes back with records up to 0"):
        returns(cluster, 0)


def test_a_wiped_disk_keeps_nothing() -> None:
    cluster = with_three(durable=3)
    cluster.processes["b3"].disk.wipe()
    cluster.processes["b3"].note_topic_id()
    returns(cluster, 0, power_loss=True)


# -- what is written down beside the records ------------------------------------------------------------------------


def with_deleted() -> Cluster:
    """The first of three records is deleted, on all brokers."""
    cluster = with_three(durable=3)
    cluster.delete_before(1)
    for name in ("b2", "b3"):
        cluster.raise_start(name, 1)
    return cluster


def comes_back_from(cluster: Cluster, start: int, **how: bool) -> None:
    """B3 comes back with all its records and a log that begins at `start`."""
    cluster.replica("b3").log.start_offset = start
    returns(cluster, 3, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("power_loss", [False, True])
def test_what_was_deleted_stays_deleted(power_loss: bool) -> None:
    comes_back_from(with_deleted(), 1, power_loss=power_loss)
    with pytest.raises(InvariantBroken, match=r"^DURABLE: .* b3 .* begins at 0, and everything below 1 had been del"):
        comes_back_from(with_deleted(), 0, power_loss=power_loss)


def test_a_process_that_dies_within_a_turn_may_have_begun_its_log_again() -> None:
    comes_back_from(with_deleted(), 0, within_a_turn=True)


def test_a_high_watermark_survives_a_clean_stop() -> None:
    returns(with_three(), 3, how_it_ended="stopped", high_watermark=2)
    with pytest.raises(InvariantBroken, match=r"^DURABLE: .* b3 .* clean stop with high watermark 1, and had 2"):
        returns(with_three(), 3, how_it_ended="stopped", high_watermark=1)


@pytest.mark.parametrize("how", ["died", "died while it closed"])
def test_a_high_watermark_may_fall_after_any_other_end(how: str) -> None:
    returns(with_three(), 3, how_it_ended=how, high_watermark=1)


@pytest.mark.parametrize("written", [0, 1])
def test_a_high_watermark_above_the_one_that_is_written_down_breaks_durable(written: int) -> None:
    with pytest.raises(
        InvariantBroken, match=rf"^DURABLE: .* b3 .* high watermark 2; {written} is written down, .* at 3\n"
    ):
        returns(with_three(), 3, high_watermark=2, written=written)


def test_a_high_watermark_below_the_one_that_is_written_down_breaks_durable_unless_the_log_ends_there() -> None:
    with pytest.raises(InvariantBroken, match=r"^DURABLE: .* b3 .* high watermark 1; 2 is written down"):
        returns(with_three(), 3, high_watermark=1, written=2)
    returns(with_three(), 1, power_loss=True, high_watermark=1, written=2)


# -- the metadata log -----------------------------------------------------------------------------------------------


def quorum_returns(change: Callable[[HandMadeProcess], None]) -> None:
    """B2 dies, loses power and comes back, changed."""
    cluster = Cluster()
    process = cluster.processes["b2"]
    process.raft.durable_offset, process.raft.epoch = process.raft.end_offset, 3
    cluster.change(isr=[1, 2])
    cluster.observer.power_lost("b2")
    process.incarnation += 1
    process.raft.high_watermark, process.image = 0, MetadataImage()
    change(process)
    cluster.observer.event("voters", node=2, offset=0, voters=[])
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_durable_metadata_survives_a_power_loss() -> None:
    quorum_returns(lambda process: process.raft.content.cut(process.raft.durable_offset))
    with pytest.raises(InvariantBroken, match=r"^DURABLE: __cluster_metadata-0: b2 comes back with records up to 0"):
        quorum_returns(lambda process: process.raft.content.cut(0))


def test_the_quorum_epoch_survives_a_power_loss() -> None:
    def earlier(process: HandMadeProcess) -> None:
        process.raft.epoch = 2

    with pytest.raises(InvariantBroken, match=r"^DURABLE: b2 comes back in quorum epoch 2, and was in epoch 3 before"):
        quorum_returns(earlier)
