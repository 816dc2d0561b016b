"""The nemesis's interfaces to the world: hosts, a view of the cluster, an operator's requests.

Both worlds implement these protocols. On hosts a `Host` is one SSH channel to `nemesis/agent`; in simulation it is an
object that answers the same verbs (docs/architecture.md has their table). Faults, evidence and schedules use nothing
else, so they exist once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

NODE_PROCESS = "node"
"""The name under which a host's Kafka node is defined (`proc.define`), and at which process faults aim."""

EVERYONE = "*"
"""As a source of `net.drop`: all hosts but the control connection, in both directions."""


class VerbFailed(Exception):
    """The host answered with an error. `kind` is for programs, `error` for people.

    Kinds: `unknown_verb`, `bad_argument`, `unknown_process`, `not_running`, `unsupported`, `refused`, `failed`.
    """

    def __init__(self, host: str, verb: str, kind: str, error: str) -> None:
        super().__init__(f"{host}: {verb}: {error}")
        self.host = host
        self.verb = verb
        self.kind = kind
        self.error = error


class HostUnreachable(Exception):
    """No response came from the host; whether the verb was carried out is unknown. Verbs may be retried: all are
    idempotent for the same `id`.
    """

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
        """Carry out `verb`. Raises `VerbFailed` or `HostUnreachable`."""
        ...


@dataclass(frozen=True)
class LoadHost:
    """A client host, and the names under which its agent knows the load workers there."""

    host: Host
    processes: tuple[str, ...]


class ClusterView(Protocol):
    """The present roles in the cluster, by host name; queried over the Kafka protocol."""

    @property
    def brokers(self) -> tuple[str, ...]: ...

    @property
    def controllers(self) -> tuple[str, ...]:
        """The hosts of which one is the active controller: without a quorum, all brokers."""
        ...

    @property
    def zookeeper(self) -> tuple[str, ...]:
        """The servers of the ensemble that keeps the metadata; none with a quorum."""
        ...

    @property
    def topics(self) -> Mapping[str, int]:
        """The number of topic-partitions of each topic under test."""
        ...

    async def leader(self, topic: str, partition: int) -> str | None: ...

    async def active_controller(self) -> str | None: ...

    async def in_sync(self, topic: str, partition: int) -> list[str]: ...

    async def replicas(self, topic: str, partition: int) -> list[str]:
        """All replicas that the topic-partition is assigned to, in sync or not."""
        ...


class OperationRefused(Exception):
    """The cluster refused an operator's request, or its outcome is unknown; the message says what and why."""


class ClusterOperator(Protocol):
    """An operator's requests to the cluster over the Kafka protocol, by host name. All raise `OperationRefused`."""

    async def reassign(self, topic: str, partition: int, hosts: Sequence[str] | None) -> None:
        """Begin to move a topic-partition to these brokers; None cancels a move under way."""
        ...

    async def moving(self, topic: str, partition: int) -> list[str]:
        """The replicas of a topic-partition that is being moved, including those being added and removed, as the active
        controller lists them; empty if it is not being moved.
        """
        ...

    async def elect_preferred(self, topics: Mapping[str, int]) -> None:
        """Make the first replica of each of these topic-partitions its leader, where possible."""
        ...

    async def set_config(self, topic: str, name: str, value: str | None) -> None:
        """Set a topic's configuration value, or (None) restore the default."""
        ...

    async def setting_of(self, topic: str, name: str) -> str | None:
        """The value that was set for a topic; None if none was."""
        ...

    async def create_topic(self, topic: str, partitions: int, replicas: int) -> None:
        """Create a topic; no error if it exists already."""
        ...

    async def create_partitions(self, topic: str, count: int) -> None:
        """Increase a topic to this total number of topic-partitions."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; no error if it does not exist."""
        ...

    async def topics_told(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Which of these topics the metadata shows, and with how many topic-partitions."""
        ...

    async def voters(self) -> tuple[str, ...]:
        """The voters of the metadata quorum, as its leader reports."""
        ...

    async def remove_voter(self, host: str) -> None:
        """Remove a controller from the quorum's voters (KIP-853)."""
        ...

    async def add_voter(self, host: str) -> None:
        """Add a controller that follows the quorum to its voters."""
        ...

    async def unregister(self, host: str) -> None:
        """Remove the registration of a broker that is lost for ever (KIP-631)."""
        ...

    async def set_feature(self, name: str, level: int) -> None:
        """Set the level of a feature of the cluster; 0 switches it off."""
        ...

    async def level_of(self, feature: str) -> int:
        """The level of a feature of the cluster; 0 if it is off."""
        ...

    async def settings_of(self, host: str) -> Mapping[str, str]:
        """The settings by which a broker runs, as it reports them itself."""
        ...


Knock = Callable[[str, int], Awaitable[str]]
"""What a TCP connection to an address and port finds from the clients' side: `open`, `refused` or `silent`."""

NowNs = Callable[[], int]
"""The history's clock: monotonic nanoseconds."""

Sleep = Callable[[float], Awaitable[None]]
"""Wait for that many seconds of the world's time."""


class Plugins(Protocol):
    """What installed packages add here, by name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins, whether or not they can be loaded."""
        ...

    def load(self, name: str) -> Any:
        """Import a plugin. Raises ValueError, which names its package and says what would be right."""
        ...

    def origin(self, name: str) -> str:
        """The package that provides a plugin, with its version."""
        ...


class NoPlugins:
    """No package adds anything."""

    names: tuple[str, ...] = ()

    def load(self, name: str) -> Any:
        raise ValueError(f"no installed package provides {name}")

    def origin(self, name: str) -> str:
        return ""
