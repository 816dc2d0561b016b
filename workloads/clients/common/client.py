"""The protocol that every client implements, and the plan that a client receives.

A client serves the threads of its plan. `invoke` never raises for faults of the system under test: every failure
becomes a `Completion` (`errors.py` classifies them). Adapters of blocking libraries hide their threads; to callers
everything is a coroutine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from squall.workloads.core.operation import Completion, Operation

TopicPartition = tuple[str, int]

GENERATION_STRIDE = 10_000
"""The difference between a client's instance number and that of its predecessor."""


@dataclass(frozen=True)
class ClientPlan:
    """One client of a workload: its number, the threads it serves, its role and its topic-partitions.

    A poll of a `whole` consumer reads a log from its start to its end. A consumer with a `rack` names it in its
    requests, and reads from a follower nearby if the leader redirects it there (KIP-392). `batches_in_flight`, 1 to 5,
    is for each topic-partition; only native idempotent producers heed it.
    """

    client: int
    role: Literal["producer", "consumer", "admin", "metadata", "register"]
    threads: tuple[int, ...]
    topic_partitions: tuple[TopicPartition, ...]
    acks: Literal["all", "1", "0"] = "all"
    idempotent: bool = True
    record_size: int = 100
    batches_in_flight: int = 1
    from_beginning: bool = True
    whole: bool = False
    rack: str | None = None


class Client(Protocol):
    """Life of a client: open, setup, any number of invocations (concurrent ones if it serves many threads), end."""

    async def open(self) -> None:
        """Connect, or start the library. May raise OSError: the client is then unusable."""
        ...

    async def setup(self) -> None:
        """Prepare what the workload needs from the system; called once, before the first invocation."""
        ...

    async def invoke(self, operation: Operation) -> Completion: ...

    async def teardown(self) -> None:
        """Undo `setup`."""
        ...

    async def close(self) -> None:
        """Release everything; open invocations complete as `info`."""
        ...


class ClientFactory(Protocol):
    """A kind of client library: makes clients from plans."""

    @property
    def name(self) -> str: ...

    def client(self, plan: ClientPlan) -> Client: ...


@dataclass(frozen=True)
class Topic:
    """A topic to be created before the load starts."""

    name: str
    partitions: int
    replication_factor: int
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PartitionState:
    """A topic-partition as Metadata describes it; node ids, leader None while there is none."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class ClusterState:
    """A snapshot of the cluster: live brokers by node id, partitions, and the active controller if reported."""

    brokers: tuple[tuple[int, str, int], ...]
    partitions: tuple[PartitionState, ...]
    controller: int | None
    controller_epoch: int | None = None


class Admin(Protocol):
    """What the harness requests from a cluster besides load."""

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState: ...

    async def create_topics(self, topics: Sequence[Topic]) -> None: ...

    async def close(self) -> None: ...
