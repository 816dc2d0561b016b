"""METRIC: a ZooKeeper-era controller counts the cluster as the ensemble has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.node import zookeeper_metrics
from squall.harness.simulation.observer.rules.node.zookeeper_metrics import COUNTS, LOOK_EACH, ZooKeeperMetrics
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.zookeeper.controller.context import ControllerContext, ReplicaState

TOPIC, DELETED = SimpleNamespace(name="events"), SimpleNamespace(name="old")
TRUE = {
    names.ACTIVE_CONTROLLERS: 1,
    names.ACTIVE_BROKERS: 2,
    names.TOPICS: 2,
    names.PARTITIONS: 4,
    names.OFFLINE_PARTITIONS: 1,
    names.IMBALANCED_PARTITIONS: 2,
    names.TOPICS_TO_DELETE: 1,
}
"""The right counts of the active controller. The topic-partition of `old`, a topic to be deleted, needs no leader."""


class Ensemble:
    """Two brokers and two topics: `events` has a topic-partition for each broker as leader and one without a leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[str, dict[Metric, int]] = {"b1": dict(TRUE), "b2": {}}
        monkeypatch.setattr(zookeeper_metrics, "collected", self._collected)
        self.nodes = {"b1": node(active=True), "b2": node(active=False)}
        image = SimpleNamespace(
            brokers={1: None, 2: None},
            topics=dict.fromkeys(("events", "old")),
            all_partitions=lambda: iter(
                [(TOPIC, number, led(leader)) for number, leader in enumerate((1, 2, -1))] + [(DELETED, 0, led(-1))]
            ),
        )
        processes = {name: SimpleNamespace(name=name, node=one, now=name) for name, one in self.nodes.items()}
        cluster: Any = SimpleNamespace(
            processes=processes, metadata=SimpleNamespace(image=image), being_deleted={"old": None}
        )
        self.process = processes["b1"]
        self.rule = ZooKeeperMetrics(cluster)

    def _collected(self, node: object, now: Any) -> dict[tuple[Metric, tuple[()]], int]:
        told = self.told[now]
        return {(one, ()): told.get(one, 0) for one in (*COUNTS, names.ACTIVE_CONTROLLERS)}

    def turns(self) -> None:
        for _ in range(LOOK_EACH):
            self.rule.turned(self.process, self.process.node)


def node(*, active: bool) -> Any:
    made: Any = ZooKeeperNode.__new__(ZooKeeperNode)
    made.controller = SimpleNamespace(is_active=active, loop=[], context=ControllerContext())
    return made


def led(leader: int) -> Any:
    return SimpleNamespace(leader=leader, replicas=(1, 2))


def test_counts_that_are_the_ensembles_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    Ensemble(monkeypatch).rule.at_end()


@pytest.mark.parametrize(
    "metric", [one for one in TRUE if one is not names.ACTIVE_CONTROLLERS], ids=lambda one: one.name
)
def test_one_more_or_less_breaks_it(monkeypatch: pytest.MonkeyPatch, metric: Metric) -> None:
    ensemble = Ensemble(monkeypatch)
    for other in (-1, 1):
        ensemble.told["b1"] = {**TRUE, metric: TRUE[metric] + other}
        with pytest.raises(
            InvariantBroken, match=rf"^METRIC: {metric.name}: b1 says {TRUE[metric] + other}, and it is"
        ):
            ensemble.rule.at_end()


def test_a_controller_that_still_works_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(monkeypatch)
    ensemble.told["b1"][names.TOPICS] = 3
    ensemble.nodes["b1"].controller.loop = ["TopicChange"]
    ensemble.rule.at_end()


@pytest.mark.parametrize("metric", COUNTS, ids=lambda one: one.name)
def test_a_node_that_does_not_control_counts_nothing(monkeypatch: pytest.MonkeyPatch, metric: Metric) -> None:
    ensemble = Ensemble(monkeypatch)
    ensemble.told["b2"] = {metric: 1}
    with pytest.raises(InvariantBroken, match=rf"^METRIC: {metric.name}: b2 says 1, and it is 0"):
        ensemble.rule.at_end()


def test_two_active_controllers_break_it_and_none_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(monkeypatch)
    ensemble.told["b1"][names.ACTIVE_CONTROLLERS] = 0
    ensemble.rule.at_end()
    ensemble.told = {"b1": dict(TRUE), "b2": {names.ACTIVE_CONTROLLERS: 1}}
    with pytest.raises(InvariantBroken, match=r"^METRIC: active controllers: the controllers together says 2, "):
        ensemble.rule.at_end()


# -- what is to be deleted ------------------------------------------------------------------------------------------


def deletes(ensemble: Ensemble, **told: int) -> None:
    """Three topics are to be deleted: one in part, one whose replicas cannot be deleted now, one not begun."""
    context = ensemble.nodes["b1"].controller.context
    context.to_delete = dict.fromkeys(("old", "older", "oldest"))
    started, ineligible = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE
    context.replica_states = {
        ("old", 0, 1): started,
        ("old", 0, 2): ineligible,
        ("older", 0, 1): ineligible,
        ("older", 1, 1): ineligible,
        ("oldest", 0, 1): ReplicaState.OFFLINE,
        ("kept", 0, 1): started,
    }
    right = {"topics": 3, "replicas": 4, "topics_ineligible": 2, "replicas_ineligible": 3}
    said = {**right, **told}
    ensemble.told["b1"] |= {
        names.TOPICS_TO_DELETE: said["topics"],
        names.REPLICAS_TO_DELETE: said["replicas"],
        names.TOPICS_INELIGIBLE: said["topics_ineligible"],
        names.REPLICAS_INELIGIBLE: said["replicas_ineligible"],
    }
    ensemble.turns()


def test_what_a_controller_deletes_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    deletes(Ensemble(monkeypatch))


@pytest.mark.parametrize("told", [{"topics": 2}, {"replicas": 3}, {"topics_ineligible": 1}, {"replicas_ineligible": 4}])
def test_a_replica_that_is_forgotten_breaks_it(monkeypatch: pytest.MonkeyPatch, told: dict[str, int]) -> None:
    with pytest.raises(InvariantBroken, match=r"^METRIC: kafka_controller_.*: b1 says "):
        deletes(Ensemble(monkeypatch), **told)


def test_a_node_that_does_not_control_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = Ensemble(monkeypatch)
    ensemble.nodes["b1"].controller.is_active = False
    deletes(ensemble, topics=9)
