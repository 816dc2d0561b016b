"""IncrementalAlterConfigs: settings of topics, and the cluster's defaults for them (EL-06, KIP-339).

A topic may later get every setting that it may get at its creation, by the same table (`metadata.topic_configs`). The
cluster's default, resource type broker with an empty name, exists for the settings by which the controller itself
decides: min ISR and unclean election. Settings of single brokers are in their configuration files.

Replication throttles (KIP-73) are not supported: setting one is refused, by its name. Removing one is granted, since
there is none; `kafka-reassign-partitions --verify` and `--cancel` end by doing so on every broker and topic concerned.

The same batch holds the settings and the changes of topic-partitions that follow (`changes.settings_changed`). It must
not be split, so more records than fit one batch are refused.

While eligible leader replicas are enabled, the cluster's min ISR is itself a record, written when they are switched on,
and cannot be unset: were it each node's own configuration, a leader and the controller could differ on whether a high
watermark may advance, on which eligibility depends. Kafka does the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import BROKER_RESOURCE, CLUSTER_DEFAULT, TOPIC_RESOURCE, ConfigRecord
from squall.nodes.metadata.topic_configs import CLUSTER_CONFIGS, MIN_ISR, TOPIC_CONFIGS, InvalidConfig, check_config
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.schema import Message

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_ID_DIGITS = 10
"""The most digits that the id of a broker has."""
_THROTTLES = {
    BROKER_RESOURCE: (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    TOPIC_RESOURCE: ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
}
Resource = tuple[int, str]


class ConfigControl:
    """Decides over settings. Works on the image it receives and changes nothing itself."""

    def __init__(self, config: ControllerConfig, changes: PartitionChanges) -> None:
        self._config = config
        self._changes = changes

    def alter(self, image: MetadataImage, request: IncrementalAlterConfigsRequest) -> Outcome:
        asked = [(one.resource_type, one.resource_name) for one in request.resources]
        records: list[Message] = []
        responses = []
        altered: dict[Resource, Mapping[str, str]] = {}
        for resource in request.resources:
            key = (resource.resource_type, resource.resource_name)
            answer = AlterConfigsResourceResponse(resource_type=key[0], resource_name=key[1])
            responses.append(answer)
            try:
                if asked.count(key) > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                _check_resource(image, resource)
                settings = _altered(image, resource)
                own = _config_records(image, key, settings)
                self._check_size(len(records) + len(own) + self._changes.count_of_changes(image, {key: settings}))
                altered[key] = settings
                records += own
            except Refused as refused:
                answer.error_code, answer.error_message = refused.error, refused.message
        response = IncrementalAlterConfigsResponse(responses=responses)
        if request.validate_only:
            return Outcome(response)
        return Outcome(response, [*records, *self._changes.settings_changed(image, altered)])

    def _check_size(self, size: int) -> None:
        if size > self._config.records_max:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"more than {self._config.records_max} records in one request; alter fewer topics at a time",
            )


def safe_min_isr(image: MetadataImage, topic_defaults: Mapping[str, str]) -> list[Message]:
    """The cluster's min ISR as a record unless one exists: all nodes must use the same value (see the module)."""
    if MIN_ISR in image.config(BROKER_RESOURCE, CLUSTER_DEFAULT):
        return []
    value = topic_defaults.get(MIN_ISR, TOPIC_CONFIGS[MIN_ISR].default)
    return [ConfigRecord(BROKER_RESOURCE, CLUSTER_DEFAULT, MIN_ISR, value)]


def _check_resource(image: MetadataImage, resource: AlterConfigsResource) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE:
        if image.topic(name) is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return
    if kind == BROKER_RESOURCE and (name == CLUSTER_DEFAULT or _only_throttles(image, resource)):
        return
    if kind == BROKER_RESOURCE and _is_broker(image, name):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Settings of a single broker are those of its configuration file; broker {name} cannot be given "
            f"{', '.join(one.name for one in resource.configs)} while it runs.",
        )
    raise Refused(
        ErrorCode.INVALID_REQUEST,
        f"Resource type {kind} name {name!r} cannot be altered; topics ({TOPIC_RESOURCE}) and the default of all "
        f"brokers ({BROKER_RESOURCE} with an empty name) can.",
    )


def _only_throttles(image: MetadataImage, resource: AlterConfigsResource) -> bool:
    """Whether the request only sets or removes throttles of a registered broker; `_altered` refuses setting them."""
    known = _is_broker(image, resource.resource_name)
    return known and all(one.name in _THROTTLES[BROKER_RESOURCE] for one in resource.configs)


def _is_broker(image: MetadataImage, name: str) -> bool:
    """Whether a resource's name is the id of a registered broker.

    A name is of any length and in any script: `int` refuses digits such as '²', and numbers of over 4,300 digits.
    """
    return name.isdecimal() and len(name) <= _ID_DIGITS and int(name) in image.brokers


def _altered(image: MetadataImage, resource: AlterConfigsResource) -> dict[str, str]:
    """The settings of a resource after all operations, applied in order."""
    names = [one.name for one in resource.configs]
    settings = dict(image.config(resource.resource_type, resource.resource_name))
    for operation in resource.configs:
        if names.count(operation.name) > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{operation.name} is given more than once.")
        if operation.name in _THROTTLES[resource.resource_type]:
            _check_unthrottled(operation)
            continue
        _check_known(resource.resource_type, operation.name)
        if operation.config_operation == DELETE:
            _check_deletable(image, resource.resource_type, operation.name)
            settings.pop(operation.name, None)
        else:
            settings[operation.name] = _new_value(settings, operation)
    return settings


def _check_unthrottled(operation: AlterableConfig) -> None:
    if operation.config_operation != DELETE:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"{operation.name} cannot be set: replication is not throttled by this cluster. Reassign without a "
            f"throttle, a few topic-partitions at a time.",
        )


def _check_known(kind: int, name: str) -> None:
    if kind == BROKER_RESOURCE and name not in CLUSTER_CONFIGS:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"{name} has no default in the cluster; {' and '.join(CLUSTER_CONFIGS)} have."
        )
    if name not in TOPIC_CONFIGS:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{name} is not a setting known here.")


def _check_deletable(image: MetadataImage, kind: int, name: str) -> None:
    if kind == BROKER_RESOURCE and name == MIN_ISR and image.keeps_eligible_leaders:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"The cluster's {MIN_ISR} cannot be unset while eligible leader replicas are kept; set it.",
        )


def _new_value(settings: Mapping[str, str], asked: AlterableConfig) -> str:
    if asked.config_operation not in (SET, APPEND, SUBTRACT):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{asked.name}: operation {asked.config_operation} is not known.")
    value = asked.value
    if asked.config_operation != SET:
        if TOPIC_CONFIGS[asked.name].kind != "list":
            raise Refused(ErrorCode.INVALID_CONFIG, f"{asked.name} is not a list: it can be set and unset only.")
        value = _list_value(settings.get(asked.name, TOPIC_CONFIGS[asked.name].default), asked)
    try:
        check_config(asked.name, value)
    except InvalidConfig as invalid:
        raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid
    assert value is not None, "check_config refuses a setting without a value"
    return value


def _list_value(current: str, asked: AlterableConfig) -> str:
    items = [item for item in current.split(",") if item]
    named = [item for item in (asked.value or "").split(",") if item]
    if asked.config_operation == APPEND:
        return ",".join(items + [item for item in named if item not in items])
    return ",".join(item for item in items if item not in named)


def _config_records(image: MetadataImage, key: Resource, settings: Mapping[str, str]) -> list[ConfigRecord]:
    """One record for each setting that has changed."""
    before = image.config(*key)
    names = dict.fromkeys((*before, *settings))
    return [ConfigRecord(*key, name, settings.get(name)) for name in names if before.get(name) != settings.get(name)]
