"""Recover a log after an unclean stop: keep its longest sound prefix (rule 17).

Everything below the recovery point was on the disk before the checkpoint was written, and is trusted: whole segments by
their indexes, the rest of one segment by the headers of its batches. From the recovery point on, every batch is read
and its checksum computed. The log ends before the first batch that is torn, damaged, or does not continue the one
before it; everything after that is dropped, later segments too.

Sealed segments whose index files do not fit, or whose batches were read, get index files written anew.

The epoch cache file has every epoch that began before the last segment. The epochs that began in the last segment are
read from its batches; therefore all of them are read, trusted or not. Where a batch's epoch contradicts the file, the
batch is right (epochs.py).

Mutant `torn-tail-accepted`: any data with a batch's header counts as a batch, and a torn batch is padded with zeros to
the length in its header.
"""

from __future__ import annotations

import struct

from squall.nodes.mutants import Mutants
from squall.nodes.ports import Trace
from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import BatchHeader, crc_ok
from squall.nodes.storage.epochs import LeaderEpochCache
from squall.nodes.storage.segment import HEADER_SIZE, BatchPosition, Segment
from squall.nodes.storage.segments import Segments

_LENGTH_AT = 8
_PREFIX_SIZE = 12
_TORN_LENGTH_MAX = 1 << 24


class Recovery:
    """Recovers the segments and the epoch cache of one log, once."""

    def __init__(
        self,
        directory: str,
        segments: Segments,
        epochs: LeaderEpochCache,
        recovery_point: int,
        *,
        trace: Trace,
        mutants: Mutants,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._recovery_point = recovery_point
        self._trace = trace
        self._accepts_torn_tail = mutants.has("torn-tail-accepted")

    def run(self) -> None:
        """Recover; see the module. Nothing is flushed yet when it returns."""
        every = self._segments.all
        for at, segment in enumerate(every):
            following = every[at + 1].base_offset if at + 1 < len(every) else None
            if following is not None and following <= self._recovery_point:
                fits = segment.load()
                sound = segment.next_offset == following
            else:
                fits = False
                sound = self._rescan(segment) and following in (None, segment.next_offset)
            if sound and not fits and following is not None:
                segment.write_index()
            if not sound:
                self._segments.keep_first(at + 1)
                break

    def _rescan(self, segment: Segment) -> bool:
        """Account for every sound batch of a segment and truncate the rest. Return whether nothing was truncated."""
        if self._accepts_torn_tail:
            _fill_up_torn_batch(segment)
        size = segment.size
        places = list(segment.places(0))
        segment.forget()
        for place in places:
            header = self._sound_header(segment, place)
            if header is None or place.base_offset != segment.next_offset:
                break
            segment.note(place.base_offset, place.last_offset, header.max_timestamp, header.size)
            self._epochs.observe(header.leader_epoch, place.base_offset)
        segment.dirty = True
        if segment.size == size:
            return True
        self._trace.event("recovery_cut", log=self._directory, end=segment.next_offset, bytes=size - segment.size)
        segment.cut(segment.size)
        return False

    def _sound_header(self, segment: Segment, place: BatchPosition) -> BatchHeader | None:
        """The header of a sound batch, else None."""
        trusted = place.last_offset < self._recovery_point or self._accepts_torn_tail
        batch = memoryview(segment.read(place.position, HEADER_SIZE if trusted else place.end - place.position))
        try:
            header = BatchHeader.read(batch)
        except ProtocolError:
            return None
        if header.last_offset_delta < 0:
            return None
        return header if trusted or crc_ok(batch) else None


def _fill_up_torn_batch(segment: Segment) -> None:
    """Pad a torn batch, for the mutant: see the module."""
    end = 0
    for place in segment.places(0):
        end = place.end
    rest = segment.size - end
    if rest < HEADER_SIZE:
        return
    (length,) = struct.unpack(">i", segment.read(end + _LENGTH_AT, 4))
    missing = _PREFIX_SIZE + length - rest
    if 0 < missing <= _TORN_LENGTH_MAX:
        segment.file.append(bytes(missing))
        segment.size += missing
