"""AddRaftVoter (API key 80), versions 0 to 1.

Adds a controller, by id and directory, to the voters of the metadata quorum (KIP-853). Version 1 allows a response
before the change is committed.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, message, string, uint16, uuid


@message()
class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=80, kind="request", versions=(0, 1), flexible=0)
class AddRaftVoterRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(default=True, versions="1+")


@message(api_key=80, kind="response", versions=(0, 1), flexible=0)
class AddRaftVoterResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
