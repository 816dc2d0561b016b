"""UpdateFeatures: levels of the cluster's features (KIP-584, EL-06). A request's updates are all made, or none.

Switching eligible leader replicas off restores the ISRs to their form without them (`changes.eligible_leaders_end`).
Switching them on raises every partition epoch (`changes.eligible_leaders_begin`).
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.configs import safe_min_isr
from squall.nodes.controller.outcome import Outcome, Refused
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION, METADATA_VERSION_LEVEL, SUPPORTED
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import FeatureLevelRecord
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from squall.nodes.protocol.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NOT_MADE = "Not made, because another update of the request was refused."


class FeatureControl:
    """Decides over features. Works on the image it receives and changes nothing itself."""

    def __init__(
        self, topic_defaults: Mapping[str, str], changes: PartitionChanges, mutants: Mutants = HEALTHY
    ) -> None:
        self._topic_defaults = topic_defaults
        self._changes = changes
        self._raises_epochs = not mutants.has("switch-raises-no-epoch")

    def first_records(self, image: MetadataImage, *, eligible_leaders: bool) -> list[Message]:
        """The first records of a new cluster's log."""
        records: list[Message] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL)]
        return records + (self._level_records(image, ELIGIBLE_LEADER_REPLICAS, 1) if eligible_leaders else [])

    def update(self, image: MetadataImage, request: UpdateFeaturesRequest) -> Outcome:
        names = [update.feature for update in request.feature_updates]
        records: list[Message] = []
        results = []
        for update in request.feature_updates:
            result = UpdatableFeatureResult(feature=update.feature)
            results.append(result)
            try:
                if names.count(update.feature) > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST, f"{update.feature} is given more than once.")
                _check(image, update)
                if update.max_version_level != image.features.get(update.feature, 0):
                    records += self._level_records(image, update.feature, update.max_version_level)
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
        refused_any = any(result.error_code for result in results)
        for result in results if refused_any else ():
            if not result.error_code:
                result.error_code, result.error_message = ErrorCode.FEATURE_UPDATE_FAILED, NOT_MADE
        return Outcome(UpdateFeaturesResponse(results=results), () if refused_any or request.validate_only else records)

    def _level_records(self, image: MetadataImage, feature: str, level: int) -> list[Message]:
        records: list[Message] = [FeatureLevelRecord(name=feature, feature_level=level)]
        if feature == ELIGIBLE_LEADER_REPLICAS:
            records += self._changes.eligible_leaders_end(image) if level == 0 else ()
            records += safe_min_isr(image, self._topic_defaults) if level > 0 else ()
            records += self._changes.eligible_leaders_begin(image) if level > 0 and self._raises_epochs else ()
        return records


def _check(image: MetadataImage, update: FeatureUpdateKey) -> None:
    level = update.max_version_level
    low, high = SUPPORTED.get(update.feature, (0, -1))
    if high < 0:
        known = ", ".join(SUPPORTED)
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, f"{update.feature} is not a feature known here; {known} are.")
    if not low <= level <= high:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION, f"{update.feature} has levels {low} to {high} here, and no level {level}."
        )
    down = update.allow_downgrade or update.upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
    if level < image.features.get(update.feature, 0) and not down:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION, f"Level {level} of {update.feature} is a downgrade; ask for one (type 2)."
        )
