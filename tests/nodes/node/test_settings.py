"""What a node's configuration says reaches the components that go by it (EL-06, QC-05)."""

from __future__ import annotations

import pytest

from squall.nodes.config import ConfigError, NodeConfig
from squall.nodes.node.settings import controller_config, raft_config

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "101",
    "controller.quorum.voters": "101@10.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://10.0.0.1:9093",
    "log.dirs": "/data",
}


def test_elr_is_kept_and_the_last_known_leader_may_lead_by_default() -> None:
    config = controller_config(NodeConfig.of(CONTROLLER))
    assert (config.eligible_leader_replicas, config.last_known_leader) == (True, True)
    told = {"eligible.leader.replicas.version": "0", "unclean.recovery.strategy": "None"}
    config = controller_config(NodeConfig.of(CONTROLLER | told))
    assert (config.eligible_leader_replicas, config.last_known_leader) == (False, False)


@pytest.mark.parametrize(("fetch_timeout_ms", "wait_ms"), [(2000, 500), (1000, 500), (999, 499.5), (300, 150)])
def test_a_leader_holds_an_empty_fetch_for_half_the_fetch_timeout_at_most(
    fetch_timeout_ms: int, wait_ms: float
) -> None:
    """QC-05: where both were equal, an idle quorum had an election every time that a fetch had been held."""
    config = NodeConfig.of(CONTROLLER | {"controller.quorum.fetch.timeout.ms": str(fetch_timeout_ms)})
    assert raft_config(config, bytes(16)).fetch_max_wait == wait_ms * 1000


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("eligible.leader.replicas.version", "2", "from 0 to 1"),
        ("unclean.recovery.strategy", "Aggressive", "must be Balanced or None"),
    ],
)
def test_other_values_are_refused(key: str, value: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        NodeConfig.of(CONTROLLER | {key: value})
