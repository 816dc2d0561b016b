"""Add the cluster's features to an ApiVersions response (KIP-584).

These are the levels that this node supports, and the levels in the metadata that it has applied, with the offset of
that metadata as their epoch.

Before version 4 a client cannot read that a feature may have level 0, that is, be absent; Kafka omits those there.
"""

from __future__ import annotations

from squall.nodes.metadata.features import SUPPORTED
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.protocol.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey

LEVEL_ZERO_SINCE = 4


def announce(response: ApiVersionsResponse, version: int, image: MetadataImage) -> ApiVersionsResponse:
    response.supported_features = [
        SupportedFeatureKey(name, low, high)
        for name, (low, high) in SUPPORTED.items()
        if low > 0 or version >= LEVEL_ZERO_SINCE
    ]
    if image.features:
        response.finalized_features_epoch = image.last_offset
        response.finalized_features = [
            FinalizedFeatureKey(name, level, level) for name, level in image.features.items()
        ]
    return response
