"""DP-18 as the observer asserts it: what leaves the front of a log has been deleted or is beyond what is to be kept."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.nodes.metadata.records import ConfigRecord
from squall.nodes.protocol.records import Record, build_batch
from tests.harness.simulation.observer.observed import TOPIC, Cluster, batch

SIZE = len(batch(0, 0, 10))
"""Bytes of a batch of one value."""


def with_four(**settings: str) -> Cluster:
    cluster = Cluster(**settings)
    for value in (10, 11, 12, 13):
        cluster.append(0, value, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    return cluster


def ends_after(cluster: Cluster, seconds: float) -> None:
    """All is whole, and the run ends so many seconds later; retention is applied once a second."""
    cluster.observer.became_whole(0)
    cluster.processes["b1"].now = round(seconds * MICROSECONDS)
    cluster.show("b1")
    cluster.observer.final()


def test_a_log_whose_records_are_all_kept_may_not_begin_later() -> None:
    cluster = with_four()
    with pytest.raises(InvariantBroken, match=r"^DP-18: events-0: .* b1 begins at 1 .* no deletion .* nothing limits"):
        cluster.raise_start("b1", 1)


def test_a_deletion_that_a_client_asked_for_raises_the_start() -> None:
    cluster = with_four()
    cluster.delete_before(2)
    cluster.raise_start("b2", 2)
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* b1 begins at 3 .* asked for up to 2"):
        cluster.raise_start("b1", 3)


def test_a_deletion_of_all_that_is_committed_names_no_offset() -> None:
    cluster = with_four()
    cluster.observer.event("deletion_asked", broker=1, topic=TOPIC, partition=0, offset=-1)
    cluster.raise_start("b1", 4)


def test_retention_keeps_as_much_as_is_to_be_kept() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE))
    cluster.raise_start("b1", 2)
    with pytest.raises(InvariantBroken, match=rf"^DP-18: .* b1 begins at 3 .* have {SIZE} bytes of the {2 * SIZE}"):
        cluster.raise_start("b1", 3)


def test_a_follower_applies_retention_to_its_own_log() -> None:
    cluster = with_four(retention_bytes=str(3 * SIZE))
    cluster.raise_start("b2", 1)
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* the log of b3 begins at 2"):
        cluster.raise_start("b3", 2)


def test_a_broker_applies_the_retention_that_it_knows() -> None:
    """`worlds` seed 1022058: it had not heard for a second, and the setting was deleted meanwhile."""
    cluster = with_four(retention_bytes=str(2 * SIZE))
    deleted = ConfigRecord(resource_type=2, resource_name=TOPIC, name="retention.bytes", value=None)
    cluster.decide(deleted, tell=("b1", "b3"))
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* b3 begins at 1 .* nothing limits"):
        cluster.raise_start("b3", 1)
    cluster.raise_start("b2", 2)


def test_what_a_node_had_when_it_died_in_a_turn_is_not_known() -> None:
    """Retention has raised the start in that turn, and the power loss took records from the end."""
    cluster = with_four(retention_bytes=str(2 * SIZE))
    process = cluster.processes["b3"]
    process.up = False
    cluster.observer.look(process)  # type: ignore[arg-type]
    cluster.observer.power_lost("b3")
    process.up, process.incarnation = True, 2
    cluster.replica("b3").log.cut(3)
    cluster.replica("b3").high_watermark = 3
    process.leave_high_watermark(3)
    cluster.change(isr=[1, 2], tell=("b1", "b2"))
    cluster.raise_start("b3", 2)


def test_a_node_that_died_before_keeps_as_much_as_any_other() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE))
    process = cluster.processes["b3"]
    process.up = False
    cluster.observer.look(process)  # type: ignore[arg-type]
    process.up, process.incarnation = True, 2
    process.leave_high_watermark(cluster.replica("b3").high_watermark)
    cluster.show("b3")
    with pytest.raises(InvariantBroken, match=rf"^DP-18: .* b3 begins at 3 .* have {SIZE} bytes of the {2 * SIZE}"):
        cluster.raise_start("b3", 3)


def lay_out(cluster: Cluster, *sizes: int) -> None:
    """Give the leader's log segments of so many batches on the disk, each batch one offset."""
    base = 0
    for size in sizes:
        disk = cluster.processes["b1"].disk
        disk.open(f"{TOPIC}-0/{base:020}.log", create=True).append(bytes(size * SIZE))
        base += size


def test_a_log_that_retention_never_shortens_breaks_it_at_the_end() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE), segment_bytes=str(SIZE))
    lay_out(cluster, 2, 1, 1)
    with pytest.raises(InvariantBroken, match=rf"^DP-18: events-0: .* b1 has {4 * SIZE} .* and {2 * SIZE} without"):
        ends_after(cluster, 2.0)


@pytest.mark.parametrize("sizes", [(2, 2), (1, 1, 2), (4,)], ids=str)
def test_a_log_that_needs_its_first_segment_is_sound(sizes: tuple[int, ...]) -> None:
    cluster = with_four(retention_bytes=str(3 * SIZE + 1))
    lay_out(cluster, *sizes)
    ends_after(cluster, 2.0)


def test_segments_below_the_start_of_a_log_do_not_count() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE))
    lay_out(cluster, 1, 1, 1, 1)
    cluster.raise_start("b1", 2)
    ends_after(cluster, 2.0)


def test_what_was_appended_since_retention_was_applied_may_be_too_much() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE))
    lay_out(cluster, 2, 1, 1)
    cluster.processes["b1"].now = MICROSECONDS
    cluster.show("b1")
    cluster.append(0, 14, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    ends_after(cluster, 2.0)


def test_retention_that_was_not_due_yet_may_have_left_them() -> None:
    cluster = with_four(retention_bytes=str(2 * SIZE), segment_bytes=str(SIZE))
    lay_out(cluster, 2, 1, 1)
    ends_after(cluster, 1.2)


# -- retention by age -------------------------------------------------------------------------------------------------

STAMP = 1_000
"""The time of every record."""


def aged(cluster_ms: int) -> Cluster:
    """Four records that are kept for a second, on hosts whose clocks show this time."""
    cluster = Cluster(retention_ms="1000")
    for name in ("b1", "b2", "b3"):
        cluster.replica(name).log.config = replace(cluster.replica(name).log.config, retention_ms=1_000)
        cluster.processes[name].clock = SimpleNamespace(now_ms=lambda: cluster_ms)
    for value in (10, 11, 12, 13):
        cluster.append(0, value, "b1", "b2", "b3")
    cluster.commit("b1", "b2", "b3")
    return cluster


def test_records_that_are_too_old_go() -> None:
    aged(STAMP + 1_001).raise_start("b1", 4)


def test_records_that_are_young_enough_stay() -> None:
    cluster = aged(STAMP + 980)
    with pytest.raises(InvariantBroken, match=r"^DP-18: .* b1 begins at 1 .* those before are kept for 1000 ms"):
        cluster.raise_start("b1", 1)


def test_each_host_goes_by_the_times_of_its_own_records() -> None:
    """A deposed leader wrote its own record later than the new one did, and is not truncated yet (seed 1001262)."""
    cluster = aged(STAMP + 1_001)
    cluster.change(leader=2, isr=[2, 3], tell=("b2", "b3"))
    cluster.append(1, 14, "b2", "b3")
    cluster.sent(15)
    cluster.replica("b1").log.batches.append(batch(4, 0, 15, timestamp=STAMP + 900))
    cluster.show("b1", "append")
    cluster.commit("b2", "b3")
    cluster.raise_start("b2", 5)


def test_what_was_truncated_is_not_judged_by_its_time() -> None:
    cluster = aged(STAMP + 1_001)
    cluster.sent(14)
    cluster.replica("b3").log.batches.append(batch(4, 0, 14, timestamp=STAMP + 900))
    cluster.show("b3", "append")
    cluster.change(leader=2, isr=[1, 2])
    cluster.truncate("b3", 4)
    cluster.append(1, 15, "b2", "b1", "b3")
    cluster.commit("b1", "b2", "b3")
    cluster.raise_start("b3", 5)


def test_what_retention_leaves_in_the_files_of_an_empty_log_breaks_it() -> None:
    cluster = aged(STAMP + 1_001)
    lay_out(cluster, 2, 2)
    with pytest.raises(InvariantBroken, match=rf"^DP-18: .* before 4, the end .* of b1, and {2 * SIZE} bytes of them"):
        cluster.raise_start("b1", 4)


def test_an_empty_segment_may_be_left() -> None:
    cluster = aged(STAMP + 1_001)
    lay_out(cluster, 2, 2, 0)
    cluster.raise_start("b1", 4)


def test_a_segment_whose_first_records_are_removed_stays() -> None:
    cluster = aged(STAMP + 1_001)
    lay_out(cluster, 2, 2)
    cluster.raise_start("b1", 2)


def test_a_deletion_leaves_the_last_segment() -> None:
    cluster = aged(STAMP + 1_001)
    lay_out(cluster, 2, 2)
    cluster.observer.event("deletion_asked", broker=1, topic=TOPIC, partition=0, offset=4)
    cluster.raise_start("b1", 4)


def test_records_that_retention_forgets_break_it_at_the_end() -> None:
    cluster = aged(STAMP + 1_000 + 2_600)
    with pytest.raises(InvariantBroken, match=r"^DP-18: events-0: .* although all .* older than 1000 ms for 2600"):
        ends_after(cluster, 2.0)


def test_they_may_stay_until_retention_is_due() -> None:
    ends_after(aged(STAMP + 1_000 + 1_400), 2.0)


def test_a_younger_record_that_was_deleted_keeps_its_segment() -> None:
    """`worlds` seed 1025501: a client whose clock was ahead had written it."""
    cluster = aged(STAMP + 1_000 + 2_600)
    deleted = build_batch([Record(timestamp=STAMP + 1_500, value=b"deleted")])
    cluster.processes["b1"].disk.open(f"{TOPIC}-0/{0:020}.log", create=True).append(deleted)
    ends_after(cluster, 2.0)
