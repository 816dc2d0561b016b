"""Forward requests that only the active controller can serve, and pass its response back (MD-09).

Messages are decoded and encoded again in the version that the nodes use among themselves. What older versions express
differently is converted to the newest form first. Without a response within the request's timeout the outcome is
unknown: REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from squall.nodes.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from squall.nodes.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from squall.nodes.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToActiveController
from squall.nodes.protocol.schema import Message

TIMED_OUT = "The active controller did not answer in time; whether it was done is unknown."
TIMEOUT_MIN_MS = 1000
DEFAULTS = -1
UNSAFE_DOWNGRADE = 3


class Forwarding:
    """Forwards requests to the active controller. The broker drains `requests`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.requests: list[OutboundRequest] = []
        self._config = config
        self._creating: dict[str, None] = {}

    def handle(self, now: int, request: ServerRequest) -> None:
        message = _newest(request.body)
        timeout_ms = max(getattr(message, "timeout_ms", 0), TIMEOUT_MIN_MS)
        timeout = min(timeout_ms * 1000, self._config.request_timeout)

        def complete(now: int, response: Message | None) -> None:
            if not request.closed:
                request.respond(_unknown(message) if response is None else response)

        self.requests.append(OutboundRequest(ToActiveController(), message, timeout, complete))

    def create_missing(self, names: list[str]) -> None:
        """Create topics that a client requested, with the cluster's defaults; the client will retry."""
        fresh = [name for name in names if name not in self._creating]
        if not fresh:
            return
        self._creating.update(dict.fromkeys(fresh))
        message = CreateTopicsRequest(
            topics=[CreatableTopic(name, DEFAULTS, DEFAULTS) for name in fresh], timeout_ms=TIMEOUT_MIN_MS
        )

        def complete(now: int, response: Message | None) -> None:
            for name in fresh:
                self._creating.pop(name, None)

        self.requests.append(OutboundRequest(ToActiveController(), message, self._config.request_timeout, complete))


def _newest(message: Message) -> Message:
    """Convert to the form of the newest version: before version 6 DeleteTopics named its topics in another field."""
    if isinstance(message, DeleteTopicsRequest) and message.topic_names:
        states = [DeleteTopicState(name=name) for name in message.topic_names]
        return DeleteTopicsRequest(topics=states, timeout_ms=message.timeout_ms)
    if isinstance(message, UpdateFeaturesRequest):
        for update in message.feature_updates:
            update.upgrade_type = UNSAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    return message


def _unknown(message: Message) -> Message:
    error = int(ErrorCode.REQUEST_TIMED_OUT)
    if isinstance(message, CreateTopicsRequest):
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(one.name, error_code=error, error_message=TIMED_OUT) for one in message.topics]
        )
    if isinstance(message, DeleteTopicsRequest):
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(one.name, one.topic_id, error, TIMED_OUT) for one in message.topics]
        )
    if isinstance(message, CreatePartitionsRequest):
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(one.name, error, TIMED_OUT) for one in message.topics]
        )
    if isinstance(message, IncrementalAlterConfigsRequest):
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(error, TIMED_OUT, one.resource_type, one.resource_name)
                for one in message.resources
            ]
        )
    if isinstance(message, UpdateFeaturesRequest):
        return UpdateFeaturesResponse(error_code=error, error_message=TIMED_OUT)
    if isinstance(message, ElectLeadersRequest):
        return ElectLeadersResponse(error_code=error)
    if isinstance(message, AlterPartitionReassignmentsRequest):
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=TIMED_OUT)
    if isinstance(message, ListPartitionReassignmentsRequest):
        return ListPartitionReassignmentsResponse(error_code=error, error_message=TIMED_OUT)
    if isinstance(message, UnregisterBrokerRequest):
        return UnregisterBrokerResponse(error_code=error, error_message=TIMED_OUT)
    assert isinstance(message, DescribeQuorumRequest)
    return DescribeQuorumResponse(error_code=error)
