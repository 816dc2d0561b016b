"""Produce (API key 0), versions 3 to 12.

A producer's batches, one per topic-partition.

Versions 0 to 2 carried older record formats; a broker advertises them for the sake of old clients and serves none.
Version 7 allows zstd, 9 is flexible, 10 adds the current leader to the response as a hint. With acks=0 there is no
response.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, int64, message, records, string, struct
from squall.nodes.protocol.wire import Buffer


@message()
class PartitionProduceData(Message):
    index: int = int32()
    records: Buffer | None = records()


@message()
class TopicProduceData(Message):
    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, kind="request", versions=(3, 12), flexible=9)
class ProduceRequest(Message):
    transactional_id: str | None = string(default=None, nullable="0+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@message()
class BatchIndexAndErrorMessage(Message):
    batch_index: int = int32(versions="8+")
    batch_index_error_message: str | None = string(default=None, versions="8+", nullable="8+")


@message()
class LeaderIdAndEpoch(Message):
    leader_id: int = int32(default=-1, versions="10+")
    leader_epoch: int = int32(default=-1, versions="10+")


@message()
class PartitionProduceResponse(Message):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(default=-1, versions="5+")
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, versions="8+")
    error_message: str | None = string(default=None, versions="8+", nullable="8+")
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, versions="10+", tag=0)


@message()
class TopicProduceResponse(Message):
    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message()
class NodeEndpoint(Message):
    node_id: int = int32(versions="10+")
    host: str = string(versions="10+")
    port: int = int32(versions="10+")
    rack: str | None = string(default=None, versions="10+", nullable="10+")


@message(api_key=0, kind="response", versions=(3, 12), flexible=9)
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="10+", tag=0)
