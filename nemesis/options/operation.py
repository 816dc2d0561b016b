"""Options of operators' actions, which a cluster must bear beside faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.core.durations import Duration
from squall.nemesis.options.base import FaultOptions, Target, TopicPartitionTarget


class Reassign(FaultOptions):
    """Starts to move a topic-partition to the brokers `to`, or to random ones: as many as it has now, or `replicas`.

    With `cancel` it is cancelled when the window ends, if it is still under way then.
    """

    fault: Literal["reassign"]
    target: TopicPartitionTarget
    hosts: Target | None = Field(default=None, alias="to")
    replicas: int | None = Field(default=None, ge=1)
    cancel: bool = False

    @model_validator(mode="after")
    def _one_of_them(self) -> Reassign:
        if self.hosts is not None and self.replicas is not None:
            raise ValueError("give either `to` (which brokers) or `replicas` (how many), not both")
        return self


class ElectLeaders(FaultOptions):
    """Requests a preferred leader election for every topic-partition under test."""

    fault: Literal["elect-leaders"]


class AlterConfig(FaultOptions):
    """Sets a topic's config `name` to `value` during the window, then to `afterwards` (not given: the default)."""

    fault: Literal["alter-config"]
    topic: str
    name: str
    value: str
    afterwards: str | None = None


class SetFeature(FaultOptions):
    """Sets a feature of the cluster to `level` (0: off), then to `afterwards` (not given: the level before)."""

    fault: Literal["set-feature"]
    feature: str
    level: int = Field(ge=0, le=32767)
    afterwards: int | None = Field(default=None, ge=0, le=32767)


class RemoveVoter(FaultOptions):
    """Removes a controller from the quorum's voters (KIP-853) and adds it again when the window ends."""

    fault: Literal["remove-voter"]
    target: Target


class AdminMix(FaultOptions):
    """Creates, enlarges, reconfigures and deletes at most `topics` topics of its own, one random step per `every`."""

    fault: Literal["admin-mix"]
    every: Duration = 0.2
    topics: int = Field(default=3, ge=1, le=100)


class MoveController(FaultOptions):
    """Stops the active controller cleanly, so that another becomes active; starts it again after `for`."""

    fault: Literal["move-controller"]
    patience: Duration = 10.0
