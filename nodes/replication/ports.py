"""Types exchanged between one topic-partition's replica and its broker.

`PartitionState` is the only input for configuration (DP-12): the KRaft broker makes it from replayed metadata, another
kind of controller may make it otherwise; a replica cannot distinguish them. `BrokerView` is what the replica may know
of other brokers. Everything else here is a result: the replica returns facts and never calls upwards, the broker turns
them into responses and requests.

Errors are Kafka's error codes (`protocol.errors`), 0 meaning none. Objects made for every request are named tuples,
which cost a third of a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The controller's decision on one topic-partition, as of `partition_epoch`.

    `leader` is -1 where there is none. `min_insync_replicas` is the topic's setting; the effective one is the lesser of
    it and the number of replicas.
    """

    topic_id: bytes
    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    min_insync_replicas: int = 1


class BrokerView(Protocol):
    """Other brokers in this broker's metadata (rule 19, KIP-841, KIP-903)."""

    def broker_epoch(self, broker: int) -> int | None:
        """The epoch of a registered broker, None if it is not registered. This broker's own included."""
        ...

    def is_eligible(self, broker: int) -> bool:
        """Whether the broker is registered, unfenced and not in controlled shutdown, so that it may join an ISR."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """Kafka's settings that concern one replica or one fetcher; durations in microseconds."""

    lag_time_max: int = 30_000_000
    """`replica.lag.time.max.ms`: a follower not caught up for this long leaves the ISR."""
    fetch_wait_max: int = 500_000
    """`replica.fetch.wait.max.ms`: how long a leader may hold a follower's empty fetch."""
    fetch_min_bytes: int = 1
    """`replica.fetch.min.bytes`."""
    fetch_max_bytes: int = 1 << 20
    """`replica.fetch.max.bytes`: per topic-partition."""
    fetch_response_max_bytes: int = 10 << 20
    """`replica.fetch.response.max.bytes`: per response."""
    fetch_backoff: int = 1_000_000
    """`replica.fetch.backoff.ms`: how long a topic-partition pauses after an error."""
    request_timeout: int = 30_000_000
    """`replica.socket.timeout.ms`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What `apply` changed. `stale` means the state was older than the replica's own and was ignored."""

    stale: bool = False
    became_leader: bool = False
    new_leader_epoch: bool = False
    high_watermark_advanced: bool = False


class AppendAnswer(NamedTuple):
    """The result of a produced batch.

    acks=all is complete once `produce_status(leader_epoch, required_offset)` reports it, also for a duplicate (rule 7).
    `advanced` reports that the high watermark moved: parked requests may be complete.
    """

    error: int
    first_offset: int = -1
    last_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    leader_epoch: int = -1
    duplicate: bool = False
    advanced: bool = False
    message: str | None = None

    @property
    def required_offset(self) -> int:
        """The high watermark at which acks=all is met."""
        return self.last_offset + 1


class FetchBounds(NamedTuple):
    """The result of a fetch at `offset`: records in [offset, upper), or a divergence, or an error.

    `diverging` is (epoch, end offset) for a fetcher whose log is not a prefix of this one (rule 13); such a fetch gets
    no records. `leader` and `leader_epoch` hint a fetcher that asked the wrong broker. `advanced` reports that this
    fetch moved the high watermark.
    """

    error: int
    offset: int = -1
    upper: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: tuple[int, int] | None = None
    leader: int = -1
    leader_epoch: int = -1
    advanced: bool = False


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """The result of ListOffsets for one topic-partition; offset -1 if no record qualifies."""

    error: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EpochEndAnswer:
    """The result of OffsetForLeaderEpoch; (-1, -1) if the epoch is unknown."""

    error: int
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An ISR that the leader asks the controller to commit (AlterPartition).

    `isr` pairs each member with the broker epoch of its last fetch (-1 if it has not fetched), so that the controller
    can refuse a member that has restarted since (IS-08). Proposals are compared by identity: the response to an
    outdated one means nothing (rule 21).
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    grows: bool = False
    """Whether a member is to join; otherwise some are to leave."""

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(broker for broker, _ in self.isr)


@dataclass(frozen=True, slots=True)
class ProposalAnswer:
    """The controller's response to a proposal: an error, or its current state."""

    error: int
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class FetchPosition(NamedTuple):
    """A follower's next fetch. `last_fetched_epoch` is -1 for an empty log."""

    offset: int
    last_fetched_epoch: int
    leader_epoch: int
    log_start_offset: int
