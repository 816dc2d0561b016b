"""ApiVersions (API key 18), versions 0 to 4.

Which APIs a listener serves, in which versions. The first request of a client.

Its response always has header version 0, and an unknown version gets a response in version 0 (see `headers`,
`session`).
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int16, int32, int64, message, string


@message(api_key=18, kind="request", versions=(0, 4), flexible=3)
class ApiVersionsRequest(Message):
    client_software_name: str = string(versions="3+")
    client_software_version: str = string(versions="3+")


@message()
class ApiVersion(Message):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@message()
class SupportedFeatureKey(Message):
    name: str = string(versions="3+")
    min_version: int = int16(versions="3+")
    max_version: int = int16(versions="3+")


@message()
class FinalizedFeatureKey(Message):
    name: str = string(versions="3+")
    max_version_level: int = int16(versions="3+")
    min_version_level: int = int16(versions="3+")


@message(api_key=18, kind="response", versions=(0, 4), flexible=3)
class ApiVersionsResponse(Message):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, versions="3+", tag=0)
    finalized_features_epoch: int = int64(default=-1, versions="3+", tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, versions="3+", tag=2)
    zk_migration_ready: bool = boolean(versions="3+", tag=3)
