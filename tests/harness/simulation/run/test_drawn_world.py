"""Worlds: each seed draws its own small cluster, settings and load, and all of them are legal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.drawn_world import (
    ELIGIBLE_LEADERS,
    draw_world,
    may_lose_power,
    switches_features,
    world_lines,
)
from squall.harness.simulation.run.run import SimOptions, Simulation, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.simulation.swarm.situations.power_losses import draw_power_losses
from squall.harness.simulation.world.world import ClusterShape, places_of, properties_of
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.topic_configs import check_config
from squall.workloads.log import LogOptions

SUITES = Path(__file__).resolve().parents[4] / "suites"
SEEDS = range(1, 501)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return find_scenario("worlds", SUITES)[0]


@pytest.fixture(scope="module")
def worlds(scenario: Scenario) -> list[Scenario]:
    return [draw_world(scenario, seed) for seed in SEEDS]


def test_every_world_is_one_that_a_suite_could_state(worlds: list[Scenario]) -> None:
    for seed, world in zip(SEEDS, worlds, strict=True):
        assert Scenario.model_validate(world.model_dump(by_alias=True)) == world, seed


def test_every_node_and_every_topic_of_a_world_accepts_its_settings(worlds: list[Scenario]) -> None:
    for world in worlds:
        cluster = world.cluster
        config = {
            key: str(value).lower() if value in (True, False) else str(value) for key, value in cluster.config.items()
        }
        shape = ClusterShape(
            controllers=cluster.controllers,
            brokers=cluster.brokers,
            config=config,
            dynamic_voters=cluster.dynamic_voters,
            combined=cluster.combined,
        )
        places = places_of(shape)
        for place in places:
            NodeConfig.of(properties_of(place, places, shape), place.name)
        for topic in cluster.topics.values():
            for name, value in topic.config.items():
                check_config(name, str(value))


def test_consumers_have_racks_where_they_may_read_from_followers(worlds: list[Scenario]) -> None:
    for world in worlds:
        assert bool(world.workload.consumer_racks) == (world.cluster.config.get("replica.selector.class") is not None)
    assert {len(world.workload.consumer_racks) for world in worlds} == {0, 1, 2, 3}


def test_brokers_stand_in_the_racks_of_consumers_in_turn() -> None:
    shape = ClusterShape(controllers=1, brokers=3, racks=("r1", "r2"))
    places = places_of(shape)
    racks = [properties_of(place, places, shape).get("broker.rack") for place in places]
    assert racks == [None, "r1", "r2", "r1"]


def test_a_segment_has_room_for_a_few_batches(worlds: list[Scenario]) -> None:
    """Seed 8 had one batch in each segment: consumers were slower than the producer, and final reads did not end."""
    for world in worlds:
        for topic in world.cluster.topics.values():
            if "segment.bytes" in topic.config:
                assert int(topic.config["segment.bytes"]) >= 3 * (world.workload.record_size + 90)


def test_the_same_seed_draws_the_same_world_in_every_process(scenario: Scenario) -> None:
    program = (
        "from squall.harness.simulation.run.drawn_world import draw_world, world_lines\n"
        "from squall.harness.simulation.run.scenarios import find_scenario\n"
        "print(world_lines(draw_world(find_scenario('worlds')[0], 7)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.strip() == str(world_lines(draw_world(scenario, 7)))


def test_worlds_differ_in_everything_that_is_drawn(worlds: list[Scenario]) -> None:
    clusters = [world.cluster for world in worlds]
    assert {one.brokers for one in clusters} == {1, 2, 3, 4, 5}
    assert {one.controllers for one in clusters} == {1, 3, 5}
    topics = [topic for one in clusters for topic in one.topics.values()]
    assert {one.replication_factor for one in topics} == {1, 2, 3, 4, 5}
    assert {one.min_insync_replicas for one in topics} == {1, 2, 3}
    for flag in ("combined", "dynamic_voters"):
        assert {getattr(one, flag) for one in clusters} == {False, True}
    assert {one.config[ELIGIBLE_LEADERS] for one in clusters} == {0, 1}
    loads = [world.workload.model_dump() for world in worlds]
    for name in ("acks", "idempotent", "in_flight", "list_offsets", "delete_records", "seek", "reopen", "admin"):
        assert len({one[name] for one in loads}) > 1, name


def test_in_some_worlds_nodes_give_requests_up_within_the_load(worlds: list[Scenario]) -> None:
    for name, usual in {
        "request.timeout.ms": 30_000,
        "replica.socket.timeout.ms": 30_000,
        "controller.quorum.request.timeout.ms": 2_000,
        "controlled.shutdown.timeout.ms": 8_000,
    }.items():
        impatient = [world for world in worlds if int(world.cluster.config.get(name, usual)) < usual]
        assert 40 <= len(impatient) <= 160, name
        assert any(int(world.cluster.config[name]) < 1_000 * world.time.load / 8 for world in impatient), name


def test_a_fetch_is_never_given_up_before_its_leader_may_answer(worlds: list[Scenario]) -> None:
    for seed, world in zip(SEEDS, worlds, strict=True):
        settings = world.cluster.config
        wait, patience = settings["replica.fetch.wait.max.ms"], settings.get("replica.socket.timeout.ms", 30_000)
        assert int(patience) >= int(wait) + 100, seed


def test_some_worlds_have_many_administrators_who_act_often(worlds: list[Scenario]) -> None:
    """MD-09: they make and delete the same few topics."""
    loads = [LogOptions.model_validate(world.workload.model_dump()) for world in worlds]
    many = [one for one in loads if one.admins > 2]
    assert 0.05 < len(many) / len(worlds) < 0.3
    assert all(one.admin >= 6 for one in many)


def test_features_are_switched_only_where_eligible_leaders_are_kept(worlds: list[Scenario]) -> None:
    switched = [world for seed, world in zip(SEEDS, worlds, strict=True) if switches_features(world, seed)]
    assert switched
    assert all(world.cluster.config[ELIGIBLE_LEADERS] == 1 for world in switched)


def test_brokers_lose_power_often_only_where_that_costs_nothing_that_was_acknowledged(worlds: list[Scenario]) -> None:
    lossy = [(seed, world) for seed, world in zip(SEEDS, worlds, strict=True) if may_lose_power(world, seed)]
    assert 60 < len(lossy) < 190
    for seed, world in lossy:
        topics = world.cluster.topics.values()
        assert world.cluster.brokers >= 3 and world.cluster.config[ELIGIBLE_LEADERS] == 1
        assert all(one.replication_factor >= 3 and one.min_insync_replicas >= 2 for one in topics)
        assert not any("flush.messages" in one.config for one in topics)
        assert not switches_features(world, seed)


@pytest.mark.parametrize("seed", [13, 77])
def test_power_losses_of_brokers_follow_one_another_within_the_load(seed: int) -> None:
    drawn = draw_power_losses(seed, ("b1", "b2", "b3"), 16.0)
    assert drawn == draw_power_losses(seed, ("b1", "b2", "b3"), 16.0)
    assert len(drawn) > 1
    assert {one.kind for one in drawn} == {"power-loss-broker"}
    assert all(one.latest_end < 16.0 for one in drawn)


def test_in_such_a_world_brokers_lose_records_and_the_log_stays_whole(scenario: Scenario) -> None:
    assert may_lose_power(scenario, 12)
    result = simulate(scenario, 12, SimOptions())
    assert result.verdict == "valid", result.problem
    assert result.counts["effect power-loss-broker: bytes lost"] > 0


def test_another_scenario_is_left_as_it_is() -> None:
    swarm = find_scenario("swarm", SUITES)[0]
    assert draw_world(swarm, 7) is swarm


def test_a_run_has_the_cluster_that_its_seed_drew(scenario: Scenario, tmp_path: Path) -> None:
    simulation = Simulation(scenario, 3, SimOptions(), tmp_path)
    drawn = draw_world(scenario, 3).cluster
    assert len(simulation.world.cluster.brokers) == drawn.brokers
    assert len(simulation.world.cluster.controllers) == drawn.controllers
    simulation.recorder.close()


def test_a_seed_that_was_a_false_alarm_is_valid(scenario: Scenario) -> None:
    """501001: an empty log of a follower began again where a batch begins, and the disk was full before it was written.

    DURABLE took that for lost records.
    """
    assert simulate(scenario, 501001).verdict == "valid"


def test_a_seed_whose_leader_was_elected_again_unawares_is_valid(scenario: Scenario) -> None:
    """903203: after an unclean election the former leader led again, did not know it, and acknowledged.

    ACK took that for an acknowledgement in the new epoch, which the client knew.
    """
    assert simulate(scenario, 903203).verdict == "valid"


def test_a_seed_that_left_a_consumer_at_a_follower_without_news_is_valid(scenario: Scenario) -> None:
    """504185: a follower's log began anew beyond what a consumer had read there, and no error told the consumer."""
    assert simulate(scenario, 504185).verdict == "valid"


def test_a_seed_whose_follower_refused_its_leaders_first_batch_is_valid(scenario: Scenario) -> None:
    """810729: a follower that had diverged was cut where the leader's log begins, inside of a batch (F-3)."""
    assert simulate(scenario, 810729).verdict == "valid"


def test_a_seed_whose_idle_quorum_held_elections_without_end_is_valid(scenario: Scenario) -> None:
    """730016: leaders held empty fetches for as long as voters waited for an answer.

    No broker could register, since every new controller lets the sessions of former incarnations begin again.
    """
    assert simulate(scenario, 730016).verdict == "valid"


def test_a_seed_that_lost_acknowledged_records_is_valid(scenario: Scenario) -> None:
    """502996: one power loss of two replicas, and acknowledged records were lost.

    The other broker stopped cleanly before it knew that it was registered. Its marker named an older epoch, which cost
    it its eligibility; so the last known leader was elected, which had lost power.
    """
    assert simulate(scenario, 502996).verdict == "valid"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_healthy_nodes_are_valid_in_a_world(scenario: Scenario, seed: int) -> None:
    result = simulate(scenario, seed)
    assert result.verdict == "valid", (result.problem, result.drawn)
    assert result.drawn
