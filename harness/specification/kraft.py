"""The metadata quorum as `kraft_kip_996.tla` specifies it: what action a traced event is, and when it may be (DA-08).

The specification is public (github.com/Vanlightly/kafka-tlaplus, folder `kraft`). Actions have its names. State is what
it needs of its variables: for each server role, epoch, vote, log and high watermark; for each epoch the log of its
leader, which only grows; and what is committed. A log is the list of its records' epochs: two logs that have the same
epoch at an offset have the same record there.

Three things are not in the specification. Disks: a server restarts with what it had synced (`fsync`). Snapshots: a log
that is reset continues from what is committed. Push (`nodes/raft/push`): its steps have the names of pull's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from squall.harness.specification.broken import require

Fields = Mapping[str, object]
METADATA_LOG = "__cluster_metadata-0"


@dataclass
class Server:
    """The variables of one server."""

    role: str = "unattached"
    epoch: int = 0
    votes: dict[int, int] = field(default_factory=dict)
    """By epoch: for whom it voted."""
    log: list[int] = field(default_factory=list)
    durable: int = 0
    high_watermark: int = 0
    voters: frozenset[int] | None = None
    """The voters by its own log, None while these are the configured ones."""

    @property
    def end(self) -> tuple[int, int]:
        """The last record's epoch and the end offset, in the order that elections use."""
        return (self.log[-1] if self.log else 0), len(self.log)


class KRaft:
    """All servers of one quorum. `step` takes one traced event and returns the action that it is, or None for none."""

    def __init__(self, voters: Iterable[int]) -> None:
        self.configured = frozenset(voters)
        self.servers: dict[int, Server] = {}
        self.leaders: dict[int, int] = {}
        """By epoch: ElectionSafety."""
        self.written: dict[int, list[int]] = {}
        """By epoch: the log of its leader, as far as ever written."""
        self.committed: list[int] = []
        self.taken: Counter[str] = Counter()
        self._stood: dict[tuple[int, int], tuple[int, int]] = {}
        self._opened: int | None = None

    def step(self, name: str, fields: Fields) -> str | None:
        """Take one event of a node's trace. Raises SpecificationBroken."""
        if name == "log_opened" and str(fields["log"]).endswith(METADATA_LOG):
            self._opened = _number(fields, "end")
            return None
        if "node" not in fields or fields.get("topic") is not None:
            return None
        node = _number(fields, "node")
        server = self.servers.setdefault(node, Server())
        action = self._action(name, node, server, fields)
        if action is not None:
            self.taken[action] += 1
        return action

    def _action(self, name: str, node: int, server: Server, fields: Fields) -> str | None:
        match name:
            case "state":
                return self._state(node, server, fields)
            case "vote":
                return self._vote(node, server, fields)
            case "append":
                return self._append(node, server, fields)
            case "truncate":
                return self._truncate(node, server, _number(fields, "end"))
            case "log_reset":
                return self._reset(node, server, _number(fields, "end"))
            case "high_watermark":
                return self._commit(node, server, _number(fields, "offset"))
            case "voters":
                listed = fields["voters"]
                server.voters = frozenset(int(str(one)) for one in listed)  # type: ignore[attr-defined]
                return None
            case "fsync":
                server.durable = _number(fields, "durable")
                return None
        return None

    # -- elections --------------------------------------------------------------------------------------------

    def _state(self, node: int, server: Server, fields: Fields) -> str:
        role, epoch = str(fields["role"]).removeprefix("observer-"), _number(fields, "epoch")
        before, server.role = server.role, role
        if self._opened is not None:
            return self._restart(node, server, epoch)
        require(epoch >= server.epoch, "HandleVoteRequest", node, f"epoch {epoch} after {server.epoch}")
        server.epoch = epoch
        match role:
            case "prospective":
                return {"follower": "VoterFetchTimeout", "resigned": "ResignedElectionTimeout"}.get(
                    before, "VoterElectionTimeout"
                )
            case "candidate":
                self._stood[epoch, node] = server.end
                return "ConcludePreVote" if before == "prospective" else "VoterElectionTimeout"
            case "leader":
                return self._become_leader(node, server, before)
            case "resigned":
                require(before in ("leader", "prospective"), "CheckQuorumResign", node, f"it was {before}")
                return "CheckQuorumResign" if before == "leader" else "HandleVoteResponse"
            case "follower":
                return "HandleVoteResponse" if before == "prospective" else "AcceptBeginQuorumRequest"
        return "HandleVoteRequest"

    def _restart(self, node: int, server: Server, epoch: int) -> str:
        """A server restarts with the log that its disk kept, in no earlier epoch, and leads no more."""
        end, self._opened = self._opened or 0, None
        require(server.role != "leader", "RestartWithState", node, "it leads at once")
        if self._is_voter(node, server):
            require(epoch >= server.epoch, "RestartWithState", node, f"epoch {epoch} after {server.epoch}")
        server.epoch = epoch
        server.log = [*server.log, *self.committed[len(server.log) :]][:end]
        server.durable, server.high_watermark = len(server.log), 0
        return "RestartWithState"

    def _vote(self, node: int, server: Server, fields: Fields) -> str:
        epoch, candidate = _number(fields, "epoch"), _number(fields, "candidate")
        action = "ConcludePreVote" if candidate == node else "HandleVoteRequest"
        require(epoch == server.epoch, action, node, f"a vote in epoch {epoch}, being in {server.epoch}")
        earlier = server.votes.setdefault(epoch, candidate)
        require(earlier == candidate, action, node, f"votes in epoch {epoch} for {earlier} and {candidate}")
        stood = self._stood.get((epoch, candidate))
        require(stood is not None, action, node, f"{candidate} does not stand in epoch {epoch}")
        require((stood or (0, 0)) >= server.end, action, node, f"the log of {candidate} ends at {stood}, its own later")
        return action

    def _become_leader(self, node: int, server: Server, before: str) -> str:
        action, epoch = "BecomeLeader", server.epoch
        require(before == "candidate", action, node, f"it was {before}")
        voters = server.voters or self.configured
        granted = [one for one in sorted(voters) if self.servers.get(one, Server()).votes.get(epoch) == node]
        require(2 * len(granted) > len(voters), action, node, f"votes of {granted} in epoch {epoch}")
        require(epoch not in self.leaders, action, node, f"epoch {epoch} has leader {self.leaders.get(epoch)}")
        have = server.log[: len(self.committed)]
        require(have == self.committed, action, node, "its log lacks committed records (LeaderCompleteness)")
        self.leaders[epoch] = node
        self.written[epoch] = list(server.log)
        return action

    # -- the log ----------------------------------------------------------------------------------------------

    def _append(self, node: int, server: Server, fields: Fields) -> str:
        first, last, epoch = (_number(fields, name) for name in ("first", "last", "epoch"))
        action = "HandleClientRequest" if server.role == "leader" else "HandleFetchResponse"
        require(first == len(server.log), action, node, f"a record at {first}, its log ends at {len(server.log)}")
        if server.role == "leader":
            require(epoch == server.epoch, action, node, f"a record of epoch {epoch} in epoch {server.epoch}")
            self.written[epoch].extend([epoch] * (last + 1 - first))
        source = self.written.get(server.epoch, [])
        content = source[first : last + 1]
        require(len(content) == last + 1 - first, action, node, f"records to {last}, which no leader wrote")
        require(content[-1] == epoch, action, node, f"the leader wrote epoch {content[-1]} at {last}, it has {epoch}")
        require(server.log == source[:first], action, node, f"its log is no prefix of the leader's below {first}")
        server.log.extend(content)
        return action

    def _truncate(self, node: int, server: Server, end: int) -> str:
        action = "HandleFetchResponse"
        require(end >= server.high_watermark, action, node, f"to {end}, below high watermark {server.high_watermark}")
        del server.log[end:]
        server.durable = min(server.durable, end)
        return action

    def _reset(self, node: int, server: Server, end: int) -> str | None:
        require(end <= len(self.committed), "HandleFetchResponse", node, f"a snapshot to {end} is not committed")
        server.log = self.committed[:end]
        server.durable = end
        return None

    def _commit(self, node: int, server: Server, offset: int) -> str:
        leads = server.role == "leader"
        action = "AcceptFetchRequest" if leads else "HandleFetchResponse"
        require(offset >= server.high_watermark, action, node, f"{offset} after {server.high_watermark}")
        require(offset <= len(server.log), action, node, f"{offset}, its log ends at {len(server.log)}")
        if leads:
            self._check_majority(node, server, offset)
            self.committed = server.log[:offset] if offset > len(self.committed) else self.committed
        have = self.committed[:offset]
        require(len(have) == offset, action, node, f"{offset} is not committed")
        require(server.log[:offset] == have, action, node, f"committed records below {offset} differ (Durability)")
        server.high_watermark = offset
        return action

    def _check_majority(self, node: int, server: Server, offset: int) -> None:
        """A majority has it on disk, and it is of this epoch."""
        action, voters = "AcceptFetchRequest", server.voters or self.configured
        require(server.log[offset - 1] == server.epoch, action, node, f"{offset} ends in an earlier epoch")
        have = [
            one
            for one in sorted(voters)
            if (other := self.servers.get(one))
            and other.durable >= offset
            and other.log[:offset] == server.log[:offset]
        ]
        require(2 * len(have) > len(voters), action, node, f"{offset} is on {have} of {sorted(voters)}")
        before = self.committed[:offset]
        require(server.log[: len(before)] == before, action, node, "replaces committed records (Durability)")

    def _is_voter(self, node: int, server: Server) -> bool:
        return node in (server.voters or self.configured)


def _number(fields: Fields, name: str) -> int:
    return int(str(fields[name]))
