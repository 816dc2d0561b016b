"""RemoveRaftVoter (API key 81), version 0: removes a controller from the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, int16, int32, message, string, uuid


@message(api_key=81, kind="request", versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


@message(api_key=81, kind="response", versions=(0, 0), flexible=0)
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
