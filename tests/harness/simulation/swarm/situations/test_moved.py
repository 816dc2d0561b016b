"""A voter that starts again on another port: what is drawn, and what nodes make of it (KIP-853, PP-02)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from pydantic import TypeAdapter

from squall.harness.hosts.system import CONTROLLER_PORT
from squall.harness.simulation.swarm.drawn.drawn_fault import SwarmFault
from squall.harness.simulation.swarm.drawn.kinds import MOVE_VOTER, UNITS
from squall.harness.simulation.swarm.situations.moved import draw_moves, port_of
from squall.harness.simulation.swarm.swarm import Swarm
from squall.harness.simulation.world.voter_places import leading, misplaced_voter
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis.entries import NemesisEntry
from squall.nodes.node.node import Node
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.voter_changes import VoterChanges

CONTROLLERS = ("c1", "c2", "c3")
LOAD = 16.0
DRAWN = {seed: draw_moves(seed, CONTROLLERS, LOAD) for seed in range(200)}
SECOND = 1_000_000


def test_a_seed_draws_the_same_again_and_most_draw_nothing() -> None:
    assert {seed: draw_moves(seed, CONTROLLERS, LOAD) for seed in DRAWN} == DRAWN
    assert 100 < sum(not drawn for drawn in DRAWN.values()) < 180


def test_one_voter_moves_time_after_time_and_is_back_before_the_load_ends() -> None:
    """What nodes begin from leads to the other voters."""
    for drawn in filter(None, DRAWN.values()):
        assert len({fault.hosts for fault in drawn}) == 1
        assert all(one.latest_end < other.at for one, other in pairwise(drawn))
        assert drawn[-1].latest_end < LOAD
        assert {fault.kind for fault in drawn} <= set(UNITS)
    assert {len(drawn) for drawn in DRAWN.values()} >= {1, 2, 3}
    assert {fault.hosts[0] for drawn in DRAWN.values() for fault in drawn} == set(CONTROLLERS)


def test_a_quorum_of_one_or_two_has_no_voter_that_moves() -> None:
    assert not any(draw_moves(seed, ("c1",), LOAD) or draw_moves(seed, ("c1", "c2"), LOAD) for seed in range(50))


def test_the_port_is_another_than_the_usual_one() -> None:
    ports = {port_of(fault, CONTROLLER_PORT) for drawn in DRAWN.values() for fault in drawn}
    assert CONTROLLER_PORT not in ports and len(ports) > 5 and max(ports) < 1 << 16


def test_a_move_can_be_written_as_an_entry_of_a_suite() -> None:
    entry: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
    for fault in (fault for drawn in DRAWN.values() for fault in drawn):
        entry.validate_python({**fault.written(), "at": fault.at, "for": fault.duration})


# -- nodes ------------------------------------------------------------------------------------------------------------


def nodes_of(world: SimWorld) -> dict[str, Node | None]:
    return {name: one.node if isinstance(one.node, Node) else None for name, one in world.processes.items()}


def moved(host: str) -> tuple[SimWorld, SwarmFault]:
    """A quorum with its voters in the log, two seconds after one of them has moved."""
    world = SimWorld(ClusterShape(brokers=1, dynamic_voters=True), seed=3, topics={})
    world.start()
    world.kernel.run_for(3 * SECOND)
    fault = SwarmFault(0.0, MOVE_VOTER, (host,), 0.5, 0.5)
    asyncio.set_event_loop(world.kernel)
    try:
        world.kernel.run_until_complete(Swarm(world, [fault]).run())
    finally:
        asyncio.set_event_loop(None)
    world.kernel.run_for(2 * SECOND)
    return world, fault


@pytest.mark.parametrize("host", CONTROLLERS)
def test_the_metadata_log_has_the_place_of_a_voter_that_moved_whether_it_led_or_not(host: str) -> None:
    world, fault = moved(host)
    [node_id] = [place.node_id for place in world.places if place.name == host]
    leader = leading(nodes_of(world))
    assert leader is not None
    voter = leader.raft.voters.find(node_id)
    assert voter is not None and voter.port == port_of(fault, CONTROLLER_PORT)
    assert misplaced_voter(nodes_of(world)) is None
    world.switch_off()


def test_a_voter_whose_place_is_not_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """RECOVER."""

    def drop(self: VoterChanges, now: int, request: ServerRequest) -> None:
        return None

    monkeypatch.setattr(VoterChanges, "handle_update", drop)
    monkeypatch.setattr(VoterChanges, "_write_own_place", lambda self, now: None)
    world, fault = moved("c2")
    told = misplaced_voter(nodes_of(world))
    port = port_of(fault, CONTROLLER_PORT)
    assert told == f"c2 listens at 10.0.0.102:{port}, and not at 10.0.0.102:{CONTROLLER_PORT}"
    world.switch_off()
