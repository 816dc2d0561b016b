"""`RaftReplica`: one replica of the metadata log, voter or observer (QC-01..22, rules 32..38).

Differs from textbook Raft as KRaft does: followers pull (Fetch), so the leader announces itself (BeginQuorumEpoch) and
announces its end (EndQuorumEpoch); the offset of the next fetch is the acknowledgement; observers fetch like followers
but neither vote nor count. Vote is as in Raft. The roles and their transitions are in `transitions`.

Contract with its host, besides the component grammar of docs/architecture.md:

1. `handle_…` and completions queue responses and requests; none may leave this host before `flush(now)` has returned.
   What must precede a response is then durable: votes and epochs are written at once, the log by `flush`.
2. After `flush`, `high_watermark` may have moved; `committed(offset)` returns the batches to apply.
3. The host watches leadership through `leader_and_epoch`; `append` raises `NotLeader` once it is lost.
4. `InvariantViolation` and OSError mean that the node must stop. A peer's message never raises either: an impossible
   one is refused (`Implausible`), which `Core.refuse` reports.

Only voters flush: an observer counts for nothing and fetches lost records again (QC-20).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Rng, Trace, WallClock
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest
from squall.nodes.raft.config import NEVER, RaftConfig
from squall.nodes.raft.core import Core, load_voters
from squall.nodes.raft.elections import Elections
from squall.nodes.raft.errors import InvariantViolation, NotLeader
from squall.nodes.raft.metadata_log import CommittedBatch, MetadataLog
from squall.nodes.raft.quorum_state import QuorumStateStore
from squall.nodes.raft.replication import Fetcher, FetchService
from squall.nodes.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from squall.nodes.raft.snapshot_fetch import SnapshotService
from squall.nodes.raft.snapshot_file import ControlRecord
from squall.nodes.raft.snapshots import SnapshotId, Snapshots, SnapshotWriter
from squall.nodes.raft.transitions import Quorum
from squall.nodes.raft.voter_changes import VoterChanges
from squall.nodes.raft.voters import KRAFT_VERSION, KRAFT_VOTERS, VoterSet, kraft_version_record, voters_record

__all__ = ["CommittedBatch", "RaftReplica"]

TRANSITIONS_PER_TICK = 4
"""A transition may leave work to do at once. A quorum of one whose process died as a candidate may draw a back-off of
zero. In one tick it then loses that election, is prospective, candidate of the next epoch, and leader."""


class Pusher(Protocol):
    """What a strategy does that pushes: the leader's and the followers' side."""

    def __init__(self, core: Core, service: FetchService, fetcher: Fetcher) -> None: ...
    def run_leader(self, now: int, role: Leader) -> None: ...
    def run_follower(self, now: int, role: Follower) -> None: ...
    def wake(self, now: int) -> None: ...
    def handle_append_entries(self, now: int, request: ServerRequest) -> None: ...


class RaftReplica:
    """See the module. Starting reads the files and takes up a role; nothing is sent before the first `tick`."""

    def __init__(
        self,
        config: RaftConfig,
        *,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
        pusher: type[Pusher] | None = None,
    ) -> None:
        """`pusher` replicates in place of fetches between voters (`nodes.raft.push`)."""
        self.config = config
        self.mutants = mutants
        self._takes_all_for_committed = mutants.has("uncommitted-metadata-applied") and not config.votes
        # The log first: its recovery makes the name of the quorum-state file durable before the state is relied on.
        log = MetadataLog(config, disk=disk, now_ms=clock.now_ms(), trace=trace, mutants=mutants, buggify=buggify)
        store = QuorumStateStore(disk, config.directory, mutants)
        quorum = Quorum(config, store, rng=rng, trace=trace, buggify=buggify)
        load_voters(quorum.voters, log)
        quorum.start(now, log.last_epoch)
        self._core = Core(config, quorum, log, clock=clock, trace=trace, mutants=mutants, buggify=buggify)
        self.requests: list[OutboundRequest] = self._core.requests
        """Requests to other voters; the node drains the list after each turn."""
        self.snapshots: Snapshots = log.snapshots
        """The local snapshots."""
        self._votes = config.votes
        self._elections = Elections(self._core)
        self._service = FetchService(self._core)
        self._snapshot_service = SnapshotService(self._core)
        self._fetcher = Fetcher(self._core, rng)
        self._push = None if pusher is None else pusher(self._core, self._service, self._fetcher)
        self._voter_changes = VoterChanges(self._core)
        self._patience = config.fetch_timeout * 3 // 2
        """How long a leader continues without fetches from a majority (QC-18): 1.5 fetch timeouts."""
        self._closed = False
        self._snapshots_pass_high_watermark = mutants.has("snapshot-above-hw")

    # -- public state -----------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self._core.quorum.role

    @property
    def epoch(self) -> int:
        return self._core.quorum.epoch

    @property
    def leader_and_epoch(self) -> tuple[int | None, int]:
        quorum = self._core.quorum
        return quorum.leader_id, quorum.role.epoch

    @property
    def is_leader(self) -> bool:
        return isinstance(self._core.quorum.role, Leader)

    @property
    def epoch_start_offset(self) -> int:
        """The offset at which this leader's epoch began; earlier records may be other leaders'. Raises NotLeader."""
        return self._leader().epoch_start_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, as far as this replica knows. Never falls while it runs.

        Mutant `uncommitted-metadata-applied`: a broker takes everything fetched as committed.
        """
        if self._takes_all_for_committed:
            return self.end_offset
        return self._core.high_watermark

    @property
    def pulls(self) -> bool:
        """Whether followers fetch, as in KRaft; a leader pushes otherwise."""
        return self._push is None

    @property
    def voters(self) -> VoterSet:
        """The voters by the local log, committed or not (rule 40)."""
        return self._core.voters.latest

    @property
    def voters_uncommitted(self) -> bool:
        """Whether the last change of the voters may still be undone."""
        return self._core.voters.latest_offset >= self._core.high_watermark

    @property
    def votes(self) -> bool:
        """Whether this replica is one of the voters."""
        return self._core.quorum.counts

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        """Address of a voter, or of a bootstrap server for a number below -1."""
        return self._core.address_of(voter)

    @property
    def end_offset(self) -> int:
        return self._core.log.end_offset

    @property
    def log(self) -> MetadataLog:
        """The local copy, for checks and dumps."""
        return self._core.log

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]:
        """Committed batches in order, from the batch that holds `from_offset`."""
        return self._core.log.batches(from_offset, self.high_watermark)

    def batches(self, from_offset: int, upper: int) -> Iterator[CommittedBatch]:
        """Batches up to any offset. Uncommitted batches may still be replaced."""
        return self._core.log.batches(from_offset, upper)

    # -- snapshots --------------------------------------------------------------------------------------------

    def snapshot_before(self, next_offset: int) -> SnapshotId | None:
        """The snapshot to load after replaying everything below `next_offset`; None if the log continues there.

        A caller that begins at 0 gets a snapshot even where the log is whole (SN-04).
        """
        latest = self.snapshots.latest
        begins_here = next_offset >= self._core.log.start_offset and next_offset > 0
        return None if begins_here or latest is None or latest.end_offset <= next_offset else latest

    def begin_snapshot(self, snapshot_id: SnapshotId, timestamp_ms: int) -> SnapshotWriter:
        """Begin a snapshot of the replayed state; everything in it is committed (SN-02, rule 39). Raises ValueError.

        Mutant `snapshot-above-hw`: accepts uncommitted records too.
        """
        limit = self.end_offset if self._snapshots_pass_high_watermark else self.high_watermark
        if snapshot_id.end_offset > limit:
            raise ValueError(f"snapshot {snapshot_id} would pass the high watermark {limit}")
        self._core.log.flush()
        return self.snapshots.create(snapshot_id, timestamp_ms, self._quorum_records(snapshot_id.end_offset))

    def _quorum_records(self, end_offset: int) -> list[ControlRecord]:
        """The quorum's own records below an offset, which a snapshot also includes."""
        voters = self._core.voters.at(end_offset)
        if voters is None:
            return []
        return [
            ControlRecord(KRAFT_VERSION, kraft_version_record()),
            ControlRecord(KRAFT_VOTERS, voters_record(voters)),
        ]

    def finish_snapshot(self, writer: SnapshotWriter) -> bool:
        """Put a snapshot in place and delete old ones. If a newer one has arrived, delete it and return False."""
        latest = self.snapshots.latest
        if latest is not None and latest.end_offset >= writer.id.end_offset:
            writer.abandon()
            return False
        writer.finish()
        self._core.log.retain(self._core.clock.now_ms())
        return True

    # -- writing ----------------------------------------------------------------------------------------------

    def append(self, now: int, batches: Sequence[Sequence[bytes]]) -> int:
        """Append batches of record values; each batch is atomic. Return the last offset. Raises NotLeader.

        Committed once `high_watermark` has passed that offset; lost if leadership is lost before.
        """
        role = self._leader()
        last_offset = self._core.log.end_offset - 1
        for values in batches:
            last_offset = self._core.log.append(values, role.epoch, self._core.clock.now_ms())
        self._service.wake(now)
        if self._push is not None:
            self._push.wake(now)
        return last_offset

    def flush(self, now: int) -> None:
        """Make the log durable and, as leader, count it. Queued messages may be sent after this."""
        if self._votes:
            self._core.log.flush()
            self._service.advance(now)
            if self._push is not None:
                self._push.wake(now)
            self._voter_changes.advance(now)

    def resign(self, now: int) -> None:
        """Resign as leader, for a controller that cannot continue. Raises NotLeader."""
        self._leader()
        self._core.quorum.resign(now)
        self._core.fail_parked_unless_leading()

    def close(self, now: int) -> None:
        """Stop cleanly: a leader hands over first (QC-12). The host still sends requests queued here."""
        if self._closed:
            return
        self._closed = True
        if self.is_leader:
            self.resign(now)
            role = self.role
            assert isinstance(role, Resigned)
            self._elections.send_end_quorum_epoch(now, role)
        self._fetcher.download.give_up()
        self._core.log.flush()
        self._core.log.close()

    def _leader(self) -> Leader:
        role = self.role
        if not isinstance(role, Leader):
            raise NotLeader(*self.leader_and_epoch)
        return role

    # -- requests from others ---------------------------------------------------------------------------------

    def handle_vote(self, now: int, request: ServerRequest) -> None:
        self._elections.handle_vote(now, request)

    def handle_begin_quorum_epoch(self, now: int, request: ServerRequest) -> None:
        self._elections.handle_begin_quorum_epoch(now, request)

    def handle_end_quorum_epoch(self, now: int, request: ServerRequest) -> None:
        self._elections.handle_end_quorum_epoch(now, request)

    def handle_add_raft_voter(self, now: int, request: ServerRequest) -> None:
        self._voter_changes.handle_add(now, request)

    def handle_remove_raft_voter(self, now: int, request: ServerRequest) -> None:
        self._voter_changes.handle_remove(now, request)

    def handle_update_raft_voter(self, now: int, request: ServerRequest) -> None:
        self._voter_changes.handle_update(now, request)

    def handle_fetch(self, now: int, request: ServerRequest) -> None:
        self._service.handle_fetch(now, request)

    def handle_append_entries(self, now: int, request: ServerRequest) -> None:
        """Raises InvariantViolation at a replica that pulls: its listener does not offer this."""
        if self._push is None:
            raise InvariantViolation(f"node {self.config.node_id} pulls, and was sent AppendEntries")
        self._push.handle_append_entries(now, request)

    def handle_fetch_snapshot(self, now: int, request: ServerRequest) -> None:
        self._snapshot_service.handle_fetch_snapshot(now, request)

    def handle_describe_quorum(self, now: int, request: ServerRequest) -> None:
        self._service.handle_describe_quorum(now, request)

    # -- time -------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Do what is due: elections, fetches, announcements, responses to fetches that have waited long enough."""
        if self._closed:
            return
        role = self._core.quorum.role
        if isinstance(role, Follower) and role.deadline() > now:  # nothing is due in most turns of a follower
            self._voter_changes.advance(now)
            return
        for _ in range(TRANSITIONS_PER_TICK):
            self._run(now)
            role = self._core.quorum.role
            if role.deadline(self._patience) > now and not isinstance(role, (Prospective, Candidate)):
                break
        self._voter_changes.advance(now)

    def _run(self, now: int) -> None:
        role = self.role
        if isinstance(role, Unattached):
            self._fetcher.run_unattached(now, role)
        elif isinstance(role, Follower):
            (self._push or self._fetcher).run_follower(now, role)
        elif isinstance(role, Prospective):
            self._elections.run_prospective(now, role)
        elif isinstance(role, Candidate):
            self._elections.run_candidate(now, role)
        elif isinstance(role, Resigned):
            self._elections.run_resigned(now, role)
        elif now >= role.resign_at(self._patience):
            self.resign(now)
        elif self._push is not None:
            self._push.run_leader(now, role)
        else:
            self._elections.announce(now, role)
            self._service.wake(now)

    def deadline(self) -> int:
        """When `tick` is next due."""
        if self._closed:
            return NEVER
        core = self._core
        return min(core.quorum.role.deadline(self._patience), core.purgatory.deadline(), self._voter_changes.deadline())
