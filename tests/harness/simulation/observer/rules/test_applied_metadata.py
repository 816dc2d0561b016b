"""MD-03 as the observer asserts it: a broker hosts what its metadata give it, and nothing else.

It is asserted at the end, and whenever a broker says that it has applied its metadata.
"""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import Cluster, HandMadeProcess


def moved_away() -> Cluster:
    """Events-0 has left b3, which knows it."""
    cluster = Cluster()
    cluster.change(replicas=[1, 2], isr=[1, 2], directories=[])
    return cluster


def test_a_broker_that_keeps_what_was_moved_away_breaks_md_03() -> None:
    with pytest.raises(InvariantBroken, match=r"^MD-03: after healing b3 hosts events-0, .* give it to other brokers$"):
        moved_away().observer.final()


def test_a_broker_that_lacks_what_it_was_given_breaks_md_03() -> None:
    cluster = Cluster()
    cluster.processes["b3"].hosted.removed = True
    with pytest.raises(InvariantBroken, match=r"^MD-03: after healing b3 does not host events-0, .* has a replica$"):
        cluster.observer.final()


def test_a_replica_that_is_removed_and_not_deleted_yet_is_hosted_no_more() -> None:
    cluster = moved_away()
    cluster.processes["b3"].hosted.removed = True
    cluster.observer.final()


def applying(behind: int) -> tuple[Cluster, HandMadeProcess]:
    """B3 still hosts what was moved away, and says that it has applied all but so much of its metadata."""
    cluster = moved_away()
    process = cluster.processes["b3"]
    process.applied_offset = process.image.last_offset - behind
    cluster.observer.event("high_watermark", node=3)
    return cluster, process


def test_a_broker_that_states_too_early_that_it_has_applied_its_metadata_breaks_md_03() -> None:
    cluster, process = applying(behind=0)
    with pytest.raises(InvariantBroken, match=r"^MD-03: having applied all b3 hosts events-0, "):
        cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_broker_that_is_still_at_work_states_an_earlier_offset() -> None:
    cluster, process = applying(behind=1)
    cluster.observer.look(process)  # type: ignore[arg-type]
