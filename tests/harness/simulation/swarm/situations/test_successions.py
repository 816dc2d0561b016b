"""Successions: when two leaders stop in turn while links are cut, and which brokers are chosen."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.situations.successions import STOP, Successions, draw_successions
from squall.nodes.metadata.topic import PartitionRegistration, Topic

BROKERS, CONTROLLERS = ("b1", "b2", "b3", "b4"), ("c1", "c2", "c3")
LOAD, LAG = 24.0, 2.0
SUCCEEDING = {seed: drawn for seed in range(300) if (drawn := draw_successions(seed, BROKERS, CONTROLLERS, LOAD, LAG))}


def successions(drawn: list[SwarmFault]) -> list[list[SwarmFault]]:
    """Three cuts and two stops each."""
    assert len(drawn) % 5 == 0
    return [drawn[at : at + 5] for at in range(0, len(drawn), 5)]


def test_a_share_of_the_seeds_has_successions_and_draws_the_same_again() -> None:
    assert 60 < len(SUCCEEDING) < 120
    assert {seed: draw_successions(seed, BROKERS, CONTROLLERS, LOAD, LAG) for seed in SUCCEEDING} == SUCCEEDING
    assert max(fault.latest_end for drawn in SUCCEEDING.values() for fault in drawn) < LOAD


def test_the_second_leader_is_cut_off_before_the_first_one_stops_and_stops_while_nobody_reaches_another() -> None:
    for drawn in SUCCEEDING.values():
        for *cuts, first, second in successions(drawn):
            assert [fault.kind for fault in (first, second)] == [STOP, STOP] and first.at < second.at
            assert {frozenset(cut.hosts) for cut in cuts} == {
                frozenset(pair) for pair in combinations({host for cut in cuts for host in cut.hosts}, 2)
            }
            assert min(cut.at for cut in cuts if second.hosts[0] in cut.hosts) < first.at
            assert all(cut.at <= first.at + 1e-5 and second.at < cut.latest_end for cut in cuts)


def test_a_succession_is_over_before_a_follower_is_too_far_behind() -> None:
    for drawn in SUCCEEDING.values():
        for one in successions(drawn):
            assert max(fault.latest_end for fault in one) - min(fault.at for fault in one) < LAG


@pytest.mark.parametrize(
    ("brokers", "controllers"),
    [(("b1", "b2"), ("c1",)), (("b1", "b2", "b3"), ("b1", "b2", "b3"))],
    ids=["two", "combined"],
)
def test_two_brokers_and_those_that_are_controllers_have_no_successions(
    brokers: tuple[str, ...], controllers: tuple[str, ...]
) -> None:
    assert not any(draw_successions(seed, brokers, controllers, LOAD, LAG) for seed in range(50))


# --- Which brokers ----------------------------------------------------------------------------------------------

THREE = ("b1", "b2", "b3")


class Cluster:
    """Four brokers, and topic-partitions with so many records at their leaders."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.ends: dict[tuple[str, int], int] = {}
        replicas = SimpleNamespace(by_name=self._hosted)
        process = SimpleNamespace(node=SimpleNamespace(broker=SimpleNamespace(replicas=replicas)))
        places = [SimpleNamespace(node_id=number, name=f"b{number}", is_broker=True) for number in (1, 2, 3, 4)]
        world: Any = SimpleNamespace(places=places, processes={place.name: process for place in places})
        image: Any = SimpleNamespace(all_partitions=self._all_partitions)
        self.successions = Successions(world, lambda: image)

    def _hosted(self, topic: str, partition: int) -> Any:
        return SimpleNamespace(replica=SimpleNamespace(end_offset=self.ends[topic, partition]))

    def _all_partitions(self) -> Any:
        return [(topic, number, one) for topic in self.topics.values() for number, one in topic.partitions.items()]

    def has(self, name: str, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...], end: int = 0) -> None:
        topic = self.topics[name] = Topic(name, name.encode())
        topic.put(0, PartitionRegistration(replicas, isr, leader, 0, 0))
        self.ends[name, 0] = end

    def resolve(self, *hosts: str, number: int = 0, amount: float = 0.0) -> tuple[str, ...]:
        fault = SwarmFault(1.0, STOP, hosts, 0.2, amount, succession=(number, THREE))
        return self.successions.resolve(fault).hosts


def test_a_succession_strikes_a_leader_and_those_that_would_be_elected_after_it() -> None:
    cluster = Cluster()
    cluster.has("events", leader=3, isr=(1, 3, 4), replicas=(4, 2, 3, 1))
    assert [cluster.resolve(host) for host in THREE] == [("b3",), ("b4",), ("b1",)]


def test_all_faults_of_a_succession_strike_the_hosts_chosen_for_its_first_one() -> None:
    cluster = Cluster()
    cluster.has("events", leader=3, isr=(1, 3, 4), replicas=(4, 2, 3, 1))
    cluster.resolve("b2", "b1")
    cluster.has("events", leader=1, isr=(1, 3, 4), replicas=(4, 2, 3, 1))
    assert cluster.resolve("b1") == ("b3",)
    assert cluster.resolve("b1", number=1) == ("b1",), "the next succession begins with the leader of then"


def test_a_topic_partition_with_many_records_is_preferred() -> None:
    cluster = Cluster()
    cluster.has("quiet", leader=1, isr=(1, 2, 3), replicas=(1, 2, 3), end=3)
    cluster.has("busy", leader=2, isr=(1, 2, 3), replicas=(1, 2, 3), end=90)
    leaders = [cluster.resolve("b1", number=number, amount=number / 100) for number in range(100)]
    assert 70 < leaders.count(("b2",)) < 90


@pytest.mark.parametrize(("leader", "isr"), [(1, (1, 2)), (-1, ()), (-1, (1, 2, 3))])
def test_without_three_in_sync_and_a_leader_the_drawn_hosts_stay(leader: int, isr: tuple[int, ...]) -> None:
    cluster = Cluster()
    cluster.has("events", leader=leader, isr=isr, replicas=(1, 2, 3))
    assert cluster.resolve("b2", "b3") == ("b2", "b3")


def test_a_fault_says_in_its_words_whom_it_strikes() -> None:
    cluster = Cluster()
    cluster.has("events", leader=3, isr=(1, 3, 4), replicas=(4, 2, 3, 1))
    words = {"fault": "isolate", "target": "b1", "from": "b3"}
    cut = cluster.successions.resolve(
        SwarmFault(1.0, "cut-link", ("b1", "b3"), 0.2, words=words, succession=(0, THREE))
    )
    assert cut.words == {"fault": "isolate", "target": "b3", "from": "b1"}


def test_a_fault_of_no_succession_strikes_whom_it_names() -> None:
    cluster = Cluster()
    fault = SwarmFault(1.0, STOP, ("b2",), 0.2)
    assert cluster.successions.resolve(fault) is fault


def test_a_run_that_goes_on_with_another_seed_has_the_successions_of_both() -> None:
    cluster = Cluster()
    cluster.has("events", leader=3, isr=(1, 3, 4), replicas=(4, 2, 3, 1))
    cluster.resolve("b1")
    other = SwarmFault(1.0, STOP, ("b4",), 0.2, succession=(0, ("b4", "b1", "b2")))
    assert cluster.successions.resolve(other).hosts == ("b3",)
