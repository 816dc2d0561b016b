"""Produce: append, and for acks=all wait until every topic-partition of the request is committed (DP-08, rules 1-3).

One response covers the whole request. acks=0 gets no response; the connection is closed on any error. acks=1 is
acknowledged after the append; acks=all once the high watermark of each topic-partition has passed its appended records.
A failed topic-partition does not wait, but its request waits for the others. A topic-partition still open at the
timeout gets REQUEST_TIMED_OUT: the records may yet be committed (DP-09).

Mutant `ack-before-replication` acknowledges acks=all after the append; `duplicate-acked-early` does so for a batch that
is in the log already.
"""

from __future__ import annotations

from squall.nodes.broker.hosting.hosted_partition import Deadlines, HostedPartition, Parked, TurnChanges
from squall.nodes.broker.hosting.purgatory import ParkedRequest
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.broker.hosting.traffic import Traffic
from squall.nodes.mutants import Mutants
from squall.nodes.protocol.compiler import Buffer
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import ACKS_ALL

ONE_BATCH = "A produce request must carry exactly one record batch per topic-partition."


class _Wait:
    """One topic-partition of a parked request."""

    __slots__ = ("answer", "hosted", "leader_epoch", "required_offset")

    def __init__(
        self, hosted: HostedPartition, leader_epoch: int, required_offset: int, answer: PartitionProduceResponse
    ) -> None:
        self.hosted = hosted
        self.leader_epoch = leader_epoch
        self.required_offset = required_offset
        self.answer = answer

    @property
    def place(self) -> dict[Parked, None]:
        return self.hosted.produces

    def is_over(self) -> bool:
        status = self.hosted.replica.produce_status(self.leader_epoch, self.required_offset)
        if status is None:
            return False
        if status:
            self.answer.error_code = int(status)
        return True


class ProduceHandler:
    """Responds to Produce."""

    def __init__(
        self, replicas: Replicas, progress: TurnChanges, deadlines: Deadlines, traffic: Traffic, mutants: Mutants
    ) -> None:
        self._replicas = replicas
        self._traffic = traffic
        self._progress = progress
        self._deadlines = deadlines
        self._answers_early = mutants.has("ack-before-replication")
        self._answers_duplicates_early = mutants.has("duplicate-acked-early")

    def handle(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, ProduceRequest)
        waits: list[_Wait] = []
        response = ProduceResponse(
            responses=[self._append_topic(now, body, topic, request.api_version, waits) for topic in body.topic_data]
        )
        # The batches are in the log now; a parked request must not hold the frame they came in.
        timeout_ms, acks = body.timeout_ms, body.acks
        request.body = _EMPTY
        if acks == 0:
            self._answer_silently(request, response)
        elif not waits or self._answers_early:
            request.respond(response)
        else:
            self._park(now, request, response, waits, timeout_ms)

    def _append_topic(
        self, now: int, body: ProduceRequest, topic: TopicProduceData, version: int, waits: list[_Wait]
    ) -> TopicProduceResponse:
        answers = [
            self._append(now, body, topic.name, one.index, one.records, version, waits) for one in topic.partition_data
        ]
        return TopicProduceResponse(name=topic.name, partition_responses=answers)

    def _append(
        self,
        now: int,
        body: ProduceRequest,
        topic: str,
        partition: int,
        records: Buffer | None,
        version: int,
        waits: list[_Wait],
    ) -> PartitionProduceResponse:
        hosted = self._replicas.by_name(topic, partition)
        traffic = self._traffic.elsewhere if hosted is None else self._traffic.of(topic)
        traffic.produces += 1
        refused = self._refused_unseen(body, topic, partition, records, hosted)
        if refused is not None:
            traffic.produce_failures += 1
            return refused
        assert hosted is not None
        assert records is not None
        assert not isinstance(records, bytes)
        appended = hosted.replica.append(now, records, body.acks, version)
        if appended.advanced:
            self._progress.advanced(hosted)
        if appended.error:
            traffic.produce_failures += 1
            answer = refusal(partition, appended.error, appended.message)
            if appended.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                replica = hosted.replica
                answer.current_leader = LeaderIdAndEpoch(replica.leader, replica.leader_epoch)
            return answer
        if not appended.duplicate:
            self._progress.grew(hosted)
            traffic.bytes_in += len(records)
            traffic.messages_in += appended.last_offset - appended.first_offset + 1
        answer = PartitionProduceResponse(
            partition, 0, appended.first_offset, appended.log_append_time, appended.log_start_offset
        )
        if body.acks == ACKS_ALL and not (appended.duplicate and self._answers_duplicates_early):
            wait = _Wait(hosted, appended.leader_epoch, appended.required_offset, answer)
            if not wait.is_over():
                waits.append(wait)
        return answer

    def _refused_unseen(
        self, body: ProduceRequest, topic: str, partition: int, records: Buffer | None, hosted: HostedPartition | None
    ) -> PartitionProduceResponse | None:
        """The response where the records need not be read."""
        if body.acks not in (ACKS_ALL, 0, 1):
            return refusal(partition, ErrorCode.INVALID_REQUIRED_ACKS)
        if body.transactional_id is not None:
            return refusal(partition, ErrorCode.INVALID_TXN_STATE, "There are no transactions here.")
        if hosted is None:
            return refusal(partition, self._replicas.absence(topic, partition))
        if records is None or not len(records):
            return refusal(partition, ErrorCode.INVALID_RECORD, ONE_BATCH)
        return None

    def _answer_silently(self, request: ServerRequest, response: ProduceResponse) -> None:
        failed = any(part.error_code for topic in response.responses for part in topic.partition_responses)
        if failed:
            request.close_connection()
        else:
            request.respond_nothing()

    def _park(
        self, now: int, request: ServerRequest, response: ProduceResponse, waits: list[_Wait], timeout_ms: int
    ) -> None:
        parked = ParkedRequest(request, response, waits, self._deadlines)
        parked.park(now + max(timeout_ms, 0) * 1000)


_EMPTY = ProduceRequest()


def refusal(partition: int, error: int, message: str | None = None) -> PartitionProduceResponse:
    """The response for a topic-partition to which nothing was appended."""
    return PartitionProduceResponse(partition, int(error), -1, -1, -1, error_message=message)
