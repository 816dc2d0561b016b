"""DescribeQuorum: the metadata quorum as a broker or a controller describes it."""

from __future__ import annotations

from squall.harness.conformance.client import Address, ConformanceClient, expect
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
)
from squall.workloads.clients.native.admin import METADATA_TOPIC

VOTERS_SINCE = 2
"""The version of DescribeQuorum that names the directories and the listeners of voters."""


async def described_quorum(client: ConformanceClient, address: Address, since: int = 0) -> DescribeQuorumResponse:
    """Ask a node for the quorum, in a version from `since` on, until there is no error. Raises NotConforming."""
    request = DescribeQuorumRequest([TopicDataRequest(METADATA_TOPIC, [PartitionDataRequest(0)])])

    async def attempt() -> DescribeQuorumResponse:
        response = await client.ask(address, request, DescribeQuorumResponse, since=since)
        expect(address, "the error of DescribeQuorum", response.error_code, 0)
        expect(address, "the error of the metadata log", metadata_log_of(response).error_code, 0)
        return response

    return await client.settled(attempt)


def metadata_log_of(response: DescribeQuorumResponse) -> PartitionDataResponse:
    """Return what a response says of the metadata log: leader, epoch, high watermark and replicas."""
    return response.topics[0].partitions[0]
