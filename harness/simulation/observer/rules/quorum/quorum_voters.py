"""VOTERS: the voters of a quorum change one at a time, after what came before is committed, and are those of the log.

Two majorities of sets that differ by one voter have a voter in common; of sets that differ by two they need not. So a
leader writes another set only when the one before is committed, and when it has committed a record of its own epoch:
until then, another leader may have written a set that it does not know of. Whoever has such a record counts by it, and
whoever truncates it counts by the set before.

Source: rule 40, KIP-853; Ongaro's dissertation, section 4.1, and the correction of 2015. Asserted

* in the turn in which a leader writes voters: they differ from the set before by at most one, which is committed, as is
  a record of the leader's epoch; a new one was named by an AddRaftVoter that had arrived there;
* when a leader says that voters were added or removed: the last record of voters in its log is committed;
* when a leader says that a voter was added: when its record was written, the added node had fetched all that the
  leader's log had held when the request arrived (KIP-853). With a voter that lacks the log, less can be committed;
* in each turn that moves a replica: its voters are those of the last record of voters below its log's end; as a
  follower it votes and stands if it is among them, and does not once a record that removes it is committed;
* at the end of a run, of each replica of a quorum with dynamic voters: its latest snapshot, or the log from 0 on, has
  voters, and before the first of them the quorum's version, without which other programs do not read them.

Legal: a follower that still stands, as the record that removes it is not committed; the first voters that a log has; a
log that begins after a snapshot, whose voters precede all records; another incarnation, until it has shown records of
voters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule, node_of_quorum, requests_of, wire_keys
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.node import Node
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from squall.nodes.protocol.records import BatchHeader, control_kind, parse_records
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.roles import Follower, Leader
from squall.nodes.raft.voters import KRAFT_VERSION, KRAFT_VOTERS

Voters = frozenset[int]
ADDITIONS: Final = wire_keys(ApiKey.ADD_RAFT_VOTER)


class QuorumVoters(Rule):
    """See the module."""

    events = ("voters", "high_watermark")

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._new: dict[int, list[tuple[int, Voters, int]]] = {}
        """By node id, of records whose turn is not examined yet: offset, voters, and the high watermark at that moment,
        as far as it has moved in the turn."""
        self._committed: dict[int, int] = {}
        """By node id, the high watermark to which it has moved in a turn that is not examined yet."""
        self._logged: dict[tuple[str, int], dict[int, Voters]] = {}
        """By host and incarnation, the voters by the offsets of their records, in the order of these."""
        self._ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
        """By host and incarnation of leaders, the log's end after each turn that moved it, and the time of that."""
        self._fetched: dict[tuple[str, int], tuple[int, int, int]] = {}
        """Likewise the last record that adds a voter: its offset, the voter, and up to where that had fetched then."""
        self._asked: dict[tuple[str, int], set[int]] = {}
        """By host and incarnation, the voters that it was asked to add, and has not added since."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "high_watermark":
            if "offset" in fields and "topic" not in fields:
                self._committed[int(fields["node"])] = int(fields["offset"])
            return
        node, offset = int(fields["node"]), int(fields["offset"])
        written = (offset, frozenset(fields["voters"]), self._committed.get(node, 0))
        self._new.setdefault(node, []).append(written)

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        for message in requests_of(process, ADDITIONS):
            assert isinstance(message, AddRaftVoterRequest)
            self._asked.setdefault((process.name, process.incarnation), set()).add(message.voter_id)

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        with_quorum, response = node_of_quorum(node), None if request.answer is None else request.answer.response
        if with_quorum is None or not isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse):
            return
        logged = self._logged.get((process.name, process.incarnation), {})
        newest, committed = max(logged, default=-1), with_quorum.raft.high_watermark
        if response.error_code == 0 and newest >= committed:
            raise InvariantBroken(
                "VOTERS",
                f"{process.name} says that the voters were changed; their record at offset {newest} is not committed, "
                f"only what is below {committed}",
            )
        if response.error_code == 0 and isinstance(request.body, AddRaftVoterRequest):
            self._check_fetched(process, newest, request.body.voter_id, request.received_at)

    def _check_fetched(self, process: SimProcess, newest: int, added: int, arrived: int) -> None:
        place = (process.name, process.incarnation)
        offset, voter, fetched = self._fetched.get(place, (-1, -1, -1))
        needed = max((end for end, time in self._ends.get(place, ()) if time < arrived), default=0)
        if (offset, voter) == (newest, added) and fetched < needed:
            raise InvariantBroken(
                "VOTERS",
                f"{process.name} has added voter {added} at offset {offset}, which had fetched up to {fetched}; the "
                f"log already ended at {needed} when it was asked to",
            )

    def died(self, process: SimProcess) -> None:
        self._committed.clear()
        self._new = {node: one for node, one in self._new.items() if self.cluster.names[node] != process.name}

    def quorum_moved(self, turn: QuorumTurn) -> None:
        new = self._new.pop(turn.node.config.node_id, [])
        self._committed.clear()
        place = (turn.process.name, turn.process.incarnation)
        if turn.reset is not None:
            self._logged.pop(place, None)
        logged = self._logged.setdefault(place, {})
        for offset in [offset for offset in logged if turn.cut is not None and offset >= turn.cut]:
            del logged[offset]
        for offset, voters, committed in new:
            if logged:
                self._check_change(turn, offset, voters, *next(reversed(logged.items())), committed)
            logged[offset] = voters
        self._check_counted(turn, logged)
        if isinstance(turn.node.raft.role, Leader):
            self._ends.setdefault(place, []).append((turn.now[0], turn.process.now))
        else:
            self._ends.pop(place, None)  # its log may be cut before it leads again (`worlds` seed 1004522)

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            node = node_of_quorum(process.node)
            if node is not None and node.raft.config.dynamic_voters and node.raft.high_watermark > 0:
                _check_begun(process.name, _kinds(node))

    def _check_change(
        self, turn: QuorumTurn, offset: int, voters: Voters, last: int, before: Voters, moved_to: int
    ) -> None:
        role = turn.node.raft.role
        if not isinstance(role, Leader) or offset < role.epoch_start_offset or turn.before is None:
            return
        committed, wrong = max(turn.before[1], moved_to), ""
        asked = self._asked.get((turn.process.name, turn.process.incarnation), set())
        if len(voters ^ before) > 1:
            wrong = f"which differ from {sorted(before)} by more than one"
        elif last >= committed:
            wrong = f"and the voters {sorted(before)} before, at offset {last}, are not committed"
        elif role.epoch_start_offset >= committed:
            wrong = f"and has committed nothing of its epoch, which begins at {role.epoch_start_offset}"
        elif not voters - before <= asked:
            wrong = f"and no AddRaftVoter for {sorted(voters - before)} has arrived there"
        if wrong:
            raise InvariantBroken(
                "VOTERS",
                f"{turn.process.name} leads quorum epoch {role.epoch} and writes the voters {sorted(voters)} at offset "
                f"{offset}, {wrong}",
            )
        asked -= voters
        for added in voters - before:
            progress = role.others.get(added)
            fetched = offset if progress is None else progress.end_offset
            self._fetched[turn.process.name, turn.process.incarnation] = offset, added, fetched

    def _check_counted(self, turn: QuorumTurn, logged: dict[int, Voters]) -> None:
        counted = frozenset(turn.node.raft.voters.ids)
        if logged and counted != next(reversed(logged.values())):
            offset, voters = next(reversed(logged.items()))
            raise InvariantBroken(
                "VOTERS",
                f"{turn.process.name} counts by the voters {sorted(counted)}, and the last ones in its log, at offset "
                f"{offset}, are {sorted(voters)}",
            )
        _check_standing(turn)


def _kinds(node: Node) -> list[int]:
    """The kinds of the control records of a replica's latest snapshot and of its log, as far as it is committed."""
    raft = node.raft
    latest, log = raft.snapshots.latest, raft.log
    kinds = [] if latest is None else [one.kind for one in raft.snapshots.control_records(latest)]
    for batch in log.raw_batches(log.start_offset, raft.high_watermark):
        if BatchHeader.read(batch).is_control:
            kinds += [control_kind(record.key) for record in parse_records(batch)]
    return kinds


def _check_begun(name: str, kinds: list[int]) -> None:
    """Check that a replica has voters, and the quorum's version before them."""
    if KRAFT_VOTERS not in kinds:
        raise InvariantBroken("VOTERS", f"{name} has no record of voters, in a quorum with dynamic voters")
    if KRAFT_VERSION not in kinds[: kinds.index(KRAFT_VOTERS)]:
        raise InvariantBroken("VOTERS", f"{name} has voters without the quorum's version before them")


def _check_standing(turn: QuorumTurn) -> None:
    raft = turn.node.raft
    if not isinstance(raft.role, Follower):
        return
    is_voter = raft.voters.has(ReplicaKey(raft.config.node_id, raft.config.directory_id))
    if raft.role.votes == is_voter or (raft.role.votes and raft.voters_uncommitted):
        return
    raise InvariantBroken(
        "VOTERS",
        f"{turn.process.name} follows in quorum epoch {raft.role.epoch} and "
        f"{'stands' if raft.role.votes else 'does not stand'} for election, and the voters of its log are "
        f"{sorted(raft.voters.ids)}",
    )
