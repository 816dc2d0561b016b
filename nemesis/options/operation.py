"""Options of operators' actions, which a cluster must bear beside faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from squall.nemesis.durations import Duration
from squall.nemesis.options.base import FaultOptions, Target, TopicPartitionTarget


class Reassign(FaultOptions):
    """Begins to move a topic-partition: `to` these brokers, or to as many by lot as it has, or as `replicas` says.

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
            raise ValueError("give either `to`, which names the brokers, or `replicas`, how many")
        return self


class ElectLeaders(FaultOptions):
    """The preferred replica of every topic-partition under test is asked to lead."""

    fault: Literal["elect-leaders"]


class AlterConfig(FaultOptions):
    """A topic has another setting while the window lasts, and `afterwards` (nothing: the default) once it is over."""

    fault: Literal["alter-config"]
    topic: str
    name: str
    value: str
    afterwards: str | None = None


class RemoveVoter(FaultOptions):
    """A controller is taken out of the quorum's voters (KIP-853), and let in again when the window is over."""

    fault: Literal["remove-voter"]
    target: Target


class AdminMix(FaultOptions):
    """Topics of its own are made, enlarged, set and deleted by lot, a step `every` so long, `topics` at the most."""

    fault: Literal["admin-mix"]
    every: Duration = 0.2
    topics: int = Field(default=3, ge=1, le=100)


class MoveController(FaultOptions):
    """The active controller stops cleanly, so that another becomes active; after `for` it is started again."""

    fault: Literal["move-controller"]
    patience: Duration = 10.0
