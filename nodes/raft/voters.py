"""Voter sets, the records that change them, and which set holds at which offset (KIP-853, rule 40).

With only `controller.quorum.voters`, the set is the configured one (kraft.version 0). In a quorum of dynamic voters
(kraft.version 1) the log defines it: the last VotersRecord in it counts from the moment it is *appended*, committed or
not, and a truncation that removes it restores the previous set. The voters of the configuration, or of the bootstrap
snapshot (`bootstrap.py`), are then only the initial set; without either there are no voters until the log has some, and
a node that knows none asks the bootstrap servers. Two consecutive sets differ by at most one voter, so that any
majority of one intersects any majority of the other.

A voter is an id and the id of a directory. A node that returns with an empty disk is a different replica, which has
cast no vote, and must be added again. A directory of zeros is unknown and matches any (`ReplicaKey.is_same_as`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.protocol.compiler import Buffer, decode, encode_bytes
from squall.nodes.protocol.records import BatchHeader, control_kind, parse_records
from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, struct, uint16, uuid
from squall.nodes.raft.config import Voter
from squall.nodes.raft.quorum_state import ReplicaKey, may_be_equal

KRAFT_VERSION, KRAFT_VOTERS = 5, 6
"""The kinds of the control records for the kraft version and the voters."""
DYNAMIC = 1
LISTENER = "CONTROLLER"


@message(flexible=0)
class KRaftVersionRecord(Message):
    version: int = int16()
    k_raft_version: int = int16()


@message()
class VoterEndpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


@message()
class VoterVersions(Message):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message()
class VoterEntry(Message):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    k_raft_version_feature: VoterVersions = struct(VoterVersions)


@message(flexible=0)
class VotersRecord(Message):
    version: int = int16()
    voters: list[VoterEntry] = array(VoterEntry)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters in the order of their ids."""

    voters: tuple[Voter, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def find(self, voter_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.id == voter_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        """Whether this exact replica votes, as far as its directory is known."""
        voter = self.find(key.id)
        return voter is not None and may_be_equal(voter.directory_id, key.directory_id)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The set with one more voter, or with one voter's entry replaced."""
        others = [one for one in self.voters if one.id != voter.id]
        return VoterSet(tuple(sorted([*others, voter], key=lambda one: one.id)))

    def without(self, voter_id: int) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.id != voter_id))


class VoterHistory:
    """The voter sets by the offsets of their records; the initial set precedes all."""

    def __init__(self, configured: Sequence[Voter]) -> None:
        self._first = VoterSet(tuple(sorted(configured, key=lambda voter: voter.id)))
        self._logged: list[tuple[int, VoterSet]] = []
        self.high_watermark = 0

    @property
    def latest(self) -> VoterSet:
        """The current set."""
        return self._logged[-1][1] if self._logged else self._first

    @property
    def latest_offset(self) -> int:
        """The offset of its record; -1 for the initial set."""
        return self._logged[-1][0] if self._logged else -1

    @property
    def former_ids(self) -> tuple[int, ...]:
        """Former voters that are known here and no longer vote."""
        known = {one: None for voters in (self._first, *(voters for _, voters in self._logged)) for one in voters.ids}
        return tuple(one for one in known if one not in self.latest.ids)

    def counts(self, key: ReplicaKey) -> bool:
        """Whether a replica is among the voters now."""
        return self.latest.has(key)

    def may_stand(self, key: ReplicaKey) -> bool:
        """Whether a replica is among the voters, or was until a record that may be uncommitted.

        If only this replica has that record, it has the longest log, and the previous voters may need its vote: if it
        did not stand, no leader could be elected. The new voters elect it, without counting itself.
        """
        if self.latest.has(key) or self.latest_offset < self.high_watermark:
            return self.latest.has(key)
        return (self.at(self.latest_offset) or self._first).has(key)

    def at(self, end_offset: int) -> VoterSet | None:
        """The set by the records below an offset, for a snapshot that ends there; None without a record."""
        below = [voters for offset, voters in self._logged if offset < end_offset]
        return below[-1] if below else None

    def begin_with(self, voters: VoterSet) -> None:
        """Set the initial voters, which count until the log has others."""
        self._first = voters

    def append(self, offset: int, voters: VoterSet) -> None:
        self._logged.append((offset, voters))

    def truncate(self, end_offset: int) -> bool:
        """Forget sets at `end_offset` and above; return whether that changed anything."""
        kept = [entry for entry in self._logged if entry[0] < end_offset]
        changed = len(kept) != len(self._logged)
        self._logged = kept
        return changed

    def clear(self) -> None:
        self._logged.clear()


# -- records -----------------------------------------------------------------------------------------------------


def voters_record(voters: VoterSet) -> bytes:
    """The value of a VotersRecord."""
    entries = [
        VoterEntry(
            voter_id=voter.id,
            voter_directory_id=voter.directory_id,
            endpoints=[VoterEndpoint(name=LISTENER, host=voter.host, port=voter.port)],
            k_raft_version_feature=VoterVersions(max_supported_version=DYNAMIC),
        )
        for voter in voters.voters
    ]
    return encode_bytes(VotersRecord(voters=entries), 0)


def kraft_version_record() -> bytes:
    return encode_bytes(KRaftVersionRecord(k_raft_version=DYNAMIC), 0)


def read_voters_record(value: bytes) -> VoterSet:
    record = decode(VotersRecord, 0, value)
    found = []
    for entry in record.voters:
        host, port = (entry.endpoints[0].host, entry.endpoints[0].port) if entry.endpoints else ("", 0)
        found.append(Voter(entry.voter_id, host, port, entry.voter_directory_id))
    return VoterSet(tuple(found))


def voters_in(content: Buffer) -> Iterator[tuple[int, VoterSet]]:
    """Yield the sets in whole record batches, by offset. Of a data batch only the header is read."""
    view = memoryview(content)
    start = 0
    while start < len(view):
        header = BatchHeader.read(view[start:])
        if header.is_control:
            batch = view[start : start + header.size]
            for delta, record in enumerate(parse_records(batch)):
                if control_kind(record.key) == KRAFT_VOTERS:
                    yield header.base_offset + delta, read_voters_record(bytes(record.value or b""))
        start += header.size
