"""What retention may delete from a log's beginning: whole segments, by age and size, below the high watermark.

Kafka's rules. A segment may be deleted by age if its youngest record is older than `retention.ms`, by size if the log
still holds `retention.bytes` without it. Segments are deleted oldest first; the first that must stay keeps all after
it. Uncommitted records always stay. If every record may be deleted, all are: the active segment is sealed first, so
that it can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.segment import Segment


def retention_start(segments: Sequence[Segment], config: LogConfig, *, high_watermark: int, now_ms: int) -> int:
    """The log start that the settings permit: the end of the last deletable segment, or the current beginning."""
    start = segments[0].base_offset
    if config.retention_ms >= 0:
        oldest = now_ms - config.retention_ms
        start = max(start, _end_of_deletable(segments, high_watermark, lambda one: one.max_timestamp() < oldest))
    if config.retention_bytes >= 0:
        excess = _Excess(sum(segment.size for segment in segments) - config.retention_bytes)
        start = max(start, _end_of_deletable(segments, high_watermark, excess.covers))
    return start


class _Excess:
    """Bytes above the size to keep; each deleted segment reduces them."""

    def __init__(self, size: int) -> None:
        self._size = size

    def covers(self, segment: Segment) -> bool:
        self._size -= segment.size
        return self._size >= 0


def _end_of_deletable(segments: Sequence[Segment], high_watermark: int, may_go: Callable[[Segment], bool]) -> int:
    end = segments[0].base_offset
    for segment in segments:
        if not segment.size or segment.next_offset > high_watermark or not may_go(segment):
            break
        end = segment.next_offset
    return end
