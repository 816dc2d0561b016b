"""Rare but legal things in simulation: drawn by the seed, counted, traced; and what happens in the world itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from squall.harness.scenario.buggify_places import PLACES
from squall.harness.simulation.world.buggify import SeededBuggify, WorldBuggify, draw_chance, draw_places
from squall.harness.simulation.world.disk import SimDisk
from squall.harness.simulation.world.streams import Streams
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nodes.node.channels import Connections
from tests.harness.simulation.world.test_network import SECOND, Bench

SEEDS = range(200)


def certain(*places: str) -> tuple[SeededBuggify, WorldBuggify]:
    """Return decisions that are yes at each visit of these places."""
    world = WorldBuggify(1, places, Streams(1))
    return SeededBuggify(world, "host", dict.fromkeys(places, 1.0), Streams(1), lambda name: None), world


# -- drawing -------------------------------------------------------------------------------------------------------


def test_each_run_has_some_places_and_each_place_some_runs() -> None:
    drawn = [draw_places(seed) for seed in SEEDS]
    assert draw_places(7) == draw_places(7)
    assert {name for places in drawn for name in places} == set(PLACES)
    assert all(len(places) < len(PLACES) for places in drawn)
    share = sum(len(places) for places in drawn) / (len(SEEDS) * len(PLACES))
    assert 0.2 < share < 0.3


def test_the_chance_of_a_visit_is_at_most_what_the_catalogue_says() -> None:
    for name, place in PLACES.items():
        chances = [draw_chance(seed, name) for seed in SEEDS]
        assert place.chance / 10 <= min(chances) < max(chances) <= place.chance


def decisions(places: Sequence[str], asked: str, visits: int = 300, between: str = "") -> list[bool]:
    buggify = WorldBuggify(3, places, Streams(3)).of("b1", lambda name: None)
    answers = []
    for _ in range(visits):
        if between:
            buggify.happens(between)
        answers.append(buggify.happens(asked))
    return answers


def test_another_place_shifts_no_draw_of_the_others() -> None:
    alone = decisions(["fetch-empty"], "fetch-empty")
    assert any(alone) and not all(alone)
    assert decisions(["fetch-part", "fetch-empty"], "fetch-empty", between="fetch-part") == alone


def test_users_of_one_place_draw_apart() -> None:
    world = WorldBuggify(3, ["fetch-one-batch"], Streams(3))
    users = [world.of(name, lambda place: None) for name in ("b1", "b2")]
    first, second = ([user.happens("fetch-one-batch") for _ in range(300)] for user in users)
    assert first != second
    assert world.counts == {"fetch-one-batch": sum(first) + sum(second)}


def test_an_inactive_place_and_a_quiet_world_let_nothing_happen() -> None:
    buggify, world = certain("fetch-empty")
    assert buggify.happens("fetch-empty") and not buggify.happens("fetch-part")
    world.quiet = True
    assert not buggify.happens("fetch-empty")
    assert world.counts == {"fetch-empty": 1}


def test_an_unknown_place_is_refused() -> None:
    with pytest.raises(KeyError):
        WorldBuggify(1, ["fetch-nothing"], Streams(1))


class Recorder:
    """A trace that keeps what happened where."""

    def __init__(self) -> None:
        self.happened: list[tuple[object, object]] = []

    def event(self, name: str, **fields: object) -> None:
        if name == "buggify":
            self.happened.append((fields["node"], fields["place"]))


def test_a_cluster_counts_and_traces_each_happening() -> None:
    trace = Recorder()
    places = ("early-election-timer", "metadata-fetch-one-batch", "turn-late", "fsync-slow", "frame-trickles")
    world = SimWorld(ClusterShape(buggify=places), 5, topics={}, trace=trace)
    world.start()
    world.kernel.run_until_complete(asyncio.sleep(60))  # of virtual time: long enough for each place
    world.switch_off()
    counted = {place: sum(one == place for _, one in trace.happened) for place in places}
    assert world.buggify.counts == counted and min(counted.values()) > 0
    assert {user for user, place in trace.happened if place == "frame-trickles"} == {"network"}
    assert {user for user, place in trace.happened if place == "turn-late"} <= {one.node_id for one in world.places}


# -- the world -----------------------------------------------------------------------------------------------------


def test_frames_that_trickle_arrive_late_and_in_order() -> None:
    bench = Bench()

    async def main() -> tuple[int, list[bytes]]:
        stream = await bench.connect()
        bench.network.buggify, _ = certain("frame-trickles")
        began = bench.kernel.now
        await stream.send(bytes(1_000))
        await stream.send(b"next")
        answers = [await stream.receive() for _ in range(2)]
        return bench.kernel.now - began, answers

    taken, answers = bench.kernel.run_until_complete(main())
    assert answers == [bytes(1_000), b"next"]
    assert taken > 2 * 1_000 * 5


@pytest.mark.parametrize(("idle", "reset"), [(0.01, 0), (0.2, 1)])
def test_only_an_idle_connection_is_reset(idle: float, reset: int) -> None:
    bench = Bench()

    async def main() -> None:
        stream = await bench.connect()
        await stream.send(b"one")
        await stream.receive()
        bench.network.buggify, _ = certain("idle-connection-reset")
        await asyncio.sleep(idle)  # of virtual time: the connection is idle for as long
        await stream.send(b"two")
        if not reset:
            assert await stream.receive() == b"two"
            return
        with pytest.raises(ConnectionError):
            await stream.receive()

    bench.kernel.run_until_complete(main())
    assert bench.network.resets == reset


def test_a_refused_connection_is_made_at_the_next_try() -> None:
    bench = Bench()

    async def main() -> None:
        bench.network.buggify, world = certain("connection-refused")
        with pytest.raises(ConnectionError):
            await bench.connect()
        world.quiet = True
        stream = await bench.connect()
        await stream.send(b"one")
        assert await stream.receive() == b"one"

    bench.kernel.run_until_complete(main())


def test_a_slow_fsync_costs_time_and_makes_all_durable() -> None:
    disk = SimDisk(Random(1))
    disk.buggify, _ = certain("fsync-slow")
    file = disk.open("a", create=True)
    file.append(b"1234")
    disk.take_cost()
    file.sync()
    assert 5_000 <= disk.take_cost() <= 80_000 + SECOND // 10
    assert disk.unsynced_bytes == 0


@pytest.mark.parametrize("back", [False, True])
def test_what_was_written_back_survives_a_power_loss(back: bool) -> None:
    """Legal either way: without a sync nothing is promised."""
    disk = SimDisk(Random(1))
    disk.open("a", create=True)
    disk.sync_directory("")
    if back:
        disk.buggify, _ = certain("written-back")
    disk.open("a").append(b"1234")
    disk.lose_power("all")
    assert disk.open("a").read(0, 10) == (b"1234" if back else b"")


def test_late_turns_delay_a_process_that_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.harness.simulation.world.buggify.draw_chance", lambda seed, name: 1.0)
    served_at = []
    for active in ((), ("turn-late",)):
        world = SimWorld(ClusterShape(controllers=1, brokers=1, buggify=active), 5, topics={})
        world.start()
        world.kernel.run_until_complete(_served(world))
        served_at.append(world.kernel.now)
        world.switch_off()
    assert served_at[1] > served_at[0]


async def _served(world: SimWorld) -> None:
    while (node := world.processes["b1"].node) is None or node.broker is None or not node.broker.is_serving:
        await asyncio.sleep(0.001)


def test_a_peer_that_takes_no_responses_is_told_of_and_takes_them_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.harness.simulation.world.buggify.draw_chance", lambda seed, name: 1.0)
    told: list[tuple[int, bool]] = []
    held: dict[int, int] = {}
    stalled, holds = Connections.stalled, Connections.host_holds

    def note_stalled(self: Connections, identity: int, is_stalled: bool) -> None:
        told.append((identity, is_stalled))
        stalled(self, identity, is_stalled)

    def note_held(self: Connections, identity: int, size: int) -> None:
        held[identity] = size
        holds(self, identity, size)

    monkeypatch.setattr(Connections, "stalled", note_stalled)
    monkeypatch.setattr(Connections, "host_holds", note_held)
    world = SimWorld(ClusterShape(controllers=1, brokers=1, buggify=("responses-not-taken",)), 5, topics={})
    world.start()
    world.kernel.run_until_complete(_served(world))
    assert any(held.values()) and {now for _, now in told} == {True, False}
    for identity in held:
        states = [now for one, now in told if one == identity]
        assert states == [True, False] * (len(states) // 2) + [True] * (len(states) % 2), "told once of each"
    world.buggify.quiet = True
    world.kernel.run_until_complete(asyncio.sleep(0.25))  # of virtual time: more than a peer ever waits
    assert not any(held.values()) and len(told) % 2 == 0
    world.switch_off()
