"""Kafka's settings for one log: the broker's defaults and a topic's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONG_MAX = 2**63 - 1
LOG_APPEND_TIME = "LogAppendTime"
CREATE_TIME = "CreateTime"
_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """See the module. Times are in milliseconds; `LONG_MAX` is never."""

    segment_bytes: int = 1 << 30
    """`segment.bytes`: a segment is sealed when the next batch would make it larger."""
    segment_ms: int = _WEEK_MS
    """`segment.ms`: a segment is also sealed when the next batch is younger than its first batch by more than this."""
    index_interval_bytes: int = 4096
    """`index.interval.bytes`."""
    max_message_bytes: int = 1_048_588
    """`max.message.bytes`: the largest batch a leader accepts."""
    flush_messages: int = LONG_MAX
    """`flush.messages`: once this many records are unflushed, flush before they are acknowledged or fetched."""
    flush_ms: int = LONG_MAX
    """`flush.ms`: no record stays unflushed for longer."""
    retention_ms: int = _WEEK_MS
    """`retention.ms`: a segment whose youngest record is older may be deleted; -1 keeps all."""
    retention_bytes: int = -1
    """`retention.bytes`: the oldest segments may be deleted while the others still hold this many; -1 keeps all."""
    log_append_time: bool = False
    """`message.timestamp.type` is LogAppendTime: records have the broker's time, not the producer's."""
    producer_expiration_ms: int = _DAY_MS
    """`producer.id.expiration.ms`: a producer silent for this long is forgotten. A broker setting, not a topic's."""

    def of_topic(self, settings: Mapping[str, str]) -> LogConfig:
        """These defaults, overridden by the settings of one topic."""
        default_type = LOG_APPEND_TIME if self.log_append_time else CREATE_TIME
        return LogConfig(
            segment_bytes=int(settings.get("segment.bytes", self.segment_bytes)),
            segment_ms=int(settings.get("segment.ms", self.segment_ms)),
            index_interval_bytes=int(settings.get("index.interval.bytes", self.index_interval_bytes)),
            max_message_bytes=int(settings.get("max.message.bytes", self.max_message_bytes)),
            flush_messages=int(settings.get("flush.messages", self.flush_messages)),
            flush_ms=int(settings.get("flush.ms", self.flush_ms)),
            retention_ms=int(settings.get("retention.ms", self.retention_ms)),
            retention_bytes=int(settings.get("retention.bytes", self.retention_bytes)),
            log_append_time=settings.get("message.timestamp.type", default_type) == LOG_APPEND_TIME,
            producer_expiration_ms=self.producer_expiration_ms,
        )

    def described(self) -> dict[str, str]:
        """The settings that a topic may have, by Kafka's names."""
        return {
            "flush.messages": str(self.flush_messages),
            "flush.ms": str(self.flush_ms),
            "index.interval.bytes": str(self.index_interval_bytes),
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": LOG_APPEND_TIME if self.log_append_time else CREATE_TIME,
            "retention.bytes": str(self.retention_bytes),
            "retention.ms": str(self.retention_ms),
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(self.segment_ms),
        }
