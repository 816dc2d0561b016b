"""The native reader of whole lists: one poll is everything from a log's start to its end (workload `list-append`).

The end is what the leader returns when the read begins (ListOffsets); a leader that does not know it yet refuses, and
the read fails (KIP-207, OFFSET_NOT_AVAILABLE). Then as many Fetch requests as necessary follow, in a separate session.
What a log holds below its high watermark never changes, so the pieces of a read together are the log at one time; the
checks detect the opposite.

A read that does not finish within `READ_SECONDS`, or during which anything fails, has failed as a whole.
"""

from __future__ import annotations

import asyncio
from typing import Final

from squall.workloads.clients.common import errors
from squall.workloads.clients.native.leaders import Replica
from squall.workloads.clients.native.native_consumer import EARLIEST, LATEST, RETRY_SECONDS, NativeConsumer
from squall.workloads.core.operation import OK, SEEK, Completion, Operation

READ_SECONDS: Final = 10.0


class FullLogReader(NativeConsumer):
    """Reads a log from its start for every poll."""

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        where = (operation.topic, operation.partition)
        if operation.f == SEEK:
            return self._sought(where, operation)
        leader = await self.leaders.leader(where)
        if leader is None:
            await asyncio.sleep(RETRY_SECONDS)
            return errors.refused("no_leader_known")
        told = await self._list_offsets(operation.f, where, leader, LATEST)
        if told.type != OK:
            return told
        found = await self._list_offsets(operation.f, where, leader, EARLIEST)
        if found.type != OK:
            return found
        assert told.high_watermark is not None and found.log_start is not None
        self.seek(where, found.log_start)
        completion = await self._read_up_to(told.high_watermark, operation, leader)
        if completion.type != OK:
            return await self._in_vain(where, completion)
        return completion

    async def _read_up_to(self, end: int, operation: Operation, leader: Replica) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        where = (operation.topic, operation.partition)
        cursor, began = self.cursors[where], self.clock.now_ns()
        start = cursor.position
        offsets: list[int] = []
        values: list[int] = []
        last = Completion(OK, high_watermark=end, log_start=start, node=leader.node)
        while cursor.position is not None and cursor.position < end:
            if self.clock.now_ns() - began > READ_SECONDS * 1e9:
                return errors.lost(operation.f, "not_all_was_read_in_time")
            last = await self._poll(where, cursor, leader)
            if last.type != OK:
                return last
            offsets += last.offsets
            values += last.values
        if cursor.position is None:
            return errors.lost(operation.f, "the_log_began_anew")
        return Completion(
            OK,
            offsets=tuple(offsets),
            values=tuple(values),
            session=cursor.session,
            position=start,
            leader_epoch=last.leader_epoch,
            high_watermark=last.high_watermark,
            log_start=last.log_start,
            node=last.node,
        )
