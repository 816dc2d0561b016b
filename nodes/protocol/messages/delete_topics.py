"""DeleteTopics (API key 20), versions 1 to 6.

Deletes topics: by name up to version 5, by name or id in version 6.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, uuid


@message()
class DeleteTopicState(Message):
    name: str | None = string(default=None, versions="6+", nullable="6+")
    topic_id: bytes = uuid(versions="6+")


@message(api_key=20, kind="request", versions=(1, 6), flexible=4)
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+")
    topic_names: list[str] = array("string", versions="1-5")
    timeout_ms: int = int32()


@message()
class DeletableTopicResult(Message):
    name: str | None = string(default=None, nullable="6+")
    topic_id: bytes = uuid(versions="6+")
    error_code: int = int16()
    error_message: str | None = string(default=None, versions="5+", nullable="5+")


@message(api_key=20, kind="response", versions=(1, 6), flexible=4)
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
