"""Move topic-partitions: begin, list, cancel, wait (AlterPartitionReassignments, ListPartitionReassignments).

The controller does the moving: it adds the new replicas, waits until all of the target are in sync, and removes the old
ones (RA-01 to RA-05). This module only requests it and watches. A move is over when it is no longer listed. Whether it
reached its target is checked afterwards, because a cancelled move is over as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from squall.harness.errors import UsageError
from squall.harness.operator.admin_connection import AdminConnection, refuse_error
from squall.harness.operator.describe import metadata_of, ongoing_moves
from squall.harness.operator.facts import OngoingMove
from squall.harness.operator.planning import Place
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from squall.workloads.clients.native.admin import error_name

ALTER_TIMEOUT_MS = 30_000
LOOK_SECONDS = 0.3


@dataclass(frozen=True)
class MoveProgress:
    """The progress of the moves that the caller waits for."""

    total: int
    done: int
    replicas_to_add: int
    """Replicas that still have to catch up."""

    @property
    def is_over(self) -> bool:
        return self.done == self.total


async def begin(connection: AdminConnection, targets: Mapping[Place, Sequence[int]]) -> None:
    """Begin the moves; all problems are reported together. Raises UsageError."""
    refused = await _alter(connection, {place: list(replicas) for place, replicas in targets.items()})
    _raise(refused, "cannot be moved")


async def cancel(connection: AdminConnection, places: Collection[Place]) -> int:
    """Cancel moves. Return how many there were. A move that is already over is no error. Raises UsageError."""
    refused = await _alter(connection, dict.fromkeys(places))
    over = {place for place, (code, _) in refused.items() if code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    _raise({place: why for place, why in refused.items() if place not in over}, "cannot be cancelled")
    return len(places) - len(over)


_Refusals = dict[Place, tuple[int, str | None]]


async def _alter(connection: AdminConnection, targets: Mapping[Place, list[int] | None]) -> _Refusals:
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in sorted(targets.items()):
        wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
        by_topic.setdefault(topic, []).append(wanted)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=ALTER_TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
    )
    told = await connection.any(request, AlterPartitionReassignmentsResponse)
    refuse_error("the reassignment was refused", told.error_code, told.error_message)
    return {
        (topic.name, one.partition_index): (one.error_code, one.error_message)
        for topic in told.responses
        for one in topic.partitions
        if one.error_code != ErrorCode.NONE
    }


def _raise(refused: _Refusals, what: str) -> None:
    errors = [
        UsageError(f"{topic}-{partition} {what}: {error_name(code)}" + (f", {said}" if said else ""))
        for (topic, partition), (code, said) in sorted(refused.items())
    ]
    if errors:
        raise UsageError.joined(errors)


async def progress(connection: AdminConnection, targets: Mapping[Place, Sequence[int]]) -> MoveProgress:
    """Return the progress of the moves to these targets."""
    ongoing = [one for one in await ongoing_moves(connection, required=True) if (one.topic, one.partition) in targets]
    if not ongoing:
        return MoveProgress(len(targets), len(targets), 0)
    in_sync = await _in_sync(connection)
    behind = sum(_behind(one, in_sync.get((one.topic, one.partition), ())) for one in ongoing)
    return MoveProgress(len(targets), len(targets) - len(ongoing), behind)


def _behind(move: OngoingMove, in_sync: Collection[int]) -> int:
    return sum(replica not in in_sync for replica in move.target)


async def _in_sync(connection: AdminConnection) -> dict[Place, tuple[int, ...]]:
    told = await metadata_of(connection)
    return {
        (topic.name or "", part.partition_index): tuple(part.isr_nodes)
        for topic in told.topics
        for part in topic.partitions
    }


async def wait(
    connection: AdminConnection,
    targets: Mapping[Place, Sequence[int]],
    seconds: float,
    tell: Callable[[MoveProgress], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bool:
    """Wait until the moves are over. Return False if they are not within `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        now = await progress(connection, targets)
        tell(now)
        if now.is_over:
            return True
        if loop.time() >= end:
            return False
        await sleep(LOOK_SECONDS)


async def missed(connection: AdminConnection, targets: Mapping[Place, Sequence[int]]) -> dict[Place, tuple[int, ...]]:
    """Return topic-partitions whose replicas differ from the target, with their replicas.

    The queried broker may receive the end of a move a moment after the controller decided it.
    """
    for _ in range(10):
        told = await metadata_of(connection)
        found = {
            (topic.name or "", part.partition_index): tuple(part.replica_nodes)
            for topic in told.topics
            for part in topic.partitions
        }
        wrong = {place: found.get(place, ()) for place in targets if found.get(place, ()) != tuple(targets[place])}
        if not wrong:
            return {}
        await asyncio.sleep(LOOK_SECONDS)
    return wrong
