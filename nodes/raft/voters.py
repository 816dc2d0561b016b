"""Who votes: sets of voters, the records that change them, and which set holds at which offset (KIP-853, rule 40).

With `controller.quorum.voters` alone the set is what the configuration says (kraft.version 0). In a quorum of dynamic
voters (kraft.version 1) it is what the log says: the last VotersRecord in it counts from the moment it is *appended*,
committed or not, and a truncation that takes it away brings back the one before. What the configuration lists, or the
bootstrap snapshot (`bootstrap.py`), is then only the set to begin with; without either there are no voters until the
log tells of some, and who knows none asks the bootstrap servers. Two sets that follow one another differ by at most one
voter, so that any majority of the one meets any majority of the other.

A voter is an id and the id of a directory: one who comes back with an empty disk is another, that has promised
nothing, and must be added anew. A directory of zeros is not known yet and matches any (`ReplicaKey.is_same_as`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.protocol.compiler import Buffer, decode, encode_bytes
from squall.nodes.protocol.records import BatchHeader, control_kind, parse_records
from squall.nodes.protocol.schema import Message, array, int16, int32, message, string, struct, uint16, uuid
from squall.nodes.raft.config import Voter
from squall.nodes.raft.quorum_state import ReplicaKey

KRAFT_VERSION, KRAFT_VOTERS = 5, 6
"""The kinds of the control records that say how voters are kept, and who they are."""
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
        return next((voter for voter in self.voters if voter.id == voter_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """Whether this very replica votes, as far as its directory is known."""
        voter = self.find(key.id)
        return voter is not None and ReplicaKey(voter.id, voter.directory_id).is_same_as(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """With one more, or with one in place of its former self."""
        others = [one for one in self.voters if one.id != voter.id]
        return VoterSet(tuple(sorted([*others, voter], key=lambda one: one.id)))

    def without(self, voter_id: int) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.id != voter_id))


class VoterHistory:
    """The sets by the offsets of their records, the one to begin with before all."""

    def __init__(self, configured: Sequence[Voter]) -> None:
        self._first = VoterSet(tuple(sorted(configured, key=lambda voter: voter.id)))
        self._logged: list[tuple[int, VoterSet]] = []
        self.high_watermark = 0

    @property
    def latest(self) -> VoterSet:
        """The set that counts now."""
        return self._logged[-1][1] if self._logged else self._first

    @property
    def latest_offset(self) -> int:
        """Where its record is; -1 if it is the one to begin with."""
        return self._logged[-1][0] if self._logged else -1

    @property
    def former_ids(self) -> tuple[int, ...]:
        """Those who voted once, as far as is known here, and do no more."""
        known = {one: None for voters in (self._first, *(voters for _, voters in self._logged)) for one in voters.ids}
        return tuple(one for one in known if one not in self.latest.ids)

    def counts(self, key: ReplicaKey) -> bool:
        """Whether a replica is among the voters now."""
        return self.latest.has(key)

    def may_stand(self, key: ReplicaKey) -> bool:
        """Whether a replica is among the voters, or was until a record that may not be committed.

        Who alone has that record has the longest log, and the voters before it may need its vote: if it did not stand,
        nobody could be elected. It is elected by the new voters, not counting itself.
        """
        if self.latest.has(key) or self.latest_offset < self.high_watermark:
            return self.latest.has(key)
        return (self.at(self.latest_offset) or self._first).has(key)

    def at(self, end_offset: int) -> VoterSet | None:
        """The set by what is below an offset, as a snapshot that ends there must tell it; None without a record."""
        below = [voters for offset, voters in self._logged if offset < end_offset]
        return below[-1] if below else None

    def begin_with(self, voters: VoterSet) -> None:
        """What counts until the log says otherwise."""
        self._first = voters

    def append(self, offset: int, voters: VoterSet) -> None:
        self._logged.append((offset, voters))

    def truncate(self, end_offset: int) -> bool:
        """Forget what stood at `end_offset` and above; whether that changed anything."""
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
    """The sets that whole record batches bring, by offset. Batches of data cost a look at their header."""
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
