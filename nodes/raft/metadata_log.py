"""The log of `__cluster_metadata` with the rules that a quorum puts on it.

Adds to `storage.Log`: record batches made from values, the order of log ends (X05), the answer to a fetcher whose log
is no prefix of this one (QC-15, rule 13), truncation that never reaches below the high watermark (rule 36), and the
reading of what is committed. Snapshots (SN) will move `start_offset` here one day; until then it is 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.nodes.ports import Disk, Trace
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.records import BatchHeader, Record, build_batch, control_key
from squall.nodes.protocol.schema import Message, array, int16, int32, message
from squall.nodes.protocol.value_batches import build_value_batch, parse_values
from squall.nodes.raft.config import RaftConfig
from squall.nodes.raft.errors import InvariantViolation
from squall.nodes.storage.log import Appended, Log

LEADER_CHANGE = 2
"""The kind of control record that says who leads from here on."""


@message()
class LeaderChangeVoter(Message):
    voter_id: int = int32()


@message(flexible=0)
class LeaderChangeMessage(Message):
    """The first record of every epoch: nothing of an older epoch is committed before it (QC-16)."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """One committed batch. `values` are the record values, of a control batch too; they end before `next_offset`."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    values: tuple[bytes, ...]
    is_control: bool

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)

    @property
    def last_offset(self) -> int:
        return self.next_offset - 1


class MetadataLog:
    """One replica's copy of the metadata log."""

    def __init__(self, config: RaftConfig, *, disk: Disk, now_ms: int, trace: Trace) -> None:
        self._node = config.node_id
        self._trace = trace
        self._log = Log.open(disk, config.directory, config.log, now_ms=now_ms, trace=trace)

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def durable_offset(self) -> int:
        return self._log.durable_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log."""
        return self._log.last_epoch or 0

    # -- writing ----------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], epoch: int, now_ms: int) -> int:
        """Append one batch as the leader; returns the offset of its last record."""
        batch = build_value_batch(values, now_ms)
        return self._append(batch, epoch, now_ms)

    def append_leader_change(self, voters: tuple[int, ...], granted: tuple[int, ...], epoch: int, now_ms: int) -> int:
        """Append the control batch that opens this node's epoch as leader."""
        change = LeaderChangeMessage(
            leader_id=self._node,
            voters=[LeaderChangeVoter(voter_id=voter) for voter in voters],
            granting_voters=[LeaderChangeVoter(voter_id=voter) for voter in granted],
        )
        record = Record(key=control_key(LEADER_CHANGE), value=encode_bytes(change, 0))
        return self._append(build_batch([record], timestamp=now_ms, control=True), epoch, now_ms)

    def _append(self, batch: bytearray, epoch: int, now_ms: int) -> int:
        appended = self._log.append_as_leader(batch, epoch, now_ms)
        self._trace_append(appended)
        return appended.last_offset

    def _trace_append(self, appended: Appended) -> None:
        self._trace.event(
            "append", node=self._node, epoch=self.last_epoch, first=appended.first_offset, last=appended.last_offset
        )

    def append_fetched(self, content: memoryview) -> None:
        """Append whole batches as the leader sent them; they must continue this log."""
        base = BatchHeader.read(content).base_offset
        if base != self.end_offset:
            raise InvariantViolation(f"node {self._node}: fetched a batch at {base}, the log ends at {self.end_offset}")
        self._trace_append(self._log.append_as_follower(content))

    def flush(self) -> int:
        """Make everything durable; returns the end of what is."""
        if self._log.durable_offset < self._log.end_offset:
            self._log.flush()
            self._trace.event("fsync", node=self._node, durable=self._log.durable_offset)
        return self._log.durable_offset

    def close(self) -> None:
        self._log.close()

    # -- agreement --------------------------------------------------------------------------------------------

    def is_covered_by(self, last_epoch: int, end_offset: int) -> bool:
        """Whether a log with this end has at least as much as this one: first the epoch counts, then the offset."""
        return (last_epoch, end_offset) >= (self.last_epoch, self.end_offset)

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """None if a log with this end is a prefix of this one, else where it may be: (epoch, end of that epoch)."""
        if fetch_offset == 0:
            return None
        epoch, end_offset = self._log.end_offset_for(last_fetched_epoch)
        if epoch < 0:
            return 0, self.start_offset
        if epoch != last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def truncate_diverged(self, epoch: int, end_offset: int, high_watermark: int) -> None:
        """Cut what the leader does not have: back to the end of `epoch`, or of the next lower one known here."""
        own_epoch, own_end = self._log.end_offset_for(epoch)
        if own_epoch < 0:
            target = self.start_offset
        else:
            target = min(own_end, end_offset) if own_epoch == epoch else own_end
        if target < high_watermark:
            raise InvariantViolation(
                f"node {self._node}: epoch {epoch} ends at {end_offset} at the leader, which would cut this log "
                f"to {target}, below its high watermark {high_watermark}"
            )
        self._trace.event("truncate", node=self._node, end=target, was=self.end_offset)
        self._log.truncate_to(target)

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> memoryview:
        return self._log.read(offset, max_bytes, upper=self.end_offset, at_least_one=True)

    def batches(self, from_offset: int, upper: int) -> Iterator[CommittedBatch]:
        """Whole batches from the one that holds `from_offset`, all below `upper`."""
        for batch in self._log.batches(from_offset, upper):
            header = BatchHeader.read(batch)
            yield CommittedBatch(
                base_offset=header.base_offset,
                epoch=header.leader_epoch,
                timestamp_ms=header.max_timestamp,
                values=parse_values(batch),
                is_control=header.is_control,
            )
