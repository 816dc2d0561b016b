"""DescribeLogDirs (API key 35), versions 1 to 5.

The log directories of one broker, and which replicas they hold. Version 3 adds an error for the whole response, 4 the
size of the volume, 5 whether a directory accepts no new replicas.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string


@message()
class DescribableLogDirTopic(Message):
    topic: str = string()
    partitions: list[int] = array("int32")


@message(api_key=35, kind="request", versions=(1, 5), flexible=2)
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="1+")


@message()
class DescribeLogDirsPartition(Message):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@message()
class DescribeLogDirsTopic(Message):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@message()
class DescribeLogDirsResult(Message):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(default=-1, versions="4+")
    usable_bytes: int = int64(default=-1, versions="4+")
    is_cordoned: bool = boolean(versions="5+")


@message(api_key=35, kind="response", versions=(1, 5), flexible=2)
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
