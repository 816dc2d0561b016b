"""A log's state of idempotent producers: enough to distinguish a retry from a new batch (KIP-98, rules 5 to 7).

Per producer id: its epoch and its last five batches, as many as a client may have in flight. The state is a function of
the log's content alone, so followers and restarted replicas build the same from their batches; the snapshot files only
spare replaying the whole log. A snapshot named N holds the state before offset N, guarded by a checksum; a damaged one
is skipped for an older one (rule 7).

A snapshot is a file of Kafka's format, which has room for one batch of each producer. The earlier batches follow
Kafka's entries, covered by the checksum, where Kafka's readers ignore them: so a restart keeps everything that
distinguishes a retry from a new batch. A snapshot that Kafka wrote has no earlier batches and is used without them.

`check` judges a batch before a leader appends it, `update` follows what was appended.

A producer is forgotten when it has been silent for `producer.id.expiration.ms`. This must not depend on one clock:
faults set clocks, and if a producer is forgotten too early, its retries are appended twice. So silence is measured
against the lesser of the host's time, which `expire` receives, and the largest timestamp that any producer wrote here.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from squall.nodes.ports import Disk
from squall.nodes.protocol.crc import crc32c
from squall.nodes.storage.checkpoints import join, read_whole, remove_if_there, write_atomically
from squall.nodes.storage.errors import LogError

BATCHES_KEPT = 5
SEQUENCES = 1 << 31
"""Sequence numbers wrap from 2^31-1 to 0."""

_HEAD = struct.Struct(">HI")
"""Version, and the CRC-32C of all that follows."""
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, last offset - first offset, timestamp, coordinator epoch, first
offset of the transaction under way."""
_EARLIER = struct.Struct(">B")
"""How many batches of a producer, in the order of the entries, precede its last; those batches follow."""
_BATCH = struct.Struct(">iiqqq")
_VERSION = 1
_NONE = -1


def next_sequence(sequence: int) -> int:
    return (sequence + 1) % SEQUENCES


def advance_sequence(sequence: int, by: int) -> int:
    return (sequence + by) % SEQUENCES


class ProducedBatch(NamedTuple):
    """One batch of a producer as stored in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer id: its epoch and last batches, oldest first. An epoch may have no batch yet."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []


class ProducerStates:
    """All producers of one log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._states: dict[int, ProducerState] = {}
        self._latest = -1

    def __len__(self) -> int:
        return len(self._states)

    @property
    def ids(self) -> Collection[int]:
        """The producers that are known here."""
        return self._states.keys()

    def state_of(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    # -- the rules ------------------------------------------------------------------------------------------------

    def check(self, producer_id: int, epoch: int, first_sequence: int, count: int) -> ProducedBatch | None:
        """Return the earlier append that this batch duplicates, or None if it is new and in order. Raises LogError."""
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch < state.epoch:
            raise LogError(
                "INVALID_PRODUCER_EPOCH", f"producer {producer_id} came with epoch {epoch}, it has {state.epoch}"
            )
        if epoch > state.epoch:
            if first_sequence != 0:
                raise LogError(
                    "OUT_OF_ORDER_SEQUENCE_NUMBER",
                    f"producer {producer_id} began epoch {epoch} at sequence {first_sequence}, expected 0",
                )
            return None
        if not state.batches:
            return None
        last_sequence = advance_sequence(first_sequence, count - 1)
        for batch in state.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        expected = next_sequence(state.batches[-1].last_sequence)
        if first_sequence != expected:
            raise LogError(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} epoch {epoch} came with sequence {first_sequence}, expected {expected}",
            )
        return None

    def update(
        self, producer_id: int, epoch: int, first_sequence: int, first_offset: int, last_offset: int, timestamp: int
    ) -> None:
        """Account for a batch that is in the log. Never refuses: the leader has checked it."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif epoch != state.epoch:
            state.epoch = epoch
            state.batches.clear()
        last_sequence = advance_sequence(first_sequence, last_offset - first_offset)
        batches = state.batches
        batches.append(ProducedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp))
        if timestamp > self._latest:
            self._latest = timestamp
        if len(batches) > BATCHES_KEPT:
            del batches[0]

    def expire(self, now_ms: int, silence_ms: int) -> list[int]:
        """Forget the producers that have been silent for `silence_ms`; return their ids."""
        oldest = min(now_ms, self._latest) - silence_ms
        silent = [one for one, state in self._states.items() if state.batches and state.batches[-1].timestamp < oldest]
        for producer_id in silent:
            del self._states[producer_id]
        return silent

    def forget_all(self) -> None:
        """Remove state and snapshots: the log starts again."""
        self._clear()
        for at in self.snapshots():
            remove_if_there(self._disk, self._path(at))

    def _clear(self) -> None:
        self._states.clear()
        self._latest = -1

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _path(self, offset: int) -> str:
        return join(self._directory, f"{offset:020d}.snapshot")

    def snapshots(self) -> list[int]:
        """Offsets of the snapshot files, ascending."""
        names = self._disk.list(self._directory)
        return [int(name[:20]) for name in names if name.endswith(".snapshot") and name[:20].isdecimal()]

    def take_snapshot(self, offset: int) -> None:
        """Write the state before `offset`."""
        body = self._encode()
        write_atomically(self._disk, self._path(offset), _HEAD.pack(_VERSION, crc32c(body)), body)

    def prune(self, needed: Collection[int]) -> None:
        """Remove snapshots that no recovery would start from: all but those at `needed` offsets and the newest two."""
        for at in self.snapshots()[:-2]:
            if at not in needed:
                remove_if_there(self._disk, self._path(at))

    def restore(self, offset: int) -> int | None:
        """Load the newest sound snapshot at or below `offset` and return its offset, None if there is none.

        Snapshots above `offset` describe records that are deleted; they and damaged ones are deleted. The caller makes
        that durable before it appends anything: a snapshot that came back would be taken for the state of other
        records.
        """
        self._clear()
        for at in reversed(self.snapshots()):
            if at > offset:
                remove_if_there(self._disk, self._path(at))
                continue
            content = read_whole(self._disk, self._path(at))
            if content is not None and self.decode(content):
                return at
            remove_if_there(self._disk, self._path(at))
        return None

    def _encode(self) -> bytes:
        entries, earlier = bytearray(_COUNT.pack(len(self._states))), bytearray()
        for producer_id in sorted(self._states):
            state = self._states[producer_id]
            last = state.batches[-1] if state.batches else None
            if last is None:
                entries += _ENTRY.pack(producer_id, state.epoch, _NONE, _NONE, 0, _NONE, _NONE, _NONE)
            else:
                spans = last.last_offset - last.first_offset
                entries += _ENTRY.pack(
                    producer_id, state.epoch, last.last_sequence, last.last_offset, spans, last.timestamp, _NONE, _NONE
                )
            earlier += _EARLIER.pack(max(len(state.batches) - 1, 0))
            for batch in state.batches[:-1]:
                earlier += _BATCH.pack(
                    batch.first_sequence, batch.last_sequence, batch.first_offset, batch.last_offset, batch.timestamp
                )
        return bytes(entries + earlier)

    def decode(self, content: bytes) -> bool:
        """Replace the state by a snapshot's. If the snapshot is damaged, return False and leave the state empty."""
        if len(content) < _HEAD.size + _COUNT.size:
            return False
        version, crc = _HEAD.unpack_from(content)
        body = memoryview(content)[_HEAD.size :]
        if version != _VERSION or crc32c(body) != crc:
            return False
        (count,) = _COUNT.unpack_from(body)
        end = _COUNT.size + count * _ENTRY.size
        if count < 0 or end > len(body):
            return False
        earlier = _read_earlier(body[end:])
        for producer_id, epoch, *last in _ENTRY.iter_unpack(body[_COUNT.size : end]):
            state = self._states[producer_id] = ProducerState(epoch)
            state.batches += next(earlier, [])
            if last[0] >= 0:
                state.batches.append(_last_batch(*last[:4]))
            self._latest = max([self._latest, *(batch.timestamp for batch in state.batches)])
        return True


def _read_earlier(content: memoryview) -> Iterator[list[ProducedBatch]]:
    """The batches before the last of each producer; nothing for a snapshot that Kafka wrote."""
    at = 0
    while at < len(content):
        (count,) = _EARLIER.unpack_from(content, at)
        at += _EARLIER.size
        end = at + count * _BATCH.size
        yield [ProducedBatch(*fields) for fields in _BATCH.iter_unpack(content[at:end])]
        at = end


def _last_batch(last_sequence: int, last_offset: int, spans: int, timestamp: int) -> ProducedBatch:
    first_sequence = advance_sequence(last_sequence, -spans)
    return ProducedBatch(first_sequence, last_sequence, last_offset - spans, last_offset, timestamp)
