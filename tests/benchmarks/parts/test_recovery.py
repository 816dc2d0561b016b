"""How a fault's cost is measured: on our own nodes, for each kind of fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.benchmarks.parts.load import Bench
from squall.benchmarks.parts.recovery import KINDS, Kind, recovered
from squall.harness.loopback.loopback import FAST, Cluster

pytestmark = [pytest.mark.xdist_group("recovery"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, controllers=3) as running:
        running.wait_until_ready()
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_under_load_costs_time_and_loses_no_record(cluster: Cluster, kind: Kind) -> None:
    session_s = int(FAST["broker.session.timeout.ms"]) / 1000
    found = recovered(Bench(cluster), cluster, kind)
    assert found.failover > 0 and found.recovery > 0 and found.longest_outage > 0
    if kind in ("kill the leader", "pause the leader"):
        heartbeat_s = int(FAST["broker.heartbeat.interval.ms"]) / 1000
        assert found.failover >= session_s - heartbeat_s - 0.1, "before its session is over a broker is not fenced"
        assert found.longest_outage >= found.failover - 0.1
