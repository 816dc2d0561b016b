"""Refuse groups and transactions, which this cluster does not serve, at once and with an error that states why.

A client that receives "not available", or no response, retries until its own deadline, often for ever. What ends each
attempt was tried with the clients themselves (docs/interoperability.md):

    FindCoordinator, group        This broker. librdkafka requests it even for a consumer that assigns its
                                  topic-partitions itself, and offers LZ4 only to brokers that serve this API. An error
                                  would reach such a consumer although nothing is wrong. The APIs of groups refuse
                                  what a group needs.
    FindCoordinator, transaction  CLUSTER_AUTHORIZATION_FAILED with a message. Of the codes that librdkafka does not
                                  retry it is the one for which Java shows the broker's message.
    FindCoordinator, share group  INVALID_REQUEST with a message.
    JoinGroup                     UNSUPPORTED_VERSION. It is served only for aiokafka, which takes an API that is not
                                  advertised for a dead coordinator, and searches for another.
    OffsetFetch                   No offset is committed for any group, and the response says so: a consumer with a
                                  group id that assigns its topic-partitions begins where `auto.offset.reset` says.
    InitProducerId, transactional TRANSACTIONAL_ID_AUTHORIZATION_FAILED, final for every client (`producer_ids.py`).

All other APIs of groups and transactions are not advertised, which every client reports as such at once.
"""

from __future__ import annotations

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from squall.nodes.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from squall.nodes.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from squall.nodes.protocol.requests.session import ServerRequest

GROUP, TRANSACTION = 0, 1
NONE_COMMITTED = -1
NO_TRANSACTIONS = "Transactions are not served by this cluster; leave transactional.id out to write without them."
NO_SUCH_COORDINATOR = "Key type {} is not served by this cluster, which knows consumer groups (0) only."


class CoordinatorsApi:
    """Responds to FindCoordinator, JoinGroup and OffsetFetch."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image

    def find_coordinator(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, FindCoordinatorRequest)
        keys = body.coordinator_keys or [body.key]
        answers = [self._coordinator(key, body.key_type, request.listener) for key in keys]
        first = answers[0]
        request.respond(
            FindCoordinatorResponse(
                coordinators=answers,
                error_code=first.error_code,
                error_message=first.error_message,
                node_id=first.node_id,
                host=first.host,
                port=first.port,
            )
        )

    def _coordinator(self, key: str, kind: int, listener: str) -> Coordinator:
        if kind == TRANSACTION:
            return Coordinator(key, -1, "", -1, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), NO_TRANSACTIONS)
        if kind != GROUP:
            message = NO_SUCH_COORDINATOR.format(kind)
            return Coordinator(key, -1, "", -1, int(ErrorCode.INVALID_REQUEST), message)
        registration = self._image.brokers.get(self._config.node_id)
        endpoint = None if registration is None or registration.fenced else registration.endpoint(listener)
        if endpoint is None:
            return Coordinator(key, -1, "", -1, int(ErrorCode.COORDINATOR_NOT_AVAILABLE), "This broker is fenced.")
        return Coordinator(key, self._config.node_id, endpoint.host, endpoint.port)

    def join_group(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, JoinGroupRequest)
        request.respond(JoinGroupResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), member_id=body.member_id))

    def offset_fetch(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, OffsetFetchRequest)
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(number, NONE_COMMITTED, metadata="")
                    for number in topic.partition_indexes
                ],
            )
            for topic in body.topics or ()
        ]
        groups = [
            OffsetFetchResponseGroup(
                group.group_id,
                [
                    OffsetFetchResponseTopics(
                        topic.name,
                        [
                            OffsetFetchResponsePartitions(number, NONE_COMMITTED, metadata="")
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in body.groups
        ]
        request.respond(OffsetFetchResponse(topics=topics, groups=groups))
