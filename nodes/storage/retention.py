"""What may go from the beginning of a log: by age and by size, in whole segments, never above the high watermark.

Kafka's rules. A segment may go by age if its youngest record is older than `retention.ms`, by size if without it there
still are `retention.bytes`. Segments go oldest first; the first that must stay keeps all after it. What is not
committed stays in any case. If every record may go, all go: the active segment is sealed first, so that it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from squall.nodes.storage.config import LogConfig
from squall.nodes.storage.segment import Segment


def retention_start(segments: Sequence[Segment], config: LogConfig, *, high_watermark: int, now_ms: int) -> int:
    """Where the log may begin by its settings: the end of the last segment that may go, or the beginning it has."""
    start = segments[0].base_offset
    if config.retention_ms >= 0:
        oldest = now_ms - config.retention_ms
        start = max(start, _end_of_deletable(segments, high_watermark, lambda one: one.max_timestamp() < oldest))
    if config.retention_bytes >= 0:
        excess = _Excess(sum(segment.size for segment in segments) - config.retention_bytes)
        start = max(start, _end_of_deletable(segments, high_watermark, excess.covers))
    return start


class _Excess:
    """Bytes above what is to be kept, of which each segment that goes takes its part."""

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
