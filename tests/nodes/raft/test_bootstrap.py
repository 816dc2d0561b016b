"""A quorum of dynamic voters from nothing: who begins, how others find it, and what moves (KIP-853, QC-01, rule 40).

Here requests travel to addresses, not to ids, so that a node which does not know an address cannot be lucky.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToVoter
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.bootstrap import BOOTSTRAP, write_bootstrap_snapshot
from squall.nodes.raft.config import RaftConfig, Voter
from squall.nodes.raft.core import Core
from squall.nodes.raft.replication import FetchService
from squall.nodes.raft.voters import VoterSet
from tests.nodes.raft.conftest import Cluster, Member


def directory(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Formatted(Cluster):
    """Controllers 1.. and brokers 101.., of which the first `initial` controllers are formatted as voters."""

    def __init__(self, *, controllers: int, initial: int, observers: int = 0, seed: object = 0) -> None:
        super().__init__(voters=controllers, observers=observers, seed=seed, dynamic=True)
        self.hosts = {number: f"host{number}" for number in self.members}
        self.bootstrap = tuple((f"host{number}", 9093) for number in self.controllers)
        voters = VoterSet(tuple(Voter(one, f"host{one}", 9093, directory(one)) for one in range(1, initial + 1)))
        for number in range(1, initial + 1):
            place = self.config(number).directory
            write_bootstrap_snapshot(
                self.members[number].disk, place, voters, node_id=number, now_ms=1_000, trace=NullTrace()
            )

    def config(self, node_id: int) -> RaftConfig:
        return RaftConfig(
            node_id, "cluster", directory(node_id), (),
            dynamic_voters=True, bootstrap=self.bootstrap,
            address=(self.hosts[node_id], 9093), is_voter=node_id in self.controllers,
        )  # fmt: skip

    def send(self, sender: Member, outbound: OutboundRequest) -> None:
        assert isinstance(outbound.destination, ToVoter)
        address = sender.up.voter_address(outbound.destination.id)
        found = [number for number, host in self.hosts.items() if address == (host, 9093)]
        if found:
            super().send(sender, replace(outbound, destination=ToVoter(found[0])))
        else:
            self.at(self.now + outbound.timeout, lambda: self._unheard(sender, outbound))

    def _unheard(self, sender: Member, outbound: OutboundRequest) -> None:
        if sender.replica is not None:
            sender.guard(lambda: outbound.complete(self.now, None))
            sender.iterate()

    def ask(self, member: Member, body: Message) -> ServerRequest:
        request = ServerRequest(ApiKey(body.API_KEY), 0, body, "test", "CONTROLLER", 7, self.now)
        handle = {ApiKey.ADD_RAFT_VOTER: member.up.handle_add_raft_voter}
        handle[ApiKey.REMOVE_RAFT_VOTER] = member.up.handle_remove_raft_voter
        handle[ApiKey(body.API_KEY)](self.now, request)
        member.iterate()
        return request

    def change(self, body: Message) -> None:
        """Have the leader change the voters, and wait for the answer that it is committed."""
        request = self.ask(self.elect(), body)
        self.run_until(lambda: request.answer is not None)
        assert request.answer is not None
        response: Any = request.answer.response
        assert response.error_code == ErrorCode.NONE, response

    def all_know(self, *voters: int) -> bool:
        return all(one.up.voters.ids == voters for one in self.members.values() if one.replica is not None)


def add(number: int) -> AddRaftVoterRequest:
    listeners = [Listener(name="CONTROLLER", host=f"host{number}", port=9093)]
    return AddRaftVoterRequest("cluster", 5_000, number, directory(number), listeners)


def remove(number: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest("cluster", number, directory(number))


def test_the_first_leader_writes_the_bootstrap_voters_into_the_log() -> None:
    cluster = Formatted(controllers=1, initial=1).start()
    leader = cluster.elect()
    assert leader.up.snapshots.latest == BOOTSTRAP
    assert leader.up.voters.voters == (Voter(1, "host1", 9093, directory(1)),)
    assert [batch.is_control for batch in leader.up.committed(0)] == [True, True], "leader change, then voters"


def test_others_find_it_by_bootstrap_servers_and_fetch_records_only() -> None:
    cluster = Formatted(controllers=3, initial=1, observers=1).start()
    cluster.elect()
    cluster.run_until(lambda: all(one.up.high_watermark >= 3 for one in cluster.members.values()))
    assert cluster.all_know(1)
    for number in (2, 3, 101):
        assert cluster.members[number].up.snapshots.latest is None
        assert not cluster.members[number].up.votes


def test_controllers_without_voters_to_begin_with_wait_and_never_stand() -> None:
    cluster = Formatted(controllers=3, initial=0).start()
    cluster.run(20_000)
    assert {member.up.epoch for member in cluster.members.values()} == {0}


def test_three_initial_controllers_elect_and_know_their_directories() -> None:
    cluster = Formatted(controllers=3, initial=3).start()
    leader = cluster.elect()
    cluster.run(5_000)
    assert leader.up.voters.voters == tuple(Voter(one, f"host{one}", 9093, directory(one)) for one in (1, 2, 3))
    assert len(cluster.trace.named("voters")) == 3, "nobody had anything to correct"


@pytest.mark.parametrize("seed", range(5))
def test_one_grows_to_three_and_shrinks_to_another_one(seed: int) -> None:
    cluster = Formatted(controllers=3, initial=1, observers=1, seed=seed).start()
    cluster.elect()
    cluster.run(3_000)
    cluster.change(add(2))
    cluster.change(add(3))
    cluster.run(1_000)
    assert cluster.all_know(1, 2, 3)
    cluster.change(remove(1))
    cluster.run(5_000)
    cluster.change(remove(cluster.elect().id))
    cluster.run(5_000)
    last = cluster.elect()
    assert cluster.all_know(last.id)
    offset = cluster.append(b"still serving")
    cluster.run_until(lambda: all(one.up.high_watermark > offset for one in cluster.members.values()))


def test_a_controller_with_a_lost_disk_is_an_observer_and_can_be_voted_in() -> None:
    """With voters from the configuration it would take itself for the voter it was."""
    cluster = Formatted(controllers=3, initial=3).start()
    leader = cluster.elect()
    lost = next(one for one in cluster.members.values() if one is not leader)
    lost.lose_power()
    for name in lost.disk.list(""):
        lost.disk.remove_tree(name)
    healthy = cluster.config

    def formatted_anew(node_id: int) -> RaftConfig:
        return replace(healthy(node_id), directory_id=directory(50)) if node_id == lost.id else healthy(node_id)

    cluster.config = formatted_anew  # type: ignore[method-assign]
    lost.start()
    assert lost.up.voters.ids == ()
    cluster.run_until(lambda: lost.up.high_watermark == leader.up.high_watermark)
    assert lost.up.voters.ids == (1, 2, 3)
    assert not lost.up.votes, "the voter of that id had another directory"
    cluster.change(remove(lost.id))
    body = add(lost.id)
    body.voter_directory_id = directory(50)
    cluster.change(body)
    cluster.run(1_000)
    assert lost.up.votes


@pytest.mark.parametrize("moved", ["the leader", "a follower"])
def test_a_voter_that_comes_back_at_another_address_is_found_and_the_log_says_so(moved: str) -> None:
    cluster = Formatted(controllers=3, initial=3, observers=1).start()
    leader = cluster.elect()
    cluster.run(2_000)
    one = leader if moved == "the leader" else next(m for m in cluster.members.values() if m is not leader)
    one.stop()
    cluster.run(3_000)
    cluster.hosts[one.id] = "elsewhere"
    one.start()

    def written_everywhere() -> bool:
        found = [member.up.voters.find(one.id) for member in cluster.members.values()]
        return all(voter is not None and voter.host == "elsewhere" for voter in found)

    cluster.run_until(written_everywhere)


def test_a_single_voter_that_moved_writes_its_new_address_down_itself() -> None:
    cluster = Formatted(controllers=1, initial=1).start()
    only = cluster.elect()
    only.stop()
    cluster.hosts[1] = "elsewhere"
    only.start()
    cluster.run_until(lambda: only.up.voters.voters == (Voter(1, "elsewhere", 9093, directory(1)),))


def test_a_leader_that_moved_is_followed_before_the_log_says_where_it_is() -> None:
    """BeginQuorumEpoch and answers tell the leader's endpoint; the record that does so comes from that leader."""
    cluster = Formatted(controllers=3, initial=3, observers=1).start()
    first = cluster.elect()
    cluster.run(2_000)
    for member in cluster.members.values():
        member.stop()
    cluster.hosts |= {one: f"new{one}" for one in (1, 2, 3)}
    # Two voters keep their address, so that the third can be elected by them and must then be found.
    cluster.hosts |= {one.id: f"host{one.id}" for one in list(cluster.members.values())[:3] if one is not first}
    first.start()
    for member in cluster.members.values():
        if member is not first:
            member.start()
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader.up.high_watermark > cluster.epoch_start)
    cluster.run_until(
        lambda: all(one.up.voters.find(first.id).host != f"host{first.id}" for one in cluster.members.values())
    )


def test_votes_and_announcements_name_the_directory_of_whom_they_mean() -> None:
    """A voter with another directory than the one that is asked refuses (INVALID_VOTER_KEY)."""
    cluster = Formatted(controllers=3, initial=3)
    asked: list[tuple[int, bytes]] = []

    original = cluster.send

    def watched(sender: Member, outbound: OutboundRequest) -> None:
        body: Any = outbound.message
        if body.API_KEY in (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH):
            asked.append((body.voter_id, body.topics[0].partitions[0].voter_directory_id))
        original(sender, outbound)

    cluster.send = watched  # type: ignore[method-assign]
    cluster.start()
    cluster.elect()
    assert asked
    assert all(known == directory(voter) for voter, known in asked)


@pytest.mark.parametrize("name", ["observer-counted", "removed-voter-counted"])
def test_mutants_count_who_has_no_vote(name: str) -> None:
    """The healthy leader of the same quorum commits nothing, for all that the one without a vote fetches (QC-16)."""

    def committed(mutants: Mutants) -> int:
        cluster = Formatted(controllers=4, initial=4, observers=0).start()
        cluster.elect()
        cluster.run(2_000)
        leader = cluster.elect()
        removed = next(one.id for one in cluster.members.values() if one is not leader)
        cluster.change(remove(removed))
        cluster.run(2_000)
        leader.up._service = FetchService(with_mutants(leader, mutants))
        for other in cluster.members:
            if other not in (leader.id, removed):
                cluster.cut(leader.id, other)
        offset = cluster.append(b"a majority of the voters lacks it")
        cluster.run(500)
        return int(leader.up.high_watermark > offset)

    assert committed(HEALTHY) == 0
    assert committed(Mutants(frozenset({name}))) == 1


def with_mutants(leader: Member, mutants: Mutants) -> Core:
    core = leader.up._core
    core.mutants = mutants
    return core
