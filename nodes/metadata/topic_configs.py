"""The settings a topic may have: names, types, defaults, and refused values (INVALID_CONFIG).

Controllers check against this table before a setting is written. Where brokers support only one behaviour, no other
value is accepted (`cleanup.policy`, `compression.type`, `preallocate`). `file.delete.delay.ms` and
`delete.retention.ms` are checked, kept and described, but have no effect: files are deleted at once, and there is no
compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
CLUSTER_CONFIGS = (MIN_ISR, UNCLEAN_ELECTION)
"""Settings for which IncrementalAlterConfigs may set a default of the cluster."""
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class InvalidConfig(ValueError):
    """A setting is unknown, or its value is out of range. The message has name, value and what is allowed."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One setting. `broker_property` is the broker's setting that gives its default, None if there is none."""

    name: str
    default: str
    kind: str
    check: Callable[[str], str | None]
    broker_property: str | None = None


def _integer(low: int, high: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return "it must be a whole number"
        return None if low <= number <= high else f"it must be from {low} to {high}"

    return check


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        return None if value in allowed else f"it must be {' or '.join(allowed)}"

    return check


_BOOLEAN = _one_of("true", "false")

_TABLE = (
    TopicConfig("cleanup.policy", "delete", "list", _one_of("delete"), "log.cleanup.policy"),
    TopicConfig("compression.type", "producer", "string", _one_of("producer"), "compression.type"),
    TopicConfig("delete.retention.ms", "86400000", "long", _integer(0, LONG_MAX), "log.cleaner.delete.retention.ms"),
    TopicConfig("file.delete.delay.ms", "60000", "long", _integer(0, LONG_MAX), "log.segment.delete.delay.ms"),
    TopicConfig("flush.messages", str(LONG_MAX), "long", _integer(1, LONG_MAX), "log.flush.interval.messages"),
    TopicConfig("flush.ms", str(LONG_MAX), "long", _integer(0, LONG_MAX), "log.flush.interval.ms"),
    TopicConfig("index.interval.bytes", "4096", "int", _integer(0, INT_MAX), "log.index.interval.bytes"),
    TopicConfig("max.message.bytes", "1048588", "int", _integer(0, INT_MAX), "message.max.bytes"),
    TopicConfig(
        "message.timestamp.type", "CreateTime", "string", _one_of("CreateTime", "LogAppendTime"),
        "log.message.timestamp.type",
    ),
    TopicConfig("min.insync.replicas", "1", "int", _integer(1, INT_MAX), "min.insync.replicas"),
    TopicConfig("preallocate", "false", "boolean", _one_of("false"), "log.preallocate"),
    TopicConfig("retention.bytes", "-1", "long", _integer(-1, LONG_MAX), "log.retention.bytes"),
    TopicConfig("retention.ms", "604800000", "long", _integer(-1, LONG_MAX), "log.retention.ms"),
    TopicConfig("segment.bytes", "1073741824", "int", _integer(14, INT_MAX), "log.segment.bytes"),
    TopicConfig("segment.ms", "604800000", "long", _integer(1, LONG_MAX), "log.roll.ms"),
    TopicConfig(
        "unclean.leader.election.enable", "false", "boolean", _BOOLEAN, "unclean.leader.election.enable"
    ),
)  # fmt: skip

TOPIC_CONFIGS: dict[str, TopicConfig] = {config.name: config for config in _TABLE}


def check_config(name: str, value: str | None) -> None:
    """Raise InvalidConfig unless a topic may have this setting."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(f"{name} is not a topic setting known here; known are {', '.join(TOPIC_CONFIGS)}")
    if value is None:
        raise InvalidConfig(f"{name} has no value; leave it out to get the default, {config.default}")
    problem = config.check(value)
    if problem is not None:
        raise InvalidConfig(f"{name} is {value!r}; {problem}")


def effective_value(settings: Mapping[str, str], name: str, defaults: Mapping[str, str] | None = None) -> str:
    """A topic's value if `settings` has one, else the nodes' default for it, else Kafka's."""
    if name in settings:
        return settings[name]
    if defaults is not None and name in defaults:
        return defaults[name]
    return TOPIC_CONFIGS[name].default
