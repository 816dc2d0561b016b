"""RA-07 as the observer asserts it: a whole cluster returns leaderships to preferred replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.balanced_leaders import BalancedLeaders
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken, ObservedLog
from squall.nodes.controller.config import ControllerConfig

SECOND = 1_000_000
TOPIC_ID = bytes(16)


class Balanced:
    """A whole cluster since the tenth second, whose broker 1 is the preferred replica of eleven topic-partitions."""

    def __init__(self, *, elsewhere: int, **config: Any) -> None:
        self.cluster = ObservedCluster()
        settings = ControllerConfig(node_id=101, cluster_id="c", imbalance_check_interval=SECOND, **config)
        controller = SimpleNamespace(is_active=True, config=settings)
        self.process = SimpleNamespace(name="c1", now=10 * SECOND, node=SimpleNamespace(controller=controller))
        self.cluster.set_members({"c1": self.process}, {})  # type: ignore[dict-item]
        parts = {
            number: SimpleNamespace(replicas=(1, 2), leader=2 if number < elsewhere else 1) for number in range(11)
        }
        topic = SimpleNamespace(id=TOPIC_ID, name="events", partitions=parts)
        self.cluster.images.newest_image = SimpleNamespace(topics={TOPIC_ID: topic})  # type: ignore[assignment]
        self.rule = BalancedLeaders(self.cluster)
        self.rule.became_whole(self.process.now)

    def changed(self, number: int, at: int) -> None:
        self.process.now = at
        self.rule.membership_changed((TOPIC_ID, number), SimpleNamespace(log=ObservedLog("events")))  # type: ignore[arg-type]

    def end(self, at: int) -> None:
        self.process.now = at
        self.rule.at_end()


def test_leaderships_that_are_not_returned_are_a_breach() -> None:
    with pytest.raises(InvariantBroken, match=r"^RA-07: \['events-0', 'events-1'\] are led by others than 1"):
        Balanced(elsewhere=2).end(at=13 * SECOND)


def test_a_tolerated_share_is_legal() -> None:
    """One of eleven is less than ten percent."""
    Balanced(elsewhere=1).end(at=13 * SECOND)


def test_a_cluster_that_was_whole_for_a_shorter_time_is_not_judged() -> None:
    Balanced(elsewhere=2).end(at=12 * SECOND - 1)


def test_what_changed_a_moment_ago_may_still_be_returned() -> None:
    balanced = Balanced(elsewhere=2)
    balanced.changed(0, at=12 * SECOND)
    balanced.end(at=13 * SECOND)


def test_a_cluster_that_does_not_balance_leaves_leaders_where_they_are() -> None:
    Balanced(elsewhere=2, balances_leaders=False).end(at=13 * SECOND)
