"""DeleteRecords (API key 21), versions 0 to 2: raises log start offsets; offset -1 is the high watermark."""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, int64, message, string


@message()
class DeleteRecordsPartition(Message):
    partition_index: int = int32()
    offset: int = int64()


@message()
class DeleteRecordsTopic(Message):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(api_key=21, kind="request", versions=(0, 2), flexible=2)
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@message()
class DeleteRecordsPartitionResult(Message):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@message()
class DeleteRecordsTopicResult(Message):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(api_key=21, kind="response", versions=(0, 2), flexible=2)
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
