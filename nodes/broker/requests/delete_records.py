"""DeleteRecords: raise log start offsets on a client's request (DP-07).

The leader raises its log start offset at once, never above the high watermark. It responds when the low watermark, the
least log start offset over the leader and the unfenced followers, has reached the requested offset: then no live
replica has anything below it. Followers receive the new start with their next fetch and report it in the one after. One
response covers the whole request. A topic-partition still open at the timeout gets REQUEST_TIMED_OUT with the current
low watermark: the leader's records are deleted, a follower's may not be yet.

The new log start offset is on disk before any response (`log_manager.py`).
"""

from __future__ import annotations

from squall.nodes.broker.hosting.hosted_partition import Deadlines, HostedPartition, Parked, TurnChanges
from squall.nodes.broker.hosting.purgatory import ParkedRequest
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from squall.nodes.protocol.requests.session import ServerRequest

UNKNOWN_OFFSET = -1


class _Wait:
    """One topic-partition of a parked request."""

    __slots__ = ("answer", "hosted", "leader_epoch", "offset")

    def __init__(self, hosted: HostedPartition, offset: int, answer: DeleteRecordsPartitionResult) -> None:
        self.hosted = hosted
        self.leader_epoch = hosted.replica.leader_epoch
        self.offset = offset
        self.answer = answer

    @property
    def place(self) -> dict[Parked, None]:
        return self.hosted.deletions

    def is_over(self) -> bool:
        replica = self.hosted.replica
        if not replica.is_leader or replica.leader_epoch != self.leader_epoch:
            self.answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.answer.low_watermark = UNKNOWN_OFFSET
            return True
        self.answer.low_watermark = replica.low_watermark
        return self.answer.low_watermark >= self.offset


class DeleteRecordsHandler:
    """Responds to DeleteRecords."""

    def __init__(self, replicas: Replicas, progress: TurnChanges, deadlines: Deadlines) -> None:
        self._replicas = replicas
        self._progress = progress
        self._deadlines = deadlines

    def handle(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, DeleteRecordsRequest)
        waits: list[_Wait] = []
        response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(topic.name, [self._delete(topic.name, one, waits) for one in topic.partitions])
                for topic in body.topics
            ]
        )
        if not waits:
            request.respond(response)
            return
        parked = ParkedRequest(request, response, waits, self._deadlines)
        parked.park(now + max(body.timeout_ms, 0) * 1000)

    def _delete(self, topic: str, asked: DeleteRecordsPartition, waits: list[_Wait]) -> DeleteRecordsPartitionResult:
        answer = DeleteRecordsPartitionResult(asked.partition_index, UNKNOWN_OFFSET)
        hosted = self._replicas.by_name(topic, asked.partition_index)
        if hosted is None:
            answer.error_code = int(self._replicas.absence(topic, asked.partition_index))
            return answer
        deletion = hosted.replica.delete_before(asked.offset)
        if deletion.error:
            answer.error_code = int(deletion.error)
            return answer
        if deletion.moved:
            self._progress.noted(hosted)
            self._progress.low_watermark_moved(hosted)
        wait = _Wait(hosted, deletion.offset, answer)
        if not wait.is_over():
            waits.append(wait)
        return answer
