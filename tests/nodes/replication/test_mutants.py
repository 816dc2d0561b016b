"""Each seeded bug of replication, shown in the smallest course that tells it from its healthy twin (HX-08)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from squall.nodes.mutants import Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.replication.replica import LATEST_TIMESTAMP, TopicPartitionReplica

SECOND = 1_000_000
World = Any


def fetch_epoch_unfenced(world: World) -> object:
    """N01, EP-03: a follower of an older epoch, whose log has parted from the leader's, fetches at the leader's end."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 2)
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    world.produce(1, 2, acks=1)
    world.lead(2, 2, 3)
    world.produce(2, 2, acks=1)
    bounds = world.replica(2).follower_fetch(world.now, 1, 101, 4, 1, 1)
    return bounds.error


def isr_shrink_uncommitted(world: World) -> object:
    """N07, IS-04: the leader wants to drop a silent member; the controller has not answered."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 1)
    world.catch_up(2, 1)
    world.now += 60 * SECOND
    world.catch_up(2, 1)
    world.replica(1).maybe_shrink(world.now)
    assert world.replica(1).proposal is not None
    return world.replica(1).high_watermark


def isr_expand_ignored(world: World) -> object:
    """N08, IS-05: a member about to join does not have the next record yet."""
    world.lead(1, isr=(1, 2))
    world.produce(1, 1)
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    assert world.replica(1).proposal is not None
    world.produce(1, 1)
    world.catch_up(2, 1)
    return world.replica(1).high_watermark


def hw_restored_too_high(world: World) -> object:
    """Rule 11: a restarted replica knows of what is committed only what was checkpointed."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 3, acks=1)
    old = world.replica(1)
    return TopicPartitionReplica(
        1, world.state, old.log, old._config, world.view, clock=old._clock, trace=world.trace, mutants=world.mutants
    ).high_watermark


def hw_advances_under_min_isr(world: World) -> object:
    """EL-03, rule 10: alone in the ISR, with min ISR two, a leader may append for acks=1 but commit nothing."""
    world.lead(1, isr=(1,))
    world.now += 60 * SECOND
    assert world.produce(1, 1, acks=1).error == 0
    world.replica(1).maybe_shrink(world.now)
    return world.replica(1).high_watermark


def divergent_suffix_kept(world: World) -> object:
    """DP-13, rule 13: a leader of the past has a record of its own where the new one has another."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 1, acks=1)
    world.lead(2)
    world.produce(2, 1, acks=1)
    world.catch_up(1, 2)
    return world.content(1) == world.content(2)


def end_offset_unguarded(world: World) -> object:
    """KIP-207, rule 11: the predecessor has shown two records; the new leader does not know that they are committed."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 2)
    world.fetch(2, 1)
    world.lead(2, 2, 3)
    return world.replica(2).list_offset(LATEST_TIMESTAMP, -1).error


def follower_ends_kept(world: World) -> object:
    """DP-06, rule 10: the leader leads again; what followers had in its earlier epoch may be cut since."""
    world.lead(1, isr=(1, 2, 3))
    world.produce(1, 2)
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    world.lead(2)
    world.lead(1)
    return world.replica(1).in_sync_followers_with(0)


def older_metadata_applied(world: World) -> object:
    """Rules 9 and 23: the controller's answer widens the ISR, then metadata of before arrives."""
    world.lead(1, isr=(1, 2))
    before = world.state
    world.catch_up(2, 1)
    world.catch_up(3, 1)
    world.answer(1)
    world.replica(1).apply(world.now, before)
    return world.replica(1).isr


@pytest.mark.parametrize(
    ("course", "right", "wrong"),
    [
        (fetch_epoch_unfenced, ErrorCode.FENCED_LEADER_EPOCH, 0),
        (isr_shrink_uncommitted, 0, 1),
        (isr_expand_ignored, 1, 2),
        (hw_restored_too_high, 0, 3),
        (hw_advances_under_min_isr, 0, 1),
        (divergent_suffix_kept, True, False),
        (end_offset_unguarded, ErrorCode.OFFSET_NOT_AVAILABLE, 0),
        (follower_ends_kept, [], [(2, 2), (3, 2)]),
        (older_metadata_applied, (1, 2, 3), (1, 2)),
    ],
    ids=lambda value: value.__name__.replace("_", "-") if callable(value) else None,
)
def test_a_mutant_breaks_its_rule_and_its_healthy_twin_keeps_it(
    world_with: Callable[..., World], course: Callable[[World], object], right: object, wrong: object
) -> None:
    name = course.__name__.replace("_", "-")
    assert course(world_with()) == right
    assert course(world_with(Mutants(frozenset({name})))) == wrong
