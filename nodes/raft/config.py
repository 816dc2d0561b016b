"""Configuration of one quorum replica. Durations are in microseconds.

Kafka's property names are given beside the fields; the node maps one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from squall.nodes.protocol.topic_partition import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_ID
from squall.nodes.storage.log import LogConfig

TOPIC, PARTITION = METADATA_PARTITION
TOPIC_ID = METADATA_TOPIC_ID

NEVER = 2**63 - 1
FETCH_MAX_WAIT = 500_000
"""How long a leader may hold an empty fetch, in microseconds; Kafka's constant."""
BATCH_BYTES_MAX = 64 << 20
"""Largest batch that the quorum itself writes. The controller bounds what one operation may write."""


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of `controller.quorum.voters`: `id@host:port`."""

    id: int
    host: str
    port: int
    directory_id: bytes = ZERO_ID
    """The directory of its log; all zeros while unknown."""


class Replication(Enum):
    """How records reach the voters. KRaft pulls; the others are Raft's, to compare with (`nodes.raft.push`)."""

    PULL = "pull"
    PUSH = "push"
    """AppendEntries; a refused one is tried again one record earlier."""
    PUSH_WITH_HINT = "push-with-hint"
    """A refusal names the epoch that conflicts and where it begins, so that the leader skips it whole."""

    @property
    def pushes(self) -> bool:
        return self is not Replication.PULL


@dataclass(frozen=True, slots=True)
class Variant:
    """What of KRaft is exchanged for comparisons, in simulation; no node on a host has another than `KRAFT`."""

    replication: Replication = Replication.PULL
    pre_vote: bool = True
    """Ask whether a majority would vote for this replica before it stands (KIP-996)."""
    announces_commits: bool = True
    """Respond to a waiting fetch when the high watermark moves. Kafka's leader lets it wait for records."""


KRAFT = Variant()


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """One replica of the metadata log: its identity, the voters, timeouts and limits."""

    node_id: int
    cluster_id: str
    directory_id: bytes
    voters: tuple[Voter, ...]
    directory: str = f"{TOPIC}-{PARTITION}"
    log: LogConfig = field(default_factory=lambda: LogConfig(max_message_bytes=BATCH_BYTES_MAX))
    dynamic_voters: bool = False
    """kraft.version 1: the voters are those of the log; the ones above are the initial set (KIP-853)."""
    bootstrap: tuple[tuple[str, int], ...] = ()
    """`controller.quorum.bootstrap.servers`: where to ask for the leader if no voter is known."""
    address: tuple[str, int] | None = None
    """Where this node listens as a voter; None to use its entry among the voters."""
    is_voter: bool | None = None
    """Whether this node takes part in elections; None means if its id is among the voters."""
    election_timeout: int = 1_000_000
    """`controller.quorum.election.timeout.ms`: an election starts after a random time between this and twice this."""
    election_backoff_max: int = 1_000_000
    """`controller.quorum.election.backoff.max.ms`."""
    fetch_timeout: int = 2_000_000
    """`controller.quorum.fetch.timeout.ms`: without a response to a fetch for this long, the leader counts as lost."""
    request_timeout: int = 2_000_000
    """`controller.quorum.request.timeout.ms`."""
    retry_backoff: int = 20_000
    """`controller.quorum.retry.backoff.ms`: doubles with each consecutive failure."""
    fetch_max_wait: int = FETCH_MAX_WAIT
    """How long a leader may hold an empty fetch; less than the fetch timeout, or an idle quorum elects all the time."""
    fetch_max_bytes: int = 8 << 20
    snapshot_fetch_max_bytes: int = 8 << 20
    """Most bytes of a snapshot per request and per response."""
    retention_bytes: int = 100 << 20
    """`metadata.max.retention.bytes`: limit of log and snapshots; -1 is any size.

    Above it, the oldest snapshot is deleted, and the log before the next one.
    """
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`metadata.max.retention.ms`: also delete a snapshot whose last record is older, in ms; -1 is forever."""
    variant: Variant = KRAFT

    def __post_init__(self) -> None:
        if len(self.directory_id) != 16:
            raise ValueError(f"directory_id has {len(self.directory_id)} bytes; a Kafka uuid has 16")
        if not self.voters and not self.bootstrap:
            raise ValueError("voters is empty; name at least one controller, as in 1@host:9093")
        ids = [voter.id for voter in self.voters]
        if len(frozenset(ids)) != len(ids):
            raise ValueError(f"voters name an id twice: {ids}")
        if self.is_voter and self.node_id not in ids and not self.dynamic_voters:
            raise ValueError(f"node {self.node_id} is a controller but not among the voters {ids}; add it to them")

    @property
    def votes(self) -> bool:
        """Whether this replica may vote, as a controller may, as opposed to a broker.

        With dynamic voters it votes while it is among them (`Quorum.votes`).
        """
        return self.endpoint(self.node_id) is not None if self.is_voter is None else self.is_voter

    @property
    def other_voters(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters if voter.id != self.node_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def endpoint(self, voter_id: int) -> Voter | None:
        """The voter with this id, None if there is none."""
        return next((voter for voter in self.voters if voter.id == voter_id), None)

    def endpoints(self) -> Mapping[int, Voter]:
        return {voter.id: voter for voter in self.voters}
