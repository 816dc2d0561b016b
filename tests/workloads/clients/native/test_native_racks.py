"""A native consumer in a rack reads from the follower that the leader names (KIP-392), and comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.world import ClusterShape, SimPlace, SimWorld, properties_of
from squall.nodes.config import RACK_AWARE_SELECTOR
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import PartitionData
from squall.workloads.clients.common.client import Client, ClientPlan, Topic
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.native import NativeFactory
from squall.workloads.clients.native.native_consumer import PREFERENCE_SECONDS
from squall.workloads.core.operation import DELETE_RECORDS, FAIL, LIST_OFFSETS, OK, POLL, SEEK, SEND, Completion
from tests.workloads.clients.scripted_brokers import Brokers, answered, batch, deleted, failed, listed, op, told


def racked(*values: int, **options: Any) -> tuple[Brokers, Client]:
    """Broker 1 leads and sends whoever stands in a rack to broker 2."""
    brokers = Brokers()
    brokers.values = list(values)
    brokers.preferred = 2
    return brokers, brokers.client("consumer", rack="r2", **options)


def poll(brokers: Brokers, client: Client) -> Completion:
    completion: Completion = brokers.run(client.invoke(op(POLL)))
    return completion


def fetched_from(brokers: Brokers) -> list[int]:
    return [node for node, _ in brokers.of(ApiKey.FETCH)]


def refusing(brokers: Brokers, node: int, error: ErrorCode) -> None:
    brokers.script = lambda at, request: failed(error) if (at, request.api_key) == (node, ApiKey.FETCH) else None


def test_a_redirected_poll_is_answered_by_the_follower_and_so_are_later() -> None:
    brokers, client = racked(70, 71)
    found = poll(brokers, client)
    assert (found.values, found.node, found.session, found.position) == ((70, 71), 2, 0, 0)
    assert fetched_from(brokers) == [1, 2]
    assert {body.rack_id for _, body in brokers.of(ApiKey.FETCH)} == {"r2"}
    brokers.values.append(72)
    again = poll(brokers, client)
    assert (again.values, again.node) == ((72,), 2)
    assert fetched_from(brokers) == [1, 2, 2]


def test_a_consumer_without_a_rack_names_none_and_reads_from_the_leader() -> None:
    brokers = Brokers()
    brokers.values, brokers.preferred = [70], 2
    assert poll(brokers, brokers.client("consumer")).node == 1
    assert [body.rack_id for _, body in brokers.of(ApiKey.FETCH)] == [""]


def test_a_follower_shows_what_it_knows_and_a_poll_waits_there() -> None:
    brokers, client = racked(70, 71)
    brokers.ends[2] = 1
    assert poll(brokers, client).values == (70,)
    empty = poll(brokers, client)
    assert (empty.type, empty.values, empty.node, empty.high_watermark) == (OK, (), 2, 1)


def test_after_a_while_the_leader_is_asked_again() -> None:
    brokers, client = racked(70)
    poll(brokers, client)
    brokers.run(brokers.pause(PREFERENCE_SECONDS + 1))
    brokers.values.append(71)
    assert poll(brokers, client).node == 2
    assert fetched_from(brokers) == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
    ],
)
def test_what_a_follower_refuses_the_leader_is_asked_for(error: ErrorCode) -> None:
    """Even that an offset is out of range: the follower may lag, and nothing begins anew because of it."""
    brokers, client = racked(70)
    assert poll(brokers, client).node == 2
    brokers.values.append(71)
    brokers.preferred = -1
    refusing(brokers, 2, error)
    found = poll(brokers, client)
    assert (found.type, found.values, found.node, found.session, found.position) == (OK, (71,), 1, 0, 1)
    assert fetched_from(brokers) == [1, 2, 2, 1]
    brokers.values.append(72)
    assert poll(brokers, client).values == (72,)
    assert fetched_from(brokers)[4:] == [1]


def test_a_poll_that_is_sent_back_to_who_refused_it_fails_and_loses_nothing() -> None:
    brokers, client = racked(70)
    refusing(brokers, 2, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert told(poll(brokers, client)) == (FAIL, "offset_out_of_range")
    assert fetched_from(brokers) == [1, 2, 1]
    brokers.script = lambda node, request: None
    found = poll(brokers, client)
    assert (found.values, found.session, found.position) == ((70,), 0, 0)


def test_that_an_offset_is_out_of_range_is_for_the_leader_to_say() -> None:
    brokers, client = racked(70, 71)
    poll(brokers, client)
    brokers.run(client.invoke(op(SEEK, value=9)))
    assert told(poll(brokers, client)) == (FAIL, "offset_out_of_range")
    assert fetched_from(brokers) == [1, 2, 2, 1]
    found = poll(brokers, client)
    assert (found.values, found.session) == ((70, 71), 2)


def test_a_follower_that_is_gone_fails_a_poll_and_the_leader_gets_the_next() -> None:
    brokers, client = racked(70)
    poll(brokers, client)
    for stream in brokers.streams:
        if stream.node == 2:
            stream.lost("gone")
    brokers.unreachable = {2}
    brokers.preferred = -1
    failed_poll = poll(brokers, client)
    assert failed_poll.type == FAIL
    brokers.values.append(71)
    assert (poll(brokers, client).node, fetched_from(brokers)) == (1, [1, 2, 1])


def test_a_follower_that_nobody_knows_fails_the_poll() -> None:
    brokers, client = racked(70)
    brokers.preferred = 9
    assert told(poll(brokers, client)) == (FAIL, "preferred_replica_not_known")


def test_only_the_leader_sends_anybody_anywhere() -> None:
    brokers, client = racked(70)

    def sending_on(node: int, request: Any) -> Any:
        if node == 2 and request.api_key == ApiKey.FETCH:
            return answered(PartitionData(0, 0, 1, preferred_read_replica=1, records=batch(0, [70])))
        return None

    brokers.script = sending_on
    assert (poll(brokers, client).values, fetched_from(brokers)) == ((70,), [1, 2])


def test_a_poll_that_was_sent_away_is_not_the_leaders_any_more() -> None:
    """The same answer names its topic-partition again, with records: these are not delivered and not skipped."""
    brokers, client = racked(70, 71)
    away = PartitionData(0, 0, 2, preferred_read_replica=2, records=b"")
    again = PartitionData(0, 0, 2, records=batch(0, [80, 81]))

    def twice(node: int, request: Any) -> Any:
        return answered(away, again) if (node, request.api_key) == (1, ApiKey.FETCH) else None

    brokers.script = twice
    found = poll(brokers, client)
    assert (found.values, found.node, found.position) == ((70, 71), 2, 0)


def test_a_follower_that_came_to_lead_is_the_leader() -> None:
    brokers, client = racked(70)
    poll(brokers, client)
    brokers.leader, brokers.epoch, brokers.preferred = 2, 4, -1
    refusals = {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.FENCED_LEADER_EPOCH}
    brokers.script = lambda node, request: failed(refusals[node]) if request.api_key == ApiKey.FETCH else None
    assert told(poll(brokers, client)) == (FAIL, "not_leader_or_follower")
    brokers.script = lambda node, request: None
    brokers.values.append(71)
    found = poll(brokers, client)
    assert (found.values, found.node) == ((71,), 2)
    (_, last) = brokers.of(ApiKey.FETCH)[-1]
    assert last.topics[0].partitions[0].current_leader_epoch == 4


def test_a_whole_reader_goes_to_the_follower_too() -> None:
    brokers, client = racked(70, 71, whole=True)
    found = poll(brokers, client)
    assert (found.values, found.node) == ((70, 71), 2)


@pytest.mark.parametrize("f", [LIST_OFFSETS, DELETE_RECORDS])
def test_the_node_of_an_answer_is_who_gave_it(f: str) -> None:
    """A poll has learnt of another leader while it was under way."""
    brokers = Brokers()
    brokers.values = list(range(70, 90))
    client = brokers.client("consumer", partitions=2)
    poll(brokers, client)

    def script(node: int, request: Any) -> Any:
        if node == 1 and request.api_key == ApiKey.FETCH:
            brokers.leader, brokers.epoch = 2, 4
            return failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if node == 1 and request.api_key in (ApiKey.LIST_OFFSETS, ApiKey.DELETE_RECORDS):
            response = listed(20) if request.api_key == ApiKey.LIST_OFFSETS else deleted(0)
            return response, 2_000_000
        return None

    brokers.script = script

    async def course() -> Completion:
        asking = asyncio.ensure_future(client.invoke(op(f, 1)))
        await client.invoke(op(POLL))
        await client.invoke(op(LIST_OFFSETS, 2))
        return await asking

    completion = brokers.run(course())
    assert (completion.type, completion.node) == (OK, 1)


# --- against our own brokers -----------------------------------------------------------------------------------


def broker_n_in_rack_n(place: SimPlace, places: tuple[SimPlace, ...], shape: ClusterShape) -> dict[str, str]:
    properties = properties_of(place, places, shape)
    if place.is_broker:
        properties |= {"broker.rack": f"r{place.node_id}", "replica.selector.class": RACK_AWARE_SELECTOR}
    return properties


def test_simulated_consumers_read_everything_from_replicas_in_their_racks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("squall.harness.simulation.world.world.properties_of", broker_n_in_rack_n)
    world = SimWorld(ClusterShape(), "racks", topics={"events": 1})
    world.start()
    factory = NativeFactory(world.connector(), tuple(world.bootstrap()), world)
    brokers = [place.node_id for place in world.places if place.is_broker]
    plan = ClientPlan(1, "producer", (0,), (("events", 0),))
    producer = factory.client(plan)
    consumers = [factory.client(replace(plan, client=10 + node, role="consumer", rack=f"r{node}")) for node in brokers]

    async def course() -> list[list[Completion]]:
        controllers = [(place.address, place.port) for place in world.places if place.is_controller]
        admin = NativeAdmin(world.connector(), world.bootstrap(), controllers)
        await create_topics(admin, (Topic("events", 1, 3),), 60)
        await await_whole(admin, 3, {"events": 1}, 60)
        seen: list[list[Completion]] = [[] for _ in brokers]
        for value in range(70, 80):
            assert (await producer.invoke(op(SEND, 0, value))).type == OK
            for consumer, polls in zip(consumers, seen, strict=True):
                polls.append(await consumer.invoke(op(POLL)))
        return seen

    try:
        seen = world.kernel.run_until_complete(course())
    finally:
        world.switch_off()
    assert [[value for one in polls for value in one.values] for polls in seen] == [list(range(70, 80))] * 3
    assert [{one.node for one in polls} for polls in seen] == [{node} for node in brokers]
