"""Name administrative write requests for the trace: equal requests have equal names.

A broker traces `admin_sent` each time it forwards one, the active controller `admin_write` for each for which it writes
records. Client id, correlation id and controller identify the same request in both events, and show whether a request
was carried out twice (MD-09).
"""

from __future__ import annotations

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.topic_partition import ZERO_ID, format_id

WRITES = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.UNREGISTER_BROKER,
)
"""Administrative APIs that change something and that a broker forwards."""

_LISTS = ("topics", "resources", "feature_updates", "topic_partitions")
_NAMES = ("name", "resource_name", "feature", "topic")


def asked_of(message: Message) -> str:
    """`DELETE_TOPICS a, b`: the API and the names of its objects, without the requested change."""
    about = [_name(one) for field in _LISTS for one in getattr(message, field, None) or ()]
    about += [str(message.broker_id)] if message.API_KEY == ApiKey.UNREGISTER_BROKER else []  # type: ignore[attr-defined]
    return f"{ApiKey(message.API_KEY).name} {', '.join(about)}"


def _name(part: object) -> str:
    topic_id = getattr(part, "topic_id", ZERO_ID)
    if topic_id != ZERO_ID:
        return format_id(bytes(topic_id))
    return next((str(found) for field in _NAMES if (found := getattr(part, field, None)) is not None), "")
