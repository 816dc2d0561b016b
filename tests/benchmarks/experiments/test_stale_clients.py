"""The experiment on clients with old metadata (ZK-10)."""

from __future__ import annotations

from squall.benchmarks.experiments.stale_clients import (
    CUT_OFF,
    EQUAL,
    EVENTS,
    KILLED,
    SESSIONS,
    SHUT_DOWN,
    WITH_QUORUM,
    Seen,
    _leader,
    figures,
    name_of,
    observed,
    pictures,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_a_response_names_the_address_of_a_leader_or_none() -> None:
    parts = [MetadataResponsePartition(partition_index=0, leader_id=2), MetadataResponsePartition(partition_index=1)]
    told = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=2, host="b2", port=9092)],
        topics=[MetadataResponseTopic(name="events", partitions=parts)],
    )
    assert (_leader(told, 0), _leader(told, 1), _leader(told, 2)) == (("b2", 9092), None, None)


def test_a_controlled_shutdown_costs_clients_next_to_nothing() -> None:
    for kind in (EQUAL, WITH_QUORUM):
        seen = observed(kind, SHUT_DOWN, seed=1)
        assert seen.operations > 1_000 and sum(seen.lost_s) < 5


def test_a_broker_without_its_controller_misleads_clients_for_longer_with_zookeeper() -> None:
    """ZK-10: it stays registered, so that it is made a leader and never hears of it; a quorum fences it."""
    zookeeper, quorum = (observed(kind, CUT_OFF, seed=2) for kind in (EQUAL, WITH_QUORUM))
    assert max(zookeeper.lost_s) > 20 > max(quorum.lost_s)
    assert sum(zookeeper.lost_s) > 2 * sum(quorum.lost_s) > 0


def test_figures_are_medians_over_seeds_and_the_chart_has_all_kinds() -> None:
    seen = [Seen(operations=10, errors=number, lost_s=[0.5] * number) for number in (1, 2, 9)]
    table = [one for event in EVENTS for kind in SESSIONS for one in figures(event, kind, seen)]
    found = {one.name.strip(): one for one in table}
    assert found[name_of(KILLED, EQUAL)].measured == 1.0
    assert found["answers that were wrong"].samples == (1, 2, 9)
    (chart,) = pictures(table).values()
    assert all(f"{kind}, time lost" in chart for kind in SESSIONS)
