"""Changes of the metadata quorum's voters (KIP-853): what a controller must refuse, and what changes nothing.

Refused are a change for another cluster; a voter without an id or a listener, or that is one already; a voter that
moves to no listener, or in another epoch, or that is none; and a change while another one is under way. All requests
are answered.
"""

from __future__ import annotations

import asyncio
from functools import partial

from squall.harness.conformance.client import (
    NOBODY,
    STRANGE_CLUSTER,
    UNKNOWN_ID,
    Address,
    ConformanceClient,
    expect_error,
)
from squall.harness.conformance.quorum_description import VOTERS_SINCE, described_quorum, metadata_log_of
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey, add_raft_voter, update_raft_voter
from squall.nodes.protocol.messages.describe_quorum import PartitionDataResponse
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

NOT_HERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNSUPPORTED_VERSION)
"""Of a controller that does not lead, and of a quorum whose voters are configured."""
TIMEOUT_MS = 1000
SERVED, ONLY, LATER = (0, 1), (1, 1), (2, 2)
"""Ranges of the version of the quorum, kraft.version, that a voter supports; 1 is that of a quorum that changes."""

VoterChange = add_raft_voter.AddRaftVoterRequest | update_raft_voter.UpdateRaftVoterRequest
Changed = add_raft_voter.AddRaftVoterResponse | update_raft_voter.UpdateRaftVoterResponse


async def strange(client: ConformanceClient, controller: Address, cluster: str | None) -> None:
    """A voter that is none cannot be removed, and nothing is removed or added for another cluster."""
    if not await client.serves(controller, ApiKey.REMOVE_RAFT_VOTER):
        return
    for named, errors in (
        (STRANGE_CLUSTER, (ErrorCode.INCONSISTENT_CLUSTER_ID, *NOT_HERE)),
        (cluster, (ErrorCode.VOTER_NOT_FOUND, *NOT_HERE)),
        (None, (ErrorCode.VOTER_NOT_FOUND, *NOT_HERE)),  # who names no cluster means this one
    ):
        removal = RemoveRaftVoterRequest(named, NOBODY, UNKNOWN_ID)
        removed = await client.ask(controller, removal, RemoveRaftVoterResponse)
        expect_error(controller, "to remove a voter that is none", removed.error_code, *errors)
    listener = add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 1)
    addition = add_raft_voter.AddRaftVoterRequest(STRANGE_CLUSTER, TIMEOUT_MS, NOBODY, UNKNOWN_ID, [listener])
    added = await client.ask(controller, addition, add_raft_voter.AddRaftVoterResponse)
    errors = (ErrorCode.INCONSISTENT_CLUSTER_ID, *NOT_HERE)
    expect_error(controller, "to add a voter of another cluster", added.error_code, *errors)


async def impossible(client: ConformanceClient, controller: Address, cluster: str | None, voter: int) -> None:
    """A voter needs an id and a listener, and no two have the same id."""
    if not await client.serves(controller, ApiKey.ADD_RAFT_VOTER):
        return
    listener = add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 1)
    for name, number, listeners, error in (
        ("without an id", -1, [listener], ErrorCode.INVALID_REQUEST),
        ("without a listener", NOBODY, [], ErrorCode.INVALID_REQUEST),
        ("that is one already", voter, [listener], ErrorCode.DUPLICATE_VOTER),
    ):
        addition = add_raft_voter.AddRaftVoterRequest(cluster, TIMEOUT_MS, number, UNKNOWN_ID, listeners)
        await client.settled(
            partial(
                _is_answered,
                client,
                controller,
                f"to add a voter {name}",
                addition,
                add_raft_voter.AddRaftVoterResponse,
                error,
            )
        )


async def at_once(client: ConformanceClient, controller: Address, cluster: str | None) -> None:
    """Two voters that never catch up are added at once. Each is refused: one at once, one when its time is over."""
    if not await client.serves(controller, ApiKey.ADD_RAFT_VOTER):
        return
    listener = add_raft_voter.Listener("CONTROLLER", "127.0.0.1", 1)
    others = [client.on_other_connections() for _ in range(2)]
    try:
        answers = await asyncio.gather(
            *(
                one.ask(
                    controller,
                    add_raft_voter.AddRaftVoterRequest(cluster, TIMEOUT_MS, NOBODY + number, UNKNOWN_ID, [listener]),
                    add_raft_voter.AddRaftVoterResponse,
                )
                for number, one in enumerate(others)
            )
        )
    finally:
        for one in others:
            await one.close()
    for answer in answers:
        expect_error(
            controller, "to add a voter that never catches up", answer.error_code,
            ErrorCode.REQUEST_TIMED_OUT, *NOT_HERE,
        )  # fmt: skip


async def impossible_places(
    client: ConformanceClient, controller: Address, cluster: str | None, quorum: PartitionDataResponse
) -> None:
    """Only a voter says where it is, with a listener, to the leader of the current epoch (KIP-853).

    It supports the quorum's version.
    """
    if not await client.serves(controller, ApiKey.UPDATE_RAFT_VOTER):
        return
    voter, epoch = quorum.current_voters[0], quorum.leader_epoch
    known, stranger = (voter.replica_id, voter.replica_directory_id), (NOBODY, UNKNOWN_ID)
    listener = update_raft_voter.Listener("CONTROLLER", "127.0.0.1", 1)
    for name, of, at, (number, directory), listeners, versions, error in (
        ("without a listener", cluster, epoch, known, [], SERVED, ErrorCode.INVALID_REQUEST),
        ("that is none", cluster, epoch, stranger, [listener], SERVED, ErrorCode.VOTER_NOT_FOUND),
        ("in an epoch that is over", cluster, epoch - 1, known, [listener], SERVED, ErrorCode.FENCED_LEADER_EPOCH),
        ("in an epoch to come", cluster, epoch + 1, known, [listener], SERVED, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("of another cluster", STRANGE_CLUSTER, epoch, known, [listener], SERVED, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ("of later versions only", cluster, epoch, known, [listener], LATER, ErrorCode.INVALID_REQUEST),
    ):
        supported = update_raft_voter.KRaftVersionFeature(*versions)
        place = update_raft_voter.UpdateRaftVoterRequest(of, at, number, directory, listeners, supported)
        await client.settled(
            partial(
                _is_answered,
                client,
                controller,
                f"to move a voter {name}",
                place,
                update_raft_voter.UpdateRaftVoterResponse,
                error,
            )
        )


async def same_place(client: ConformanceClient, controller: Address, cluster: str | None, broker: Address) -> None:
    """A voter that says again where it is changes nothing, and is answered. Only our own nodes are asked."""
    if not client.knows_all or not await client.serves(controller, ApiKey.UPDATE_RAFT_VOTER):
        return
    response = await described_quorum(client, broker, since=VOTERS_SINCE)
    quorum = metadata_log_of(response)
    voter = quorum.current_voters[0]
    place = next(one.listeners[0] for one in response.nodes if one.node_id == voter.replica_id)
    listener = update_raft_voter.Listener(place.name, place.host, place.port)
    for versions in (SERVED, ONLY):
        update = update_raft_voter.UpdateRaftVoterRequest(
            cluster,
            quorum.leader_epoch,
            voter.replica_id,
            voter.replica_directory_id,
            [listener],
            update_raft_voter.KRaftVersionFeature(*versions),
        )
        name, answer = f"to leave a voter of versions {versions} where it is", update_raft_voter.UpdateRaftVoterResponse
        await client.settled(partial(_is_answered, client, controller, name, update, answer, ErrorCode.NONE))


async def _is_answered(
    client: ConformanceClient,
    controller: Address,
    name: str,
    change: VoterChange,
    answer: type[Changed],
    error: ErrorCode,
) -> None:
    """While another change of the voters is not committed, a leader may refuse all with REQUEST_TIMED_OUT."""
    told = await client.ask(controller, change, answer)
    expect_error(controller, name, told.error_code, error, *NOT_HERE)
