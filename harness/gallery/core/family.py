"""What the gallery needs of a family of systems (Apache Kafka, NATS), so that an entry may be about any of them.

A family says what of an entry does not fit it, starts the nodes of an arm, and observes them. Everything else (steps,
clients as programs, evidence of faults, history, checks) is the same for all. The families are listed in
`squall.harness.gallery.families`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from squall.harness.gallery.core.entry import Arm, Entry
from squall.harness.gallery.core.frame_proxy import FrameProxy
from squall.harness.gallery.core.node_process import NodeProcess
from squall.harness.gallery.core.observations import Marked, Place, Position, Read
from squall.harness.gallery.core.steps import HoldWrites, WriteRegister

Say = Callable[[str], None]
Problem = tuple[tuple[str | int, ...], str]
"""Where in an entry's file something is wrong, and what."""


def without_registers(entry: Entry) -> Iterator[Problem]:
    """Yield what a family of logs has not: an entry without topics, and steps on registers."""
    if not entry.cluster.topics:
        yield ("cluster", "topics"), "name at least one topic"
    for at, step in enumerate(entry.schedule):
        if isinstance(step, HoldWrites | WriteRegister):
            yield ("schedule", at), f"{step.do}: is for etcd"


class Observer(Protocol):
    """What stands beside the client under test, by a library of its own."""

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> None:
        """Create a topic and wait until its replicas are in sync. Raises NotReproduced."""

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """The leader (-1: none) and the replicas that have all that the leader has, as far as they are known."""

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Begin to move a topic-partition to these brokers. Raises NotReproduced."""

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something holds. Raises NotReproduced."""

    def position(self, group: str, topic: str, partition: int) -> Position:
        """Read a group's committed position. Raises NotReproduced."""

    def read_register(self, name: str) -> Position:
        """Read a register. Raises NotReproduced."""

    def mark(self, places: Sequence[Place]) -> list[Marked]:
        """Append a marker to each topic-partition: what a final read must reach. Raises NotReproduced."""

    def read_all(self, markers: Sequence[Marked]) -> list[Read]:
        """Read every record of these topic-partitions, up to their markers. Raises NotReproduced."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What the history alone does not say of the final reads."""


@dataclass(frozen=True)
class Stage:
    """The nodes of an arm, running, and what stands beside them."""

    nodes: Mapping[int, NodeProcess]
    bootstrap: str
    """The addresses that a client begins with."""
    proxies: Mapping[int, FrameProxy]
    observer: Observer


class Family(Protocol):
    """A family of systems."""

    def problems(self, entry: Entry) -> Iterator[Problem]:
        """Yield what of an entry this family has not."""

    def command_of(self, arm: Arm, say: Say) -> list[str]:
        """The command line of the client's program. Raises UsageError if it cannot be had."""

    def settings_of(self, arm: Arm, bootstrap: str) -> dict[str, str]:
        """The settings with which the client's program opens its producer."""

    def stage(self, arm: Arm, work: Path, kept: Path, say: Say, stack: ExitStack) -> Stage:
        """Start the nodes and wait until they are ready; `stack` ends them, and keeps their logs in `kept`.

        Raises NotReproduced, and UsageError if something is missing on this machine.
        """
