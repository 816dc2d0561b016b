"""A broker of another run's cluster at an address of ours is never asked about our run (FD-01)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from squall.nodes.protocol.messages import ApiKey
from squall.workloads.clients.common.client import ClusterState
from squall.workloads.clients.native.admin import NativeAdmin
from tests.workloads.clients.scripted_brokers import NODES, Brokers

ADDRESSES = [(f"b{node}", 9092) for node in NODES]


def described(clusters: dict[int, str | None]) -> tuple[NativeAdmin, ClusterState]:
    """What an admin of the cluster `ours` sees of brokers that say they are of these clusters."""
    brokers = Brokers()

    def metadata(node: int, request: Any) -> Any:
        if request.api_key != ApiKey.METADATA:
            return None
        return replace(brokers.metadata(), cluster_id=clusters[node])

    brokers.script = metadata
    admin = NativeAdmin(brokers, ADDRESSES, cluster_id="ours")  # type: ignore[arg-type]

    async def look() -> ClusterState:
        told = await admin._metadata(None)
        if not told:
            raise ConnectionError("none answered")
        return ClusterState((), (), None)

    return admin, brokers.run(look())


def test_brokers_of_our_cluster_and_those_that_name_none_are_believed() -> None:
    admin, _ = described({1: "ours", 2: "ours", 3: None})
    assert admin.strangers == {}


def test_a_broker_of_another_cluster_counts_as_silent_and_is_remembered() -> None:
    admin, _ = described({1: "ours", 2: "theirs", 3: "ours"})
    assert admin.strangers == {("b2", 9092): "theirs"}


def test_a_cluster_of_strangers_is_no_cluster() -> None:
    with pytest.raises(ConnectionError):
        described(dict.fromkeys(NODES, "theirs"))
