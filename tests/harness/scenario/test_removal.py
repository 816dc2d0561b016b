"""What a scenario lets remove records from the front of a log; else a log's stated start excuses no loss."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.scenario.removal import damages_files, removal_allowed
from squall.harness.scenario.suite import Scenario


def allowed(**changes: Any) -> bool:
    faults = {} if "nemesis" in changes or "swarm" in changes else {"fault_free": True}
    return removal_allowed(Scenario.model_validate({"scenario": "one", **faults, **changes}))


def topic(**config: object) -> dict[str, Any]:
    return {"topics": {"events": {"config": config}}}


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"config": {"log.retention.ms": -1}},
        {"config": {"metadata.max.retention.bytes": 1000, "log.retention.check.interval.ms": 300}},
        topic(**{"retention.bytes": -1, "segment.bytes": 5000}),
        topic(**{"cleanup.policy": "delete"}),
        {"system": "kafka"},
        {"system": "nats"},
    ],
)
def test_a_log_keeps_its_front_by_default(cluster: dict[str, Any]) -> None:
    assert not allowed(cluster=cluster)


@pytest.mark.parametrize(
    "cluster",
    [
        {"config": {"log.retention.bytes": 1000}},
        {"config": {"log.retention.hours": 1}},
        {"config": {"log.cleanup.policy": "compact"}},
        topic(**{"retention.bytes": 1000}),
        topic(**{"retention.ms": 5000}),
        topic(**{"cleanup.policy": "compact,delete"}),
    ],
)
def test_settings_may_remove_it(cluster: dict[str, Any]) -> None:
    assert allowed(cluster=cluster)


def test_clients_may_remove_it() -> None:
    assert allowed(workload={"name": "log", "delete_records": 0.1})
    assert not allowed(workload={"name": "log", "delete_records": 0.0})


@pytest.mark.parametrize(
    ("fault", "removes"),
    [
        ({"fault": "alter-config", "topic": "events", "name": "retention.ms", "value": "1000"}, True),
        ({"fault": "alter-config", "topic": "events", "name": "min.insync.replicas", "value": "1"}, False),
        ({"fault": "reconfigure", "set": {"log.retention.bytes": 1000}}, True),
        ({"fault": "reconfigure", "set": {"num.io.threads": 2}}, False),
        ({"fault": "clock", "target": "one broker", "offset": "1h", "rate": 1.05}, False),
        ({"fault": "clock", "target": "one broker", "offset": "40h"}, True),
        ({"fault": "clock", "target": "one broker", "time": "2038-01-19T03:14:00Z"}, True),
        ({"fault": "clock", "target": "one broker", "rate": 50}, True),
        ({"fault": "clock-strobe", "target": "one broker", "offset": "-40h"}, True),
        ({"fault": "kill", "target": "one broker"}, False),
    ],
)
def test_a_fault_may_remove_it(fault: dict[str, Any], removes: bool) -> None:
    """A clock that is days ahead makes records older than the week that Kafka keeps them."""
    assert allowed(nemesis=[{**fault, "at": "5s", "for": "5s"}]) is removes


@pytest.mark.parametrize(
    ("fault", "damages"),
    [
        ({"fault": "bit-flip", "target": "b1", "file": "*.index"}, True),
        ({"fault": "truncate-file", "target": "b1"}, True),
        ({"fault": "copy-chunk", "target": "b1"}, True),
        ({"fault": "lose-file", "target": "b1"}, True),
        ({"fault": "lying-fsync", "target": "b1"}, True),
        ({"fault": "file-copy-restore", "target": "b1"}, False),
        ({"fault": "power-loss", "target": "b1"}, False),
    ],
)
def test_some_faults_damage_files_behind_a_nodes_back(fault: dict[str, Any], damages: bool) -> None:
    """A restored copy is older and whole; what a power loss takes was never promised to be there."""
    for nemesis in ([fault | {"at": "1s"}], [{"at": "1s", "mix": [fault], "stable": "2s"}]):
        assert damages_files(Scenario.model_validate({"scenario": "one", "nemesis": nemesis})) == damages
