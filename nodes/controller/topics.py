"""CreateTopics, DeleteTopics, CreatePartitions: each topic of a request is independent, all records are one batch.

A refusal becomes that topic's error; the other topics proceed. Topics created earlier in the same request count as
existing, and count against the same limit of records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.controller.placement import place
from squall.nodes.metadata.image import MetadataImage, Topic
from squall.nodes.metadata.records import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    TOPIC_RESOURCE,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from squall.nodes.metadata.topic_configs import TOPIC_CONFIGS, InvalidConfig, check_config, effective_value
from squall.nodes.ports import Rng
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from squall.nodes.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
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
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, ZERO_ID, format_id, random_id

UNASSIGNED_DIRECTORY = ZERO_ID
NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
DEFAULT_CONFIG, TOPIC_CONFIG, BROKER_CONFIG, CLUSTER_CONFIG = 5, 1, 4, 3
"""The source of a setting's value in a CreateTopics response."""


class TopicControl:
    """Decides over topics. Works on the image it receives and changes nothing itself."""

    def __init__(self, config: ControllerConfig, rng: Rng) -> None:
        self._config = config
        self._rng = rng

    # -- create -----------------------------------------------------------------------------------------------

    def create(self, image: MetadataImage, request: CreateTopicsRequest) -> Outcome:
        """Create each topic that can be created. A request for too many topic-partitions is refused whole."""
        names = [topic.name for topic in request.topics]
        too_many = self._too_many(request.topics)
        records: list[Message] = []
        results = []
        created: set[str] = set()
        for asked in request.topics:
            if asked.name in created:
                continue
            created.add(asked.name)
            try:
                if too_many is not None:
                    raise too_many
                if names.count(asked.name) > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                result, made = self._create_one(image, asked, [name for name in names if name != asked.name])
                self._check_size(records, made)
                records += made
            except Refused as refused:
                result = CreatableTopicResult(
                    name=asked.name, error_code=refused.error, error_message=refused.message, configs=None
                )
            results.append(result)
        return Outcome(CreateTopicsResponse(topics=results), () if request.validate_only else records)

    def _too_many(self, topics: Sequence[CreatableTopic]) -> Refused | None:
        """Why the request is refused as a whole, as Kafka does before it looks at any topic."""
        partitions = sum(len(one.assignments) or max(self._partitions(one), 0) for one in topics)
        if partitions <= self._config.records_max:
            return None
        return Refused(
            ErrorCode.POLICY_VIOLATION,
            f"{partitions} partitions at once; at most {self._config.records_max} can be created in one request.",
        )

    def _partitions(self, asked: CreatableTopic) -> int:
        return self._config.default_partitions if asked.num_partitions == -1 else asked.num_partitions

    def _check_size(self, records: Sequence[Message], more: Sequence[Message]) -> None:
        if len(records) + len(more) > self._config.records_max:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"more than {self._config.records_max} records in one request; ask for fewer partitions at a time",
            )

    def _create_one(
        self, image: MetadataImage, asked: CreatableTopic, others: Sequence[str]
    ) -> tuple[CreatableTopicResult, list[Message]]:
        _check_name(asked.name, [*image.topic_ids, *others])
        if asked.name in image.topic_ids:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{asked.name}' already exists.")
        settings = _checked_settings(asked)
        assignments = self._assignments(image, asked)
        topic_id = random_id(self._rng)
        records: list[Message] = [TopicRecord(name=asked.name, topic_id=topic_id)]
        for name, value in settings.items():
            records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=asked.name, name=name, value=value))
        for number, replicas in enumerate(assignments):
            records.append(_new_partition(image, topic_id, number, replicas))
        result = CreatableTopicResult(
            name=asked.name,
            topic_id=topic_id,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=self._described(image, settings),
        )
        return result, records

    def _assignments(self, image: MetadataImage, asked: CreatableTopic) -> list[tuple[int, ...]]:
        if asked.assignments:
            return _manual(image, asked)
        partitions = self._partitions(asked)
        factor = asked.replication_factor
        factor = self._config.default_replication_factor if factor == -1 else factor
        if partitions <= 0:
            raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1.")
        return self._placed(image, partitions, factor)

    def _placed(self, image: MetadataImage, partitions: int, factor: int) -> list[tuple[int, ...]]:
        if factor <= 0:
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1.")
        active = sorted(broker.id for broker in image.brokers.values() if broker.active)
        fenced = sorted(broker.id for broker in image.brokers.values() if not broker.active)
        if factor > len(active) + len(fenced):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {factor} cannot be reached because only "
                f"{len(active) + len(fenced)} broker(s) are registered.",
            )
        if not active:
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
        return place(active, fenced, partitions, factor, self._rng)

    def _described(self, image: MetadataImage, settings: dict[str, str]) -> list[CreatableTopicConfigs]:
        described = []
        of_cluster = image.config(BROKER_RESOURCE, CLUSTER_DEFAULT)
        for name, config in TOPIC_CONFIGS.items():
            source = DEFAULT_CONFIG
            if name in settings:
                source = TOPIC_CONFIG
            elif name in of_cluster:
                source = CLUSTER_CONFIG
            elif name in self._config.topic_defaults:
                source = BROKER_CONFIG
            value = effective_value({**of_cluster, **settings}, config.name, self._config.topic_defaults)
            described.append(CreatableTopicConfigs(name=name, value=value, config_source=source))
        return described

    # -- delete -----------------------------------------------------------------------------------------------

    def delete(self, image: MetadataImage, request: DeleteTopicsRequest) -> Outcome:
        asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
        records: list[Message] = []
        results = []
        named = Counter(_id_of(image, one) for one in asked)
        for one in asked:
            result = DeletableTopicResult(name=one.name, topic_id=one.topic_id)
            try:
                topic = self._deletable(image, one)
                if named[topic.id] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
                result.name, result.topic_id = topic.name, topic.id
                records.append(RemoveTopicRecord(topic_id=topic.id))
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            results.append(result)
        return Outcome(DeleteTopicsResponse(responses=results), records)

    def _deletable(self, image: MetadataImage, asked: DeleteTopicState) -> Topic:
        if not self._config.delete_topics:
            raise Refused(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        topic_id = bytes(asked.topic_id)
        if asked.name is not None and topic_id != ZERO_ID:
            raise Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if asked.name is not None:
            topic = image.topic(asked.name)
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            topic = image.topics.get(topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            raise Refused(missing, f"No topic {asked.name if asked.name is not None else format_id(topic_id)}.")
        return topic

    # -- more partitions --------------------------------------------------------------------------------------

    def create_partitions(self, image: MetadataImage, request: CreatePartitionsRequest) -> Outcome:
        names = [topic.name for topic in request.topics]
        records: list[Message] = []
        results = []
        for asked in request.topics:
            result = CreatePartitionsTopicResult(name=asked.name)
            try:
                if names.count(asked.name) > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                made = self._extend(image, asked)
                self._check_size(records, made)
                records += made
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            results.append(result)
        return Outcome(CreatePartitionsResponse(results=results), () if request.validate_only else records)

    def _extend(self, image: MetadataImage, asked: CreatePartitionsTopic) -> list[PartitionRecord]:
        topic = image.topic(asked.name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No topic {asked.name}.")
        current = len(topic.partitions)
        if asked.count <= current:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {asked.name} currently has {current} partition(s); {asked.count} would not be an increase.",
            )
        additional = asked.count - current
        if additional > self._config.records_max:
            raise Refused(ErrorCode.INVALID_PARTITIONS, f"{additional} new partitions at once are too many.")
        factor = len(topic.partitions[0].replicas)
        if asked.assignments is None:
            assignments = self._placed(image, additional, factor)
        else:
            assignments = [tuple(one.broker_ids) for one in asked.assignments]
            if len(assignments) != additional:
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{additional} new partition(s) but {len(assignments)} assignment(s).",
                )
            for replicas in assignments:
                _check_replicas(image, replicas, factor)
        return [
            _new_partition(image, topic.id, current + number, replicas) for number, replicas in enumerate(assignments)
        ]


def _id_of(image: MetadataImage, asked: DeleteTopicState) -> bytes | None:
    """The id of the topic that a deletion names, by name or by id; None for an unknown name."""
    return bytes(asked.topic_id) if asked.name is None else image.topic_ids.get(asked.name)


def _check_name(name: str, others: Sequence[str]) -> None:
    if NAME.fullmatch(name) is None or name in (".", ".."):
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name {name!r} is illegal: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', "
            "and neither '.' nor '..'.",
        )
    if name == METADATA_PARTITION.topic:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name {name} is reserved.")
    flattened = name.replace(".", "_")
    for other in others:
        if other != name and other.replace(".", "_") == flattened:
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with '{other}' in the names of metrics."
            )


def _checked_settings(asked: CreatableTopic) -> dict[str, str]:
    settings: dict[str, str] = {}
    for config in asked.configs:
        try:
            check_config(config.name, config.value)
        except InvalidConfig as invalid:
            raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid
        if config.value is not None:
            settings[config.name] = config.value
    return settings


def _manual(image: MetadataImage, asked: CreatableTopic) -> list[tuple[int, ...]]:
    if asked.num_partitions != -1:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "A manual assignment was specified, but the number of partitions is not -1."
        )
    if asked.replication_factor != -1:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "A manual assignment was specified, but the replication factor is not -1."
        )
    by_number = {one.partition_index: tuple(one.broker_ids) for one in asked.assignments}
    if sorted(by_number) != list(range(len(asked.assignments))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be numbered from 0 without gaps or repetition."
        )
    factor = len(by_number[0])
    for replicas in by_number.values():
        _check_replicas(image, replicas, factor)
    return [by_number[number] for number in range(len(by_number))]


def _check_replicas(image: MetadataImage, replicas: tuple[int, ...], factor: int) -> None:
    """Check a manual assignment: as many replicas as the others, all registered, none twice, one of them active."""
    problem = None
    if not replicas:
        problem = "it is empty"
    elif len(replicas) != factor:
        problem = f"it has {len(replicas)} replica(s), others have {factor}"
    elif len(frozenset(replicas)) != len(replicas):
        problem = "it names a broker twice"
    elif any(replica not in image.brokers for replica in replicas):
        problem = "it names a broker that is not registered"
    elif not any(image.brokers[replica].active for replica in replicas):
        problem = "all of its brokers are fenced"
    if problem is not None:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Assignment {list(replicas)}: {problem}.")


def _new_partition(image: MetadataImage, topic_id: bytes, number: int, replicas: tuple[int, ...]) -> PartitionRecord:
    """A new partition's record. All active replicas are in sync, since all logs are empty. The first of them leads."""
    isr = [replica for replica in replicas if image.brokers[replica].active]
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[UNASSIGNED_DIRECTORY] * len(replicas),
    )
