"""UpdateRaftVoter (API key 82), version 0: a voter reports its current endpoints to the leader (KIP-853)."""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, struct, uint16, uuid


@message()
class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


@message()
class KRaftVersionFeature(Message):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=82, kind="request", versions=(0, 0), flexible=0)
class UpdateRaftVoterRequest(Message):
    cluster_id: str | None = string(default=None, nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


@message()
class CurrentLeader(Message):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


@message(api_key=82, kind="response", versions=(0, 0), flexible=0)
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: CurrentLeader = struct(CurrentLeader, versions="0+", tag=0)
