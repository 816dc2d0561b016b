"""DP-06 as the observer asserts it: in the end, every member knows that everything is committed."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.rules.log_bounds import LogBounds
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster

SECOND = 1_000_000


def ends(cluster: Cluster, after: float) -> None:
    """The run ends so many seconds after the last request of a client; a fetch waits for half a second."""
    rule = LogBounds(cluster.observer.cluster)
    rule.idle(0)
    for process in cluster.processes.values():
        process.now = round(after * SECOND)
    rule.at_end()


def behind() -> Cluster:
    """B3 does not know that the last record is committed."""
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2", "b3")
    cluster.commit("b1", "b2")
    return cluster


def test_a_member_that_never_hears_of_the_last_high_watermark_breaks_dp_06() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^DP-06: events-0: b3 has records up to 1 .* committed up to 0, in a whole"
    ):
        ends(behind(), 2.5)


def test_it_has_the_time_of_some_fetches() -> None:
    ends(behind(), 2.4)


def test_a_replica_outside_the_isr_may_be_behind() -> None:
    cluster = behind()
    cluster.change(isr=[1, 2])
    ends(cluster, 2.5)


def test_members_that_know_everything_break_nothing() -> None:
    cluster = behind()
    cluster.commit("b3")
    ends(cluster, 2.5)
