"""Metadata, DescribeCluster, DescribeConfigs: report the image's content in the clients' terms.

Fenced brokers are left out (BL-06), so that no client waits for one; a topic-partition whose leader in the image is
fenced is reported as LEADER_NOT_AVAILABLE. With a quorum clients are given this broker as the controller: they cannot
reach the real one's listener, and any broker forwards to it. A ZooKeeper-era controller is a broker, and it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.metadata.image import BrokerRegistration, Endpoint, MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE
from squall.nodes.metadata.topic_configs import CLUSTER_CONFIGS
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from squall.nodes.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.topic_partition import ZERO_ID

NO_LEADER = -1
NO_CONTROLLER = -1
SOURCE_TOPIC, SOURCE_CLUSTER, SOURCE_STATIC_BROKER, SOURCE_DEFAULT = 1, 3, 4, 5
NAMES_BY_ID_SINCE = 12
"""The first version of Metadata that allows requests by topic id; before, each response needs a name (KIP-516)."""
BROKERS, CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster (KIP-919)."""


class MetadataApi:
    """Responds to Metadata, DescribeCluster and DescribeConfigs.

    Each request builds its own response; the image is small and such requests are rare.
    """

    def __init__(self, config: BrokerConfig, image: MetadataImage, known_controller: Callable[[], int | None]) -> None:
        """`known_controller` returns the controller to name, -1 if there is none, None for this broker."""
        self._config = config
        self._image = image
        self._known_controller = known_controller

    def unfenced(self, listener: str) -> list[tuple[BrokerRegistration, Endpoint]]:
        """Brokers that a client of this listener may use."""
        return [(broker, endpoint) for broker, endpoint in self._registered(listener) if not broker.fenced]

    def _registered(self, listener: str) -> Iterator[tuple[BrokerRegistration, Endpoint]]:
        for broker_id in sorted(self._image.brokers):
            broker = self._image.brokers[broker_id]
            endpoint = broker.endpoint(listener)
            if endpoint is not None:
                yield broker, endpoint

    # -- Metadata -------------------------------------------------------------------------------------------------

    def metadata(self, now: int, request: ServerRequest) -> list[str]:
        """Respond, and return the names of topics that were requested, may be created, and do not exist."""
        body = request.body
        assert isinstance(body, MetadataRequest)
        brokers = self.unfenced(request.listener)
        topics, missing = self._topics(request.api_version, body, [broker.id for broker, _ in brokers])
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(one.id, at.host, at.port, one.rack) for one, at in brokers],
            cluster_id=self._config.cluster_id,
            controller_id=self._controller(brokers),
            topics=topics,
        )
        request.respond(response)
        return missing if body.allow_auto_topic_creation else []

    def _controller(self, brokers: list[tuple[BrokerRegistration, Endpoint]]) -> int:
        ids = [broker.id for broker, _ in brokers]
        known = self._known_controller()
        if known is not None:
            return known if known in ids else NO_CONTROLLER
        own = self._config.node_id
        return own if own in ids else ids[0] if ids else NO_CONTROLLER

    def _topics(
        self, version: int, body: MetadataRequest, alive: list[int]
    ) -> tuple[list[MetadataResponseTopic], list[str]]:
        if body.topics is None or (version == 0 and not body.topics):
            return [self._topic(topic, alive) for topic in self._image.topics.values()], []
        answers, missing = [], []
        for asked in body.topics:
            by_id = asked.topic_id != ZERO_ID
            if by_id and version < NAMES_BY_ID_SINCE:
                refused = int(ErrorCode.INVALID_REQUEST)
                answers.append(MetadataResponseTopic(refused, asked.name or "", asked.topic_id))
                continue
            topic = self._image.topics.get(asked.topic_id) if by_id else self._image.topic(asked.name or "")
            if topic is not None:
                answers.append(self._topic(topic, alive))
                continue
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not by_id and not is_topic_name(asked.name or ""):
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif not by_id:
                missing.append(asked.name or "")
            answers.append(MetadataResponseTopic(int(error), None if by_id else asked.name or "", asked.topic_id))
        return answers, missing

    def _topic(self, topic: Topic, alive: list[int]) -> MetadataResponseTopic:
        partitions = [self._partition(number, topic.partitions[number], alive) for number in sorted(topic.partitions)]
        return MetadataResponseTopic(0, topic.name, topic.id, False, partitions)

    def _partition(
        self, number: int, registration: PartitionRegistration, alive: list[int]
    ) -> MetadataResponsePartition:
        led = registration.leader in alive
        return MetadataResponsePartition(
            error_code=0 if led else int(ErrorCode.LEADER_NOT_AVAILABLE),
            partition_index=number,
            leader_id=registration.leader if led else NO_LEADER,
            leader_epoch=registration.leader_epoch,
            replica_nodes=list(registration.replicas),
            isr_nodes=list(registration.isr),
            offline_replicas=[replica for replica in registration.replicas if replica not in alive],
        )

    # -- the cluster ----------------------------------------------------------------------------------------------

    def describe_cluster(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, DescribeClusterRequest)
        if body.endpoint_type != BROKERS:
            request.respond(wrong_endpoint_type(body.endpoint_type, BROKERS))
            return
        unfenced = self.unfenced(request.listener)
        brokers = [DescribeClusterBroker(one.id, at.host, at.port, one.rack) for one, at in unfenced]
        if body.include_fenced_brokers:
            brokers += [
                DescribeClusterBroker(one.id, at.host, at.port, one.rack, is_fenced=True)
                for one, at in self._registered(request.listener)
                if one.fenced
            ]
        request.respond(
            DescribeClusterResponse(
                endpoint_type=BROKERS,
                cluster_id=self._config.cluster_id,
                controller_id=self._controller(unfenced),
                brokers=brokers,
            )
        )

    # -- DescribeConfigs ------------------------------------------------------------------------------------------

    def describe_configs(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, DescribeConfigsRequest)
        request.respond(DescribeConfigsResponse(results=[self._describe(resource) for resource in body.resources]))

    def _describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        kind, name = resource.resource_type, resource.resource_name
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        if kind == TOPIC_RESOURCE:
            if self._image.topic(name) is None:
                result.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                result.error_message = f"Topic {name} does not exist."
                return result
            set_here = self._image.config(TOPIC_RESOURCE, name)
            described = {key: (value, SOURCE_DEFAULT) for key, value in self._config.topics.described().items()}
            described |= self._of_cluster()
            described |= {key: (value, SOURCE_TOPIC) for key, value in set_here.items()}
        elif kind == BROKER_RESOURCE and name == str(self._config.node_id):
            described = {key: (value, SOURCE_STATIC_BROKER) for key, value in self._config.described}
            described |= self._of_cluster()
        elif kind == BROKER_RESOURCE and name == CLUSTER_DEFAULT:
            described = self._of_cluster()
        else:
            result.error_code = int(ErrorCode.INVALID_REQUEST)
            result.error_message = f"This broker ({self._config.node_id}) describes topics and itself, not {name!r}."
            return result
        wanted = resource.configuration_keys
        alterable = CLUSTER_CONFIGS if kind == BROKER_RESOURCE else described
        result.configs = [
            DescribeConfigsResourceResult(
                name=key,
                value=value,
                read_only=key not in alterable,
                config_source=source,
            )
            for key, (value, source) in sorted(described.items())
            if not wanted or key in wanted
        ]
        return result

    def _of_cluster(self) -> dict[str, tuple[str, int]]:
        """The defaults of the cluster, which are in no node's configuration."""
        found = self._image.config(BROKER_RESOURCE, CLUSTER_DEFAULT)
        return {key: (value, SOURCE_CLUSTER) for key, value in found.items()}


def wrong_endpoint_type(asked: int, served: int) -> DescribeClusterResponse:
    """The refusal of DescribeCluster for the endpoints of the other plane (KIP-919)."""
    known = asked in (BROKERS, CONTROLLERS)
    return DescribeClusterResponse(
        error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        error_message=f"This listener describes endpoints of type {served}, not {asked} (1: brokers, 2: controllers).",
        endpoint_type=served,
    )


def is_topic_name(name: str) -> bool:
    """Kafka's rule: 1 to 249 letters, digits, `.`, `_` and `-`, but neither `.` nor `..`."""
    plain = name.replace(".", "a").replace("_", "a").replace("-", "a")
    return 0 < len(name) <= 249 and name not in (".", "..") and plain.isascii() and plain.isalnum()
