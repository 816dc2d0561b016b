"""DP-14, DP-13: a Fetch is answered from the log at that position, and a diverged follower is made to truncate.

Who fetches goes on from the last record that it got, and believes the offsets that come with it. A broker that answers
from a wrong place, or with more than may be read, harms its readers long before anything else is wrong. Asserted when a
broker answers a Fetch, for each topic-partition of the answer; where it holds no error:

* high watermark and log start are the replica's;
* the position is within the log, from its start to its end;
* the records begin with the batch that holds the position, and follow one another; a consumer gets none at or above the
  high watermark;
* a follower is told to truncate if the record before its position is of a later epoch than the one that it names, or of
  an earlier one and the log has no record of the one named (KIP-279); and not if it is of that very epoch. Where it is
  told to, no record of a later epoch than the one named lies below that, and it gets none;
* there are at most as many bytes as the fetch allows of a topic-partition, and of all of them. One batch alone may be
  larger, so that who fetches goes on (KIP-74): of one topic-partition, and if it is larger than the whole allows, the
  others are left out.

With an error, high watermark, log start, and the leader who is named instead are the replica's, or not stated.

Legal: no records at all; batches that were compressed or begin before the log does. Whether an error has a reason is
the concern of `reasons_to_refuse.py`.

Source: DP-13, DP-14; rules 11, 13 and 18.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from squall.harness.simulation.observer.rules.rule import (
    Rule,
    is_of_follower,
    is_of_quorum,
    node_of_quorum,
    replica_named,
)
from squall.harness.simulation.observer.state.fetch_positions import Place, place_of, positions_asked
from squall.harness.simulation.observer.state.observed_log import READ_BYTES, Batch, InvariantBroken, batches_of
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica

NO_EPOCH = -1
NOT_STATED = -1


class FetchedRecords(Rule):
    """See the module."""

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse):
            return
        if node_of_quorum(node) is None:
            return
        replicas, is_follower = node.broker.replicas, is_of_follower(asked)
        positions = positions_asked(node, asked, told) if told.responses else {}
        if not is_of_quorum(asked):  # `fetch.max.bytes` is for brokers' fetches
            check_sizes(process.name, min(max(asked.max_bytes, 0), node.config.fetch_max_bytes), told, positions)
        for topic in told.responses:
            for one in topic.partitions:
                position = positions.get(place_of(topic, one.partition_index))
                replica = replica_named(replicas, topic.topic, bytes(topic.topic_id), one.partition_index)
                if replica is not None and one.error_code:
                    _check_refusal(process.name, replica, one)
                elif replica is not None and position is not None:
                    _check(process.name, replica, position, one, is_follower=is_follower)


def check_sizes(name: str, most: int, told: FetchResponse, asked: Mapping[Place, FetchPartition]) -> None:
    """Check that what is sent is within what is allowed, but for one batch that is larger by itself."""
    total = parts = large = 0
    for topic in told.responses:
        for one in topic.partitions:
            position = asked.get(place_of(topic, one.partition_index))
            size = len(one.records or b"")
            total += size
            parts += size > 0
            if position is None or size <= max(position.partition_max_bytes, 0):
                continue
            large += 1
            if large > 1 or _is_more_than_one_batch(one):
                raise InvariantBroken(
                    "DP-14",
                    f"{name} answers a fetch of at most {position.partition_max_bytes} bytes of partition "
                    f"{one.partition_index} with {size}, and that is not one batch alone",
                )
    alone = parts == 1 and not any(_is_more_than_one_batch(one) for topic in told.responses for one in topic.partitions)
    if total > most and not alone:
        raise InvariantBroken("DP-14", f"{name} answers a fetch of at most {most} bytes with {total}")


def _is_more_than_one_batch(told: PartitionData) -> bool:
    return sum(1 for _ in islice(iterate_batches(told.records or b"", torn_tail=True), 2)) > 1


def _check_refusal(name: str, replica: TopicPartitionReplica, told: PartitionData) -> None:
    instead = told.current_leader
    stated = (told.high_watermark, told.log_start_offset, instead.leader_id, instead.leader_epoch)
    held = (replica.high_watermark, replica.log.start_offset, replica.leader, replica.leader_epoch)
    if any(one not in (NOT_STATED, other) for one, other in zip(stated, held, strict=True)):
        raise InvariantBroken(
            "DP-14",
            f"{name} refuses a fetch of {replica.topic}-{replica.partition}, and states high watermark, log start, "
            f"leader and leader epoch as {stated}; they are {held}",
        )


def _check(
    name: str, replica: TopicPartitionReplica, asked: FetchPartition, told: PartitionData, *, is_follower: bool
) -> None:
    place, offset = f"{replica.topic}-{replica.partition}", asked.fetch_offset
    start, end, committed = replica.log.start_offset, replica.end_offset, replica.high_watermark
    if (told.log_start_offset, told.high_watermark) != (start, committed):
        raise InvariantBroken(
            "DP-14",
            f"{name} answers a fetch of {place} with log start {told.log_start_offset} and high watermark "
            f"{told.high_watermark}; they are {start} and {committed}",
        )
    if told.diverging_epoch.epoch != NO_EPOCH or told.diverging_epoch.end_offset != NO_EPOCH:
        _check_divergence(name, replica, asked, told)
        if told.records:
            size = len(told.records)
            raise InvariantBroken("DP-13", f"{name} tells a follower of {place} to truncate, and sends it {size} bytes")
        return
    if not start <= offset <= end:
        raise InvariantBroken(
            "DP-14", f"{name} answers a fetch of {place} from {offset} without an error; it has {start} to {end}"
        )
    _check_records(name, place, offset, told, end if is_follower else committed)
    if is_follower and asked.last_fetched_epoch != NO_EPOCH and start < offset < end:
        before = _holding(replica, offset - 1)
        if before is not None and _differ(replica, before.epoch, asked.last_fetched_epoch):
            raise InvariantBroken(
                "DP-13",
                f"{name} lets a follower of {place} go on from {offset} after a record of epoch "
                f"{asked.last_fetched_epoch}; the record before is of epoch {before.epoch}",
            )


def _check_records(name: str, place: str, offset: int, told: PartitionData, limit: int) -> None:
    position = None
    for header, _ in iterate_batches(told.records or b"", torn_tail=True):
        fits = (
            header.base_offset <= offset <= header.last_offset if position is None else header.base_offset >= position
        )
        if not fits or header.last_offset >= limit:
            raise InvariantBroken(
                "DP-14",
                f"{name} answers a fetch of {place} from {offset}, which may reach up to {limit}, with a batch of the "
                f"offsets {header.base_offset} to {header.last_offset}"
                + ("" if position is None else f" after one that ends before {position}"),
            )
        position = header.last_offset + 1


def _check_divergence(name: str, replica: TopicPartitionReplica, asked: FetchPartition, told: PartitionData) -> None:
    epoch, end = told.diverging_epoch.epoch, told.diverging_epoch.end_offset
    batches = list(_batches(replica))
    before = next((one for one in batches if one.base <= asked.fetch_offset - 1 <= one.last), None)
    agrees = before is not None and before.epoch == asked.last_fetched_epoch
    later = next((one.base for one in batches if one.epoch > asked.last_fetched_epoch), replica.end_offset)
    if agrees or epoch > asked.last_fetched_epoch or end > max(later, replica.log.start_offset):
        raise InvariantBroken(
            "DP-13",
            f"{name} tells a follower of {replica.topic}-{replica.partition}, which goes on from {asked.fetch_offset} "
            f"after a record of epoch {asked.last_fetched_epoch}, to truncate to offset {end} of epoch {epoch}; its "
            f"own record before is {before}, and its first batch of a later epoch begins at {later}",
        )


def _differ(replica: TopicPartitionReplica, epoch: int, named: int) -> bool:
    """Return whether the leader's record, of `epoch`, differs from the follower's, which is of epoch `named`."""
    if epoch > named:
        return True
    return epoch < named != replica.leader_epoch and all(one.epoch != named for one in _batches(replica))


def _holding(replica: TopicPartitionReplica, offset: int) -> Batch | None:
    return next((one for one in _batches(replica, offset) if one.base <= offset <= one.last), None)


def _batches(replica: TopicPartitionReplica, begin: int = 0) -> Iterator[Batch]:
    """Yield the batches of a log, from `begin` on. The first one may begin before that, and before the log does."""
    found = batches_of(
        lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True),
        max(begin, replica.log.start_offset),
        replica.end_offset,
    )
    return (batch for batch, _ in found)
