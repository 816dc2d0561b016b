"""CreateTopics, CreatePartitions, DeleteTopics, IncrementalAlterConfigs of a ZooKeeper-era controller.

The decisions are those of the quorum's controller (`controller.topics`, `controller.configs`): both take an image and
return records. Here an image is made of the context, and the records are carried out as writes of znodes. What they
cause is left to the watches of the same znodes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.configs import ConfigControl
from squall.nodes.controller.topics import TopicControl
from squall.nodes.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    TOPIC_RESOURCE,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from squall.nodes.ports import Rng
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_partitions import CreatePartitionsRequest
from squall.nodes.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest
from squall.nodes.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import ZERO_ID
from squall.nodes.zookeeper.controller.context import ControllerContext
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Code, Create, GetData, Operation, SessionResponse, SetData
from squall.nodes.zookeeper.znodes import (
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    DEFAULT_ENTITY,
    Assignment,
    TopicZnode,
    decode_config,
    deletion_path,
    encode_config,
    encode_config_change,
    encode_topic,
    topic_config_path,
    topic_path,
)

Respond = Generator[Sequence[Operation], list[SessionResponse], Message]
Steps = Generator[Sequence[Operation], list[SessionResponse], None]
Resource = tuple[int, str]


class TopicWrites:
    """See the module. Every method is a part of a procedure and returns the response."""

    def __init__(self, config: ControllerConfig, context: ControllerContext, store: StateStore, rng: Rng) -> None:
        self._context = context
        self._store = store
        self._topics = TopicControl(config, rng)
        self._configs = ConfigControl(config, PartitionChanges(config.topic_defaults))

    # -- topics ---------------------------------------------------------------------------------------------------

    def create(self, body: CreateTopicsRequest) -> Respond:
        outcome = self._topics.create(self._image({}), body)
        assert isinstance(outcome.response, CreateTopicsResponse)
        names: dict[bytes, str] = {}
        assignments: dict[str, dict[int, Assignment]] = {}
        settings: dict[str, dict[str, str]] = {}
        ids: dict[str, bytes] = {}
        for record in outcome.records:
            if isinstance(record, TopicRecord):
                names[record.topic_id], ids[record.name] = record.name, record.topic_id
                assignments[record.name], settings[record.name] = {}, {}
            elif isinstance(record, ConfigRecord) and record.value is not None:
                settings[record.resource_name][record.name] = record.value
            elif isinstance(record, PartitionRecord):
                assignments[names[record.topic_id]][record.partition_id] = Assignment(tuple(record.replicas))
        for name, own in settings.items():
            yield from self._set_config(topic_config_path(name), own)
        created = list(assignments)
        responses = yield from self._store.fenced(
            [Create(topic_path(name), encode_topic(TopicZnode(ids[name], assignments[name]))) for name in created]
        )
        refused = {name for name, one in zip(created, responses, strict=True) if one.code is not Code.OK}
        for result in outcome.response.topics:
            if result.name in refused:
                result.error_code = int(ErrorCode.TOPIC_ALREADY_EXISTS)
                result.error_message = f"Topic '{result.name}' already exists."
                result.configs = None
        return outcome.response

    def create_partitions(self, body: CreatePartitionsRequest) -> Respond:
        outcome = self._topics.create_partitions(self._image({}), body)
        names = {identity: name for name, identity in self._context.topic_ids.items()}
        more: dict[str, dict[int, Assignment]] = {}
        for record in outcome.records:
            if isinstance(record, PartitionRecord):
                more.setdefault(names[record.topic_id], {})[record.partition_id] = Assignment(tuple(record.replicas))
        yield from self._store.fenced(
            [
                SetData(
                    topic_path(name),
                    encode_topic(
                        TopicZnode(self._context.topic_ids[name], {**self._context.assignments[name], **added})
                    ),
                    self._context.topic_versions[name],
                )
                for name, added in more.items()
            ]
        )
        return outcome.response

    def delete(self, body: DeleteTopicsRequest) -> Respond:
        outcome = self._topics.delete(self._image({}), body)
        names = {identity: name for name, identity in self._context.topic_ids.items()}
        yield from self._store.fenced(
            [
                Create(deletion_path(names[record.topic_id]))
                for record in outcome.records
                if isinstance(record, RemoveTopicRecord)
            ]
        )
        return outcome.response

    # -- settings -------------------------------------------------------------------------------------------------

    def alter_configs(self, body: IncrementalAlterConfigsRequest) -> Respond:
        asked = [(one.resource_type, one.resource_name) for one in body.resources]
        paths = {key: path for key in asked if (path := _config_path(key)) is not None}
        settings: dict[Resource, dict[str, str]] = {}
        if paths:
            responses = yield [GetData(path) for path in paths.values()]
            for (key, path), one in zip(paths.items(), responses, strict=True):
                settings[key] = decode_config(path, one.data) if one.ok else {}
        outcome = self._configs.alter(self._image(settings), body)
        altered: dict[Resource, None] = {}
        for record in outcome.records:
            if isinstance(record, ConfigRecord):
                key = (record.resource_type, record.resource_name)
                altered[key] = None
                own = settings.setdefault(key, {})
                if record.value is None:
                    own.pop(record.name, None)
                else:
                    own[record.name] = record.value
        for key in altered:
            yield from self._set_config(paths[key], settings[key])
            yield from self._store.fenced([Create(f"{CONFIG_CHANGES}/config_change_", _change_of(key), False, True)])
        return outcome.response

    def _set_config(self, path: str, settings: Mapping[str, str]) -> Steps:
        data = encode_config(settings)
        (found,) = yield from self._store.fenced([Create(path, data)])
        if found.code is Code.NODE_EXISTS:
            yield from self._store.fenced([SetData(path, data)])

    # -- the image ------------------------------------------------------------------------------------------------

    def _image(self, settings: Mapping[Resource, dict[str, str]]) -> MetadataImage:
        """The context as an image."""
        context, image = self._context, MetadataImage()
        for one in context.brokers.values():
            image.brokers[one.id] = BrokerRegistration(
                one.id, one.epoch, ZERO_ID, one.endpoints, one.rack, False, one.id in context.shutting_down
            )
        for name, assignments in context.assignments.items():
            topic = image.topics[context.topic_ids[name]] = Topic(name, context.topic_ids[name])
            image.topic_ids[name] = topic.id
            for number, assignment in assignments.items():
                state = context.states.get((name, number))
                isr, leader = ((), -1) if state is None else (state.isr, state.leader)
                topic.put(number, PartitionRegistration(assignment.replicas, isr, leader, 0, 0))
        image.configs = {key: dict(own) for key, own in settings.items() if own}
        return image


def _config_path(resource: Resource) -> str | None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        return topic_config_path(name)
    return f"{BROKER_CONFIGS}/{DEFAULT_ENTITY}" if resource == (BROKER_RESOURCE, CLUSTER_DEFAULT) else None


def _change_of(resource: Resource) -> bytes:
    kind, name = resource
    return encode_config_change(f"topics/{name}" if kind == TOPIC_RESOURCE else f"brokers/{DEFAULT_ENTITY}")
