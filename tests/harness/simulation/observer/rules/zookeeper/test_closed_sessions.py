"""ZK-11 as the observer asserts it: a broker that stops cleanly ends its ZooKeeper session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.zookeeper.closed_sessions import ClosedSessions
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.zookeeper.session import SessionState


def ends(how: str, state: SessionState, cluster: Any = None) -> None:
    """B2 has a session, ends in this way, and its client's session is in this state then."""
    rule = ClosedSessions(cluster)
    process: Any = SimpleNamespace(name="b2", how_it_ended=how)
    node = ZooKeeperNode.__new__(ZooKeeperNode)
    node.client = SimpleNamespace(session=SimpleNamespace(state=state))  # type: ignore[assignment]
    rule.turned(process, node)
    rule.died(process)


@pytest.mark.parametrize("state", [SessionState.CONNECTED, SessionState.CONNECTING])
def test_a_session_that_goes_on_after_a_clean_stop_breaks_zk_11(state: SessionState) -> None:
    with pytest.raises(InvariantBroken, match=r"^ZK-11: broker b2 has stopped cleanly, and its ZooKeeper session"):
        ends("stopped", state)


@pytest.mark.parametrize("how", ["died", "died while it closed"])
def test_a_process_that_died_leaves_its_session_to_the_timeout(how: str) -> None:
    ends(how, SessionState.CONNECTED)


@pytest.mark.parametrize("state", [SessionState.CLOSED, SessionState.EXPIRED])
def test_a_session_that_is_over_breaks_nothing(state: SessionState) -> None:
    ends("stopped", state)


def test_an_incarnation_that_took_no_turn_has_no_session() -> None:
    ClosedSessions(None).died(SimpleNamespace(name="b2", how_it_ended="stopped"))  # type: ignore[arg-type]
