"""The `quorum-state` file: the state that a voter must not lose (QC-08, rule 32).

Epoch, leader and vote, as JSON in Kafka's version 1 of the file. It is written to a temporary file, made durable and
renamed before any response or request that depends on it, so that a vote is never cast twice in one epoch, not even by
a node that lost power in between.

What a start reads here is durable only because the log in the same directory was opened first: its recovery syncs the
directory, and with it the name of a file that a dying process had renamed and not synced (`RaftReplica`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk
from squall.nodes.protocol.topic_partition import ZERO_ID, format_id, parse_id
from squall.nodes.storage.checkpoints import read_whole, write_atomically

FILE = "quorum-state"
NO_DIRECTORY = ZERO_ID


class CorruptQuorumState(Exception):
    """The file exists and cannot be read. Guessing could mean a second vote in the same epoch."""


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """A replica by id and the directory of its log; the directory is all zeros where unknown."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def is_same_as(self, other: ReplicaKey) -> bool:
        """Whether `other` may be this replica: the ids are equal, and so are the directories, where known."""
        return self.id == other.id and may_be_equal(self.directory_id, other.directory_id)


def may_be_equal(one: bytes, other: bytes) -> bool:
    """Whether two directory ids are equal, where both are known."""
    return NO_DIRECTORY in (one, other) or one == other


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The durable state: the epoch, its leader if known, and the candidate voted for in it, if any."""

    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


class QuorumStateStore:
    """Reads and replaces the file in one directory of a disk."""

    def __init__(self, disk: Disk, directory: str, mutants: Mutants = HEALTHY) -> None:
        self._disk = disk
        self._forgets_votes = mutants.has("vote-not-persisted")
        self._path = f"{directory}/{FILE}"
        self._last: QuorumState | None = None

    def read_cached(self) -> QuorumState | None:
        """The state last read or written by this store, without touching the disk."""
        return self._last

    def read(self) -> QuorumState | None:
        """The state as last written, None if the file does not exist."""
        content = read_whole(self._disk, self._path)
        if content is None:
            return None
        try:
            self._last = _decode(content)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptQuorumState(
                f"{self._path}: {error}; restore the file, or remove this voter's whole directory and let it catch up"
            ) from error
        return self._last

    def write(self, state: QuorumState) -> None:
        """Replace the state; durable on return. Mutant `vote-not-persisted`: omits the vote."""
        kept = replace(state, voted=None) if self._forgets_votes else state
        write_atomically(self._disk, self._path, _encode(kept))
        self._last = state


def _encode(state: QuorumState) -> bytes:
    voted = state.voted
    fields = {
        "leaderId": -1 if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": -1 if voted is None else voted.id,
        "votedDirectoryId": format_id(NO_DIRECTORY if voted is None else voted.directory_id),
        "data_version": 1,
    }
    return json.dumps(fields).encode()


def _decode(content: bytes) -> QuorumState:
    fields = json.loads(content)
    if fields["data_version"] != 1:
        raise ValueError(f"data_version is {fields['data_version']}, only 1 is understood")
    leader_id, voted_id = int(fields["leaderId"]), int(fields["votedId"])
    directory_id = parse_id(fields["votedDirectoryId"])
    return QuorumState(
        epoch=int(fields["leaderEpoch"]),
        leader_id=None if leader_id < 0 else leader_id,
        voted=None if voted_id < 0 else ReplicaKey(voted_id, directory_id),
    )
