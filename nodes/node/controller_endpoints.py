"""DescribeCluster on a controller's listener: the quorum's voters and where they listen (KIP-919).

Admin clients with `bootstrap.controllers` begin with it, and send requests for the active controller to the node that
it names. Brokers describe the endpoints of brokers.
"""

from __future__ import annotations

from squall.nodes.broker.requests.metadata_api import CONTROLLERS, wrong_endpoint_type
from squall.nodes.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.replica import RaftReplica

NONE_ACTIVE = -1


class ControllerEndpoints:
    """See the module."""

    def __init__(self, cluster_id: str, raft: RaftReplica) -> None:
        self._cluster_id = cluster_id
        self._raft = raft

    def describe(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, DescribeClusterRequest)
        if body.endpoint_type != CONTROLLERS:
            request.respond(wrong_endpoint_type(body.endpoint_type, CONTROLLERS))
            return
        leader, _ = self._raft.leader_and_epoch
        described = []
        for voter in self._raft.voters.voters:
            address = self._raft.voter_address(voter.id)
            if address is not None:
                described.append(DescribeClusterBroker(voter.id, *address))
        known = leader is not None and any(one.broker_id == leader for one in described)
        request.respond(
            DescribeClusterResponse(
                endpoint_type=CONTROLLERS,
                cluster_id=self._cluster_id,
                controller_id=leader if known and leader is not None else NONE_ACTIVE,
                brokers=described,
            )
        )
