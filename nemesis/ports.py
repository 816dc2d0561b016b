"""What the nemesis asks of the world: hosts that answer verbs, a view of the cluster to aim by, an operator's hands.

Both worlds fulfil these protocols. On hosts a `Host` is one SSH channel to `nemesis/agent`; in simulation it
is an object that answers the same verbs (docs/architecture.md has their table). Faults, evidence and schedules
are written against nothing else, so they exist once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

NODE_PROCESS = "node"
"""The name under which a host's Kafka node is defined (`proc.define`), and which process faults aim at."""

EVERYONE = "*"
"""As a source of `net.drop`: everyone but the control connection, in both directions."""


class VerbFailed(Exception):
    """The host answered, and the answer is no. `kind` is for programs, `error` for people.

    Kinds: `unknown_verb`, `bad_argument`, `unknown_process`, `not_running`, `unsupported`, `refused`, `failed`.
    """

    def __init__(self, host: str, verb: str, kind: str, error: str) -> None:
        super().__init__(f"{host}: {verb}: {error}")
        self.host = host
        self.verb = verb
        self.kind = kind
        self.error = error


class HostUnreachable(Exception):
    """No answer came from the host; whether the verb was carried out is unknown. Verbs may be repeated: all are
    idempotent for the same `id`."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host} is unreachable: {reason}")
        self.host = host
        self.reason = reason


class Host(Protocol):
    """One machine, real or simulated, that answers the verbs."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Its plain IP address, as its peers see it."""
        ...

    async def call(self, verb: str, **arguments: object) -> dict[str, object]:
        """Carries out `verb`. Raises `VerbFailed` or `HostUnreachable`."""
        ...


@dataclass(frozen=True)
class LoadHost:
    """A client host, and the names by which its agent knows the load workers there."""

    host: Host
    processes: tuple[str, ...]


class ClusterView(Protocol):
    """Who is who in the cluster at this moment, by host name; asked over the Kafka protocol."""

    @property
    def brokers(self) -> tuple[str, ...]: ...

    @property
    def controllers(self) -> tuple[str, ...]: ...

    @property
    def topics(self) -> Mapping[str, int]:
        """The number of topic-partitions of each topic under test."""
        ...

    async def leader(self, topic: str, partition: int) -> str | None: ...

    async def active_controller(self) -> str | None: ...

    async def in_sync(self, topic: str, partition: int) -> list[str]: ...

    async def replicas(self, topic: str, partition: int) -> list[str]:
        """All that the topic-partition is assigned to, in sync or not."""
        ...


class OperationRefused(Exception):
    """The cluster did not do what an operator asked, or nobody knows whether it did; the message says what and why."""


class ClusterOperator(Protocol):
    """What an operator asks of the cluster over the Kafka protocol, by host name. All raise `OperationRefused`."""

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        """Begin to move a topic-partition to these brokers; None cancels what is under way."""
        ...

    async def moving(self, topic: str, partition: int) -> list[str]:
        """The replicas of a topic-partition that is being moved, those that come and those that go among them, as the
        active controller has them; none if it is not being moved."""
        ...

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        """Let the first replica of each of these topic-partitions lead, where it can."""
        ...

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Give a topic a setting, or (None) the default."""
        ...

    async def setting_of(self, topic: str, name: str) -> str | None:
        """What a topic was given as that setting; None if nothing."""
        ...

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        """Make a topic; one that is there already is refused nothing."""
        ...

    async def create_partitions(self, topic: str, count: int) -> None:
        """Give a topic so many topic-partitions in all."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; that there is none is no refusal."""
        ...

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Which of these topics the metadata shows, and with how many topic-partitions."""
        ...

    async def voters(self) -> tuple[str, ...]:
        """Who votes in the metadata quorum, as its leader says."""
        ...

    async def remove_voter(self, host: str) -> None:
        """Take a controller out of the quorum (KIP-853)."""
        ...

    async def add_voter(self, host: str) -> None:
        """Let a controller that follows the quorum vote in it."""
        ...

    async def set_feature(self, name: str, level: int) -> None:
        """Set the level of a feature of the cluster; 0 switches it off."""
        ...


Knock = Callable[[str, int], Awaitable[str]]
"""What a TCP connection to an address and port finds from where clients are: `open`, `refused` or `silent`."""

NowNs = Callable[[], int]
"""The history's clock: monotonic nanoseconds."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for that many seconds of the world's time."""
