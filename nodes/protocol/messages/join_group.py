"""JoinGroup (API key 11), versions 0 to 9.

A consumer requests membership from its group's coordinator. Version 1 adds the rebalance timeout, 5 static members, 7
the protocol's type in the response, 8 the reason, 9 `skip_assignment`.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, data, int16, int32, message, string


@message()
class JoinGroupRequestProtocol(Message):
    name: str = string()
    metadata: bytes = data()


@message(api_key=11, kind="request", versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(default=-1, versions="1+")
    member_id: str = string()
    group_instance_id: str | None = string(default=None, versions="5+", nullable="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(default=None, versions="8+", nullable="8+")


@message()
class JoinGroupResponseMember(Message):
    member_id: str = string()
    group_instance_id: str | None = string(default=None, versions="5+", nullable="5+")
    metadata: bytes = data()


@message(api_key=11, kind="response", versions=(0, 9), flexible=6)
class JoinGroupResponse(Message):
    throttle_time_ms: int = int32(versions="2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(default=None, versions="7+", nullable="7+")
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
