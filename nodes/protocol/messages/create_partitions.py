"""CreatePartitions (API key 37), versions 0 to 3.

Adds partitions to existing topics. `count` is the new total; `assignments=None` leaves the choice of replicas to the
controller.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, message, string


@message()
class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = array("int32")


@message()
class CreatePartitionsTopic(Message):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@message(api_key=37, kind="request", versions=(0, 3), flexible=2)
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@message()
class CreatePartitionsTopicResult(Message):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@message(api_key=37, kind="response", versions=(0, 3), flexible=2)
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
