"""The native consumer: a poll is one topic-partition's share of a Fetch that its client sends to a leader.

Like Kafka's own consumers, one client has one Fetch in flight to each broker, for every topic-partition that it polls
there. Unlike them it does not read ahead: what a poll delivers was fetched after the poll was invoked, from the cursor
on, so that a response's high watermark and leader belong to that poll.

    invoke ──▶ lane of the leader ── Fetch of all that wait there ──▶ records, an error, or nothing new
                    ▲                                                       │
                    └────────────── keeps waiting, up to POLL_SECONDS ◀─────┘

Polls that are answered together are sent again together: a lane waits for `LINGER_SECONDS` between a response and its
next Fetch. Incremental fetch sessions (KIP-227) are used if the broker offers one; a broker that returns session id 0
gets a full request every time. Any failure of a session ends it, and the next Fetch starts a new one.

A consumer with a rack names it, and the leader may redirect it to a follower nearby (KIP-392). A redirected poll waits
there instead, and later polls go there directly, for `PREFERENCE_SECONDS` or until that follower fails. A poll that a
follower refuses is sent to the leader: a follower may lag, so only the leader decides that an offset is out of range. A
poll that is redirected again after that has failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from squall.nodes.protocol.errors import ErrorCode, ProtocolError
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.records import crc_ok, iterate_batches, parse_records
from squall.workloads.clients.common import errors
from squall.workloads.clients.common.client import ClientPlan, TopicPartition
from squall.workloads.clients.common.payload import decode_value
from squall.workloads.clients.native.connection import Closed
from squall.workloads.clients.native.leaders import Address, Leaders, Replica, client_id
from squall.workloads.core.operation import DELETE_RECORDS, FAIL, LIST_OFFSETS, OK, SEEK, Completion, Operation
from squall.workloads.core.ports import Clock

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 6
DELETE_RECORDS_VERSION = 2
EARLIEST, LATEST = -2, -1
NOBODY = -1

REQUEST_SECONDS = 3.0
RETRY_SECONDS = 0.3
FETCH_WAIT_MS = 500
FETCH_BYTES = 1 << 20
LINGER_SECONDS = 0.1
POLL_SECONDS = 5.0
DELETE_TIMEOUT_MS = 2000
PREFERENCE_SECONDS = 30.0
"""How long a redirect holds. Kafka's consumers take `metadata.max.age.ms`, five minutes; runs are short."""
KEPT_RECORDS = 10
"""How many records before its position a consumer keeps when it deletes."""

_SESSION_ENDED = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@dataclass
class _Cursor:
    """The position and session of one topic-partition."""

    position: int | None = None
    session: int = 0


@dataclass(slots=True, eq=False)
class _Poll:
    """A poll that waits for records from `replica`: the leader, or a follower.

    `high_watermark` and `log_start` are the last ones received from it; -1 while there are none. `refusal` is the error
    of the follower that failed this poll.
    """

    cursor: _Cursor
    leader: Replica
    replica: Replica
    deadline: int
    done: asyncio.Future[Completion]
    high_watermark: int = -1
    log_start: int = -1
    refusal: Completion | None = None

    def goes_to(self, replica: Replica) -> None:
        self.replica, self.high_watermark, self.log_start = replica, -1, -1


class NativeConsumer:
    """A manually assigned consumer; see the module. An instance (`native_client.py`).

    `sessions` are the session numbers at which it begins.
    """

    def __init__(
        self, plan: ClientPlan, leaders: Leaders, clock: Clock, sessions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        self.plan = plan
        self.leaders = leaders
        self.clock = clock
        begun = sessions or {}
        self.cursors = {where: _Cursor(session=begun.get(where, 0)) for where in plan.topic_partitions}
        self.lanes: dict[Address, _Lane] = {}
        self.nearby: dict[TopicPartition, tuple[Replica, int]] = {}
        """The follower to which the leader has redirected this consumer, and until when it stays there."""

    def end(self, *, abandoned: bool) -> None:
        for lane in self.lanes.values():
            lane.close()
        self.leaders.end(abandoned=abandoned)

    def successor(self, client: int) -> Self:
        sessions = {where: cursor.session + 1 for where, cursor in self.cursors.items()}
        return type(self)(self.plan, self.leaders.anew(client_id(self.plan, client)), self.clock, sessions)

    async def invoke(self, operation: Operation) -> Completion:
        assert operation.topic is not None and operation.partition is not None
        where = (operation.topic, operation.partition)
        if operation.f == SEEK:
            return self._sought(where, operation)
        leader = await self.leaders.leader(where)
        if leader is None:
            await asyncio.sleep(RETRY_SECONDS)
            return errors.refused("no_leader_known")
        if operation.f == LIST_OFFSETS:
            return await self._list_offsets(operation.f, where, leader, LATEST)
        cursor = self.cursors[where]
        if operation.f == DELETE_RECORDS:
            return await self._delete_records(operation.f, where, leader, cursor)
        if cursor.position is None:
            start = EARLIEST if self.plan.from_beginning else LATEST
            found = await self._list_offsets(operation.f, where, leader, start)
            cursor.position = found.log_start if self.plan.from_beginning else found.high_watermark
            if cursor.position is None:
                return found
        completion = await self._poll(where, cursor, leader)
        return completion if completion.type == OK else await self._in_vain(where, completion)

    def _sought(self, where: TopicPartition, operation: Operation) -> Completion:
        assert operation.value is not None
        self.seek(where, operation.value)
        return Completion(OK, session=self.cursors[where].session, position=operation.value)

    def seek(self, where: TopicPartition, offset: int | None) -> None:
        """Continue from `offset` (from the start of the log if None) in a new session."""
        cursor = self.cursors[where]
        cursor.position, cursor.session = offset, cursor.session + 1

    async def _poll(self, where: TopicPartition, cursor: _Cursor, leader: Replica) -> Completion:
        replica = self._nearest(where, leader)
        return await self.lane(replica.address).poll(where, cursor, leader, replica)

    def _nearest(self, where: TopicPartition, leader: Replica) -> Replica:
        """The follower that the leader has named, while that holds, or else the leader."""
        if where not in self.nearby:
            return leader
        follower, until = self.nearby[where]
        if follower.node == leader.node or self.clock.now_ns() >= until:
            del self.nearby[where]
            return leader
        return msgspec.structs.replace(follower, epoch=leader.epoch)

    def named(self, where: TopicPartition, node: int, epoch: int) -> Replica | None:
        """The nearer replica that the leader has named; None if its address is unknown."""
        address = self.leaders.brokers.get(node)
        if address is None:
            return None
        follower = Replica(address, node, epoch)
        self.nearby[where] = (follower, self.clock.now_ns() + int(PREFERENCE_SECONDS * 1e9))
        return follower

    def lane(self, address: Address) -> _Lane:
        lane = self.lanes.get(address)
        if lane is None:
            lane = self.lanes[address] = _Lane(self, address)
        return lane

    async def _list_offsets(self, f: str, where: TopicPartition, leader: Replica, timestamp: int) -> Completion:
        wanted = ListOffsetsPartition(partition_index=where[1], current_leader_epoch=leader.epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=where[0], partitions=[wanted])]
        )
        asking = self.leaders.ask(
            leader.address, "offsets", request, LIST_OFFSETS_VERSION, ListOffsetsResponse, REQUEST_SECONDS
        )
        try:
            found = [part for topic in (await asking).topics for part in topic.partitions]
        except OSError as trouble:
            return await self._in_vain(where, errors.lost(f, short(trouble)))
        if not found or found[0].error_code:
            return await self._in_vain(where, _refused(f, found))
        if timestamp == LATEST:
            return Completion(OK, high_watermark=found[0].offset, leader_epoch=found[0].leader_epoch, node=leader.node)
        return Completion(OK, log_start=found[0].offset, node=leader.node)

    async def _delete_records(self, f: str, where: TopicPartition, leader: Replica, cursor: _Cursor) -> Completion:
        """Raise the log start offset to a little before the cursor; the response reports the low watermark."""
        offset = (cursor.position or 0) - KEPT_RECORDS
        if offset <= 0:
            return errors.refused("nothing_to_delete")
        wanted = DeleteRecordsPartition(partition_index=where[1], offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=where[0], partitions=[wanted])], timeout_ms=DELETE_TIMEOUT_MS
        )
        asking = self.leaders.ask(
            leader.address, "deletions", request, DELETE_RECORDS_VERSION, DeleteRecordsResponse, REQUEST_SECONDS
        )
        try:
            found = [part for topic in (await asking).topics for part in topic.partitions]
        except OSError as trouble:
            return await self._in_vain(where, errors.lost(f, short(trouble)))
        if not found or found[0].error_code:
            return await self._in_vain(where, _refused(f, found))
        return Completion(OK, log_start=found[0].low_watermark, leader_epoch=leader.epoch, node=leader.node)

    async def _in_vain(self, where: TopicPartition, completion: Completion) -> Completion:
        """Drop the known leader after a failure, and wait a little."""
        self.leaders.forget(where)
        self.nearby.pop(where, None)
        await asyncio.sleep(RETRY_SECONDS)
        return completion


def _refused(f: str, found: Sequence[ListOffsetsPartitionResponse | DeleteRecordsPartitionResult]) -> Completion:
    """What a response with an error means; one without the topic-partition is an error too."""
    return errors.single_attempt(f, found[0].error_code if found else int(ErrorCode.UNKNOWN_SERVER_ERROR))


class _Lane:
    """One consumer's polls at one broker. `session` is (id, epoch of the next Fetch); `told` is its content."""

    def __init__(self, consumer: NativeConsumer, address: Address) -> None:
        self.consumer = consumer
        self.address = address
        self.polls: dict[TopicPartition, _Poll] = {}
        self.running: asyncio.Task[None] | None = None
        self.connection: object = None
        self.session = (0, 0)
        self.told: dict[TopicPartition, FetchPartition] = {}

    async def poll(self, where: TopicPartition, cursor: _Cursor, leader: Replica, replica: Replica) -> Completion:
        """Read what there is at the cursor, or nothing when the time is over."""
        loop = asyncio.get_running_loop()
        deadline = self.consumer.clock.now_ns() + int(POLL_SECONDS * 1e9)
        poll = _Poll(cursor, leader, replica, deadline, loop.create_future())
        self.take_over(where, poll)
        return await poll.done

    def take_over(self, where: TopicPartition, poll: _Poll) -> None:
        self.polls[where] = poll
        if self.running is None or self.running.done():
            self.running = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self.running is not None:
            self.running.cancel()
        self._fail(dict(self.polls), "closed_in_flight")

    async def _run(self) -> None:
        while self.polls:
            asked = dict(self.polls)
            try:
                await self._fetch(asked)
            except Exception as trouble:
                # After any exception every waiting poll must be settled.
                self._forget_session()
                self._fail(asked, short(trouble))
            await asyncio.sleep(LINGER_SECONDS)

    async def _fetch(self, asked: dict[TopicPartition, _Poll]) -> None:
        leaders = self.consumer.leaders
        connection = await leaders.connection(self.address, "fetch")
        if connection is not self.connection:
            self._forget_session()
            self.connection = connection
        request = self._request(asked)
        seconds = REQUEST_SECONDS + FETCH_WAIT_MS / 1000
        response = await connection.request(request, FETCH_VERSION, FetchResponse, seconds)
        if response.error_code in _SESSION_ENDED:
            self._forget_session()
            return
        if response.error_code:
            self._forget_session()
            for where in asked:
                self._settle(where, asked[where], errors.single_attempt("poll", response.error_code))
            return
        session_id = response.session_id
        self.session = (session_id, self.session[1] + 1) if session_id else (0, 0)
        self._take(asked, response)

    def _take(self, asked: dict[TopicPartition, _Poll], response: FetchResponse) -> None:
        now = self.consumer.clock.now_ns()
        for topic in response.responses:
            for part in topic.partitions:
                poll = asked.get((topic.topic, part.partition_index))
                if poll is not None and self._has(poll):
                    self._take_part((topic.topic, part.partition_index), poll, part)
        for where, poll in asked.items():
            if poll.deadline <= now and self._has(poll):
                self._settle(where, poll, self._read(where, poll, b""))

    def _take_part(self, where: TopicPartition, poll: _Poll, part: PartitionData) -> None:
        at_leader = poll.replica.node == poll.leader.node
        if part.error_code:
            refusal = errors.single_attempt("poll", part.error_code)
            if not at_leader:
                self._back_to_leader(where, poll, refusal)
                return
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.consumer.seek(where, None)
            self._settle(where, poll, refusal)
            return
        if at_leader and part.preferred_read_replica not in (NOBODY, poll.leader.node):
            self._sent_away(where, poll, part.preferred_read_replica)
            return
        poll.high_watermark, poll.log_start = part.high_watermark, part.log_start_offset
        if part.records:
            self._settle(where, poll, self._read(where, poll, part.records))

    def _sent_away(self, where: TopicPartition, poll: _Poll, node: int) -> None:
        if poll.refusal is not None:
            self._settle(where, poll, poll.refusal)
            return
        follower = self.consumer.named(where, node, poll.leader.epoch)
        if follower is None:
            self._settle(where, poll, errors.lost("poll", "preferred_replica_not_known"))
            return
        self._hand_over(where, poll, follower)

    def _back_to_leader(self, where: TopicPartition, poll: _Poll, refusal: Completion) -> None:
        self.consumer.nearby.pop(where, None)
        poll.refusal = refusal
        self._hand_over(where, poll, poll.leader)

    def _hand_over(self, where: TopicPartition, poll: _Poll, replica: Replica) -> None:
        del self.polls[where]
        poll.goes_to(replica)
        self.consumer.lane(replica.address).take_over(where, poll)

    def _read(self, where: TopicPartition, poll: _Poll, records: bytes | bytearray | memoryview) -> Completion:
        cursor, before = poll.cursor, poll.cursor.position
        assert before is not None
        try:
            offsets, values, cursor.position, leader_epoch = read_records(records, before)
        except DamagedRecords as damage:
            error = f"corrupt_message: {damage}, from node {poll.replica.node}"
            return Completion(FAIL, error=error, session=cursor.session, position=before, node=poll.replica.node)
        return Completion(
            OK,
            offsets=tuple(offsets),
            values=tuple(values),
            session=cursor.session,
            position=before,
            leader_epoch=leader_epoch,
            high_watermark=poll.high_watermark if poll.high_watermark >= 0 else None,
            log_start=poll.log_start if poll.log_start >= 0 else None,
            node=poll.replica.node,
        )

    def _settle(self, where: TopicPartition, poll: _Poll, completion: Completion) -> None:
        if self.polls.get(where) is poll:
            del self.polls[where]
        if not poll.done.done():
            poll.done.set_result(completion)

    def _fail(self, asked: dict[TopicPartition, _Poll], reason: str) -> None:
        for where, poll in asked.items():
            if self._has(poll):
                self._settle(where, poll, errors.lost("poll", reason))

    def _has(self, poll: _Poll) -> bool:
        """Whether it still waits here: it is neither complete nor handed over to another lane."""
        return not poll.done.done() and poll.replica.address == self.address

    # -- sessions -------------------------------------------------------------------------------------------------

    def _forget_session(self) -> None:
        self.session, self.told = (0, 0), {}

    def _request(self, asked: dict[TopicPartition, _Poll]) -> FetchRequest:
        """A Fetch of all these polls: in full, or only the differences from the session's content."""
        session_id, epoch = self.session
        told = self.told if session_id else {}
        wanted: dict[TopicPartition, FetchPartition] = {}
        changed: dict[TopicPartition, FetchPartition] = {}
        for where, poll in asked.items():
            part = told.get(where)
            if part is None or not _asks_for(part, poll):
                part = changed[where] = _fetch_partition(where[1], poll)
            wanted[where] = part
        forgotten = [where for where in told if where not in wanted]
        self.told = wanted
        topics: dict[str, FetchTopic] = {}
        for where, part in changed.items():
            topics.setdefault(where[0], FetchTopic(topic=where[0])).partitions.append(part)
        dropped: dict[str, ForgottenTopic] = {}
        for where in forgotten:
            dropped.setdefault(where[0], ForgottenTopic(topic=where[0])).partitions.append(where[1])
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(dropped.values()),
            rack_id=self.consumer.plan.rack or "",
        )


def _asks_for(part: FetchPartition, poll: _Poll) -> bool:
    """Whether a session that holds this reads what the poll wants."""
    return part.fetch_offset == poll.cursor.position and part.current_leader_epoch == poll.replica.epoch


def _fetch_partition(partition: int, poll: _Poll) -> FetchPartition:
    assert poll.cursor.position is not None
    return FetchPartition(
        partition=partition,
        current_leader_epoch=poll.replica.epoch,
        fetch_offset=poll.cursor.position,
        partition_max_bytes=FETCH_BYTES,
    )


class DamagedRecords(Exception):
    """What was fetched is not what was written; the message names the offset."""


def read_records(
    content: bytes | bytearray | memoryview | None, position: int
) -> tuple[Sequence[int], Sequence[int], int, int | None]:
    """Return offsets and values from `position` on, the next position, and the leader epoch of the last batch.

    Control batches hold nothing to deliver. Raises DamagedRecords where a batch is malformed or its sum is wrong, and
    if there is none although there are bytes: a broker may cut the last batch, never the first.
    """
    offsets: list[int] = []
    values: list[int] = []
    leader_epoch: int | None = None
    if not content:
        return offsets, values, position, leader_epoch
    try:
        for header, batch in iterate_batches(content, torn_tail=True):
            if not crc_ok(batch):
                raise DamagedRecords(f"the sum of the batch at offset {header.base_offset} is wrong")
            if not header.is_control:
                for record in parse_records(batch):
                    if record.offset >= position:
                        offsets.append(record.offset)
                        values.append(decode_value(record.value))
            position = max(position, header.next_offset)
            leader_epoch = header.leader_epoch
    except ProtocolError as trouble:
        raise DamagedRecords(f"no batch can be read at offset {position} ({trouble})") from trouble
    if leader_epoch is None:
        raise DamagedRecords(f"no whole batch at offset {position} in {len(content)} bytes")
    return offsets, values, position, leader_epoch


def short(trouble: Exception) -> str:
    """Name a connection's failure in one word; describe any other exception, which is our own bug."""
    if isinstance(trouble, Closed):
        return "closed_in_flight"
    if isinstance(trouble, OSError):
        return "request_timed_out" if isinstance(trouble, TimeoutError) else "disconnected"
    return f"client: {type(trouble).__name__}: {trouble}"
