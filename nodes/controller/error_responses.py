"""Error responses of a controller that does not lead, in the form of each API: one error, or one per topic.

NOT_CONTROLLER      nothing was changed: another controller may serve the request, and `node.links` retries there.
REQUEST_TIMED_OUT   records of the request were written and may yet be committed: its outcome is unknown (DP-09 for
                    administration). It must not be retried blindly: a retried DeleteTopics by name deletes a topic that
                    was created under that name since. Kafka's controller answers NOT_CONTROLLER here too; clients of
                    Kafka retry that, and report a time-out to their caller.

Requests of brokers themselves are fenced by epochs or harmless when retried (`REPEATABLE`), and always get the first.
"""

from __future__ import annotations

from typing import cast

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from squall.nodes.protocol.messages.alter_partition import AlterPartitionResponse
from squall.nodes.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationResponse
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from squall.nodes.protocol.messages.create_topics import (
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
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersResponse
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerResponse
from squall.nodes.protocol.messages.update_features import UpdateFeaturesResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message

REPEATABLE = (
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)
"""APIs of brokers.

Incarnation id, broker epoch and partition epoch identify a retry; a second block of producer ids is only wasted.
"""


def not_controller(request: ServerRequest) -> Message:
    """The response of a controller that is not active and has changed nothing for this request."""
    return _refusal(request, ErrorCode.NOT_CONTROLLER, "This is not the active controller.")


def outcome_unknown(request: ServerRequest) -> Message:
    """The response of a controller that stopped being active after it had written records for this request."""
    if request.api_key in REPEATABLE:
        return not_controller(request)
    return _refusal(
        request,
        ErrorCode.REQUEST_TIMED_OUT,
        "The controller was deposed before this was committed; whether it is done is unknown.",
    )


def _refusal(request: ServerRequest, error: ErrorCode, message: str) -> Message:
    body = request.body
    match request.api_key:
        case ApiKey.BROKER_REGISTRATION:
            return BrokerRegistrationResponse(error_code=error)
        case ApiKey.BROKER_HEARTBEAT:
            return BrokerHeartbeatResponse(error_code=error)
        case ApiKey.ALTER_PARTITION:
            return AlterPartitionResponse(error_code=error)
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            return AllocateProducerIdsResponse(error_code=error)
        case ApiKey.CREATE_TOPICS:
            return _create_topics(cast(CreateTopicsRequest, body), error, message)
        case ApiKey.DELETE_TOPICS:
            return _delete_topics(cast(DeleteTopicsRequest, body), error, message)
        case ApiKey.CREATE_PARTITIONS:
            return _create_partitions(cast(CreatePartitionsRequest, body), error, message)
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return _alter_configs(cast(IncrementalAlterConfigsRequest, body), error, message)
        case ApiKey.UPDATE_FEATURES:
            return UpdateFeaturesResponse(error_code=error, error_message=message)
        case ApiKey.ELECT_LEADERS:
            return ElectLeadersResponse(error_code=error)
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return AlterPartitionReassignmentsResponse(error_code=error, error_message=message)
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return ListPartitionReassignmentsResponse(error_code=error, error_message=message)
        case ApiKey.UNREGISTER_BROKER:
            return UnregisterBrokerResponse(error_code=error, error_message=message)
    raise ValueError(f"API key {request.api_key} is not a controller's")


def _create_topics(request: CreateTopicsRequest, error: ErrorCode, message: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error, error_message=message, configs=None)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: ErrorCode, message: str) -> DeleteTopicsResponse:
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=error, error_message=message)
            for one in asked
        ]
    )


def _create_partitions(request: CreatePartitionsRequest, error: ErrorCode, message: str) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
            for topic in request.topics
        ]
    )


def _alter_configs(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error, message, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )
