"""What a scenario lets remove records from the front of a log, and whether it damages files behind a node's back.

Retention and DeleteRecords raise a log's start, and what lies below it is no loss. A node that has lost its records may
state the same start. So the checks believe a stated start only where the scenario has something that raises one, and
hold all else to begin at 0 (`Manifest.keeps_front`). In doubt, removal is allowed.

Kafka keeps records for a week unless told otherwise, by the clock of the broker and the timestamps of clients. A run
takes hours at most, so only a clock that a fault sets ahead by days makes records that old.

A fault that changes or loses bytes which the node has written, or believes to be durable, may leave an index or a
checkpoint that contradicts its log, and no system promises to find that out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import BaseModel

from squall.harness.scenario.suite import Scenario
from squall.harness.scenario.system_choice import SystemChoice
from squall.nemesis.options.clock import ClockFreeze, ClockSkew, ClockStrobe
from squall.nemesis.options.damage import BitFlip, CopyChunk, LoseFile, TruncateFile
from squall.nemesis.options.disk import LyingFsync
from squall.nemesis.options.operation import AlterConfig
from squall.nemesis.options.process import Reconfigure
from squall.workloads.core.operation import DELETE_RECORDS

RETENTION: Final = (
    "log.retention.bytes",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "retention.bytes",
    "retention.ms",
)
"""Settings of brokers and topics; -1 keeps everything."""
POLICIES: Final = ("log.cleanup.policy", "cleanup.policy")
KEEPS_WHOLE_LOGS: Final = ("kafka", "nats")
"""Systems other than ours that keep all records by default, and have the settings above, or none."""
DAYS_AHEAD_S: Final = 86_400.0
"""A clock that is ahead by more than this may let a week pass, together with others and with a rate."""
FAST: Final = 2.0
"""A clock that runs faster than this many seconds a second may do the same."""


def removal_allowed(scenario: Scenario) -> bool:
    """Return whether retention of any topic, or clients, may remove records from the front of a log."""
    cluster = scenario.cluster
    settings = [cluster.config, *(topic.config for topic in cluster.topics.values())]
    workload = scenario.workload.model_dump()
    listed = workload.get("operations") or ()
    return (
        not _is_known(cluster.system)
        or any(_removes(each) for each in settings)
        or bool(workload.get(DELETE_RECORDS))
        or any(DELETE_RECORDS in str(one) for one in listed)
        or any(_removes_later(one) for entry in scenario.nemesis for one in _parts(entry))
    )


def damages_files(scenario: Scenario) -> bool:
    """Return whether a fault may change or lose what a node has written."""
    damage = BitFlip | CopyChunk | LoseFile | TruncateFile | LyingFsync
    return any(isinstance(one, damage) for entry in scenario.nemesis for one in _parts(entry))


def _is_known(system: SystemChoice) -> bool:
    return system.ours or system.name in KEEPS_WHOLE_LOGS


def _removes(settings: Mapping[str, object]) -> bool:
    limited = any(str(settings.get(name, "-1")) != "-1" for name in RETENTION)
    return limited or any(str(settings.get(name, "delete")) != "delete" for name in POLICIES)


def _parts(entry: object) -> Iterable[BaseModel]:
    """Return an entry of the nemesis, and the faults within it."""
    if isinstance(entry, BaseModel):
        yield entry
        for _, value in entry:
            yield from _parts(value)
    elif isinstance(entry, list | tuple):
        for one in entry:
            yield from _parts(one)


def _removes_later(fault: BaseModel) -> bool:
    """Return whether a fault may give records away: other settings meanwhile, or a clock that is days ahead."""
    match fault:
        case AlterConfig():
            return any(_removes({fault.name: value}) for value in (fault.value, fault.afterwards) if value is not None)
        case Reconfigure():
            return _removes(fault.settings)
        case ClockSkew():
            return fault.time is not None or abs(fault.offset) > DAYS_AHEAD_S or fault.rate > FAST
        case ClockStrobe():
            return abs(fault.offset) > DAYS_AHEAD_S
        case ClockFreeze():
            return fault.time is not None
    return False
