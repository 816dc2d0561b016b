"""NOT_CONTROLLER in the shape of each API's response: some have one error, some one per topic."""

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
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import ServerRequest

NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER
MESSAGE = "This is not the active controller."


def not_controller(request: ServerRequest) -> Message:
    """The answer of a controller that is not active, or stopped being so before the outcome was certain."""
    body = request.body
    match request.api_key:
        case ApiKey.BROKER_REGISTRATION:
            return BrokerRegistrationResponse(error_code=NOT_CONTROLLER)
        case ApiKey.BROKER_HEARTBEAT:
            return BrokerHeartbeatResponse(error_code=NOT_CONTROLLER)
        case ApiKey.ALTER_PARTITION:
            return AlterPartitionResponse(error_code=NOT_CONTROLLER)
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            return AllocateProducerIdsResponse(error_code=NOT_CONTROLLER)
        case ApiKey.CREATE_TOPICS:
            return _create_topics(cast(CreateTopicsRequest, body))
        case ApiKey.DELETE_TOPICS:
            return _delete_topics(cast(DeleteTopicsRequest, body))
        case ApiKey.CREATE_PARTITIONS:
            return _create_partitions(cast(CreatePartitionsRequest, body))
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return _alter_configs(cast(IncrementalAlterConfigsRequest, body))
        case ApiKey.UPDATE_FEATURES:
            return UpdateFeaturesResponse(error_code=NOT_CONTROLLER, error_message=MESSAGE)
        case ApiKey.ELECT_LEADERS:
            return ElectLeadersResponse(error_code=NOT_CONTROLLER)
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return AlterPartitionReassignmentsResponse(error_code=NOT_CONTROLLER, error_message=MESSAGE)
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return ListPartitionReassignmentsResponse(error_code=NOT_CONTROLLER, error_message=MESSAGE)
        case ApiKey.UNREGISTER_BROKER:
            return UnregisterBrokerResponse(error_code=NOT_CONTROLLER, error_message=MESSAGE)
    raise ValueError(f"API key {request.api_key} is not a controller's")


def _create_topics(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=NOT_CONTROLLER, error_message=MESSAGE, configs=None)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=NOT_CONTROLLER, error_message=MESSAGE)
            for one in asked
        ]
    )


def _create_partitions(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=NOT_CONTROLLER, error_message=MESSAGE)
            for topic in request.topics
        ]
    )


def _alter_configs(request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(NOT_CONTROLLER, MESSAGE, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )
