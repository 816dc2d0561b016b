"""UpdateFeatures (API key 57), versions 0 to 2.

Changes the level of the cluster's features. Version 0 requests a downgrade by `allow_downgrade`, later ones by
`upgrade_type`: 1 upgrade only, 2 downgrade if nothing is lost, 3 downgrade in any case. From version 2 on there is one
error for all.
"""

from __future__ import annotations

from squall.nodes.protocol.schema import Message, array, boolean, int8, int16, int32, message, string


@message()
class FeatureUpdateKey(Message):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(versions="0")
    upgrade_type: int = int8(default=1, versions="1+")


@message(api_key=57, kind="request", versions=(0, 2), flexible=0)
class UpdateFeaturesRequest(Message):
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+")


@message()
class UpdatableFeatureResult(Message):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@message(api_key=57, kind="response", versions=(0, 2), flexible=0)
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, versions="0-1")
