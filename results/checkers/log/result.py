"""The result of the check of one topic-partition: plain values that travel between processes."""

from __future__ import annotations

import msgspec


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """What a poll delivered: first and last offset, number of records, and those near the place in question."""

    first: int
    last: int
    count: int
    near: tuple[tuple[int, int], ...]


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operation of a witness, in its role: writer, reader, earlier, later, …"""

    role: str
    op_id: int
    f: str
    type: str
    process: int
    client: int
    invoked: int
    completed: int | None = None
    value: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    leader_epoch: int | None = None
    node: int | None = None
    session: int | None = None
    error: str | None = None
    delivered: Delivered | None = None


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One offset near a witness: which appends were acknowledged there, what was read there, and how often."""

    offset: int
    acknowledged: tuple[tuple[int, int, int], ...] = ()  # value, process, time
    read: tuple[tuple[int, int], ...] = ()  # value, polls
    final: int | None = None


class WitnessFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of an anomaly with the operations that prove it and the rows around it."""

    anomaly: str
    topic: str
    partition: int
    offset: int
    other_offset: int = -1
    values: tuple[int, ...] = ()
    operations: tuple[OperationFacts, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


class FinalReadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How far the final read of a topic-partition came."""

    complete: bool
    records: int
    end: int
    marker_offset: int


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The findings and measurements of one topic-partition, except the counts over time (`tally.py`).

    `operations` counts by `f.type`; `anomalies` by name; `noted` what is counted but no anomaly. `acknowledged_within`
    counts acknowledged sends in each of the task's windows; `longest_gap_within` is the longest time without one there,
    None if nothing was sent or the load had ended.
    """

    run: int
    topic: str
    partition: int
    operations: dict[str, int]
    acknowledged: int
    records: int
    anomalies: dict[str, int]
    noted: dict[str, int]
    witnesses: tuple[WitnessFacts, ...]
    final: FinalReadFacts
    acknowledged_sends: int
    longest_outage: int
    longest_outage_start: int
    outages: list[tuple[int, int]]
    acknowledged_within: tuple[int, ...] = ()
    longest_gap_within: tuple[int | None, ...] = ()
    lag_p99: int
    lag_max: int
    milliseconds: float

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"
