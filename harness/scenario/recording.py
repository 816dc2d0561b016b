"""Translate operations to the history: the only translation between `workloads` and `results`.

A `Recorder` receives every event of an interpreter and writes it to its segment: the invocation when it happens, the
completion when it comes. It joins nothing and judges nothing; an operation without a completion stays open in the
history.
"""

from __future__ import annotations

from pathlib import Path

from squall.results.history.segments import (
    ACKS_ALL,
    CompletionRow,
    HistoryWriter,
    InvocationRow,
    RegisterCompletion,
    RegisterInvocation,
    SegmentHeader,
    segment_path,
)
from squall.workloads.core.operation import MARKER, Event


class Recorder:
    """Writes one segment of a run's history."""

    def __init__(self, writer: HistoryWriter, *, markers_differ: bool = False) -> None:
        self.writer = writer
        # Markers are always acks=all and idempotent, independent of the workload's producers.
        self.marker_acks = ACKS_ALL if markers_differ else None
        self.marker_idempotent = True if markers_differ else None

    @classmethod
    def open(
        cls,
        run_directory: Path,
        run_id: str,
        segment: int,
        *,
        acks: str = "all",
        idempotent: bool = True,
        clock_id: int = 0,
        clock_offset: int = 0,
        clock_error: int = 0,
    ) -> Recorder:
        """Begin a new segment of the run in `run_directory`. `acks` and `idempotent` are those of the producers."""
        header = SegmentHeader(
            run_id=run_id,
            segment=segment,
            acks=ACKS_ALL if acks == "all" else int(acks),
            idempotent=idempotent,
            clock_id=clock_id,
            clock_offset=clock_offset,
            clock_error=clock_error,
        )
        writer = HistoryWriter(segment_path(run_directory, segment), header)
        return cls(writer, markers_differ=acks != "all" or not idempotent)

    @property
    def rows(self) -> int:
        """Completed operations written so far."""
        return self.writer.rows

    def record(self, event: Event) -> None:
        """Write an invocation or a completion."""
        operation, completion = event.operation, event.completion
        if operation.register is not None:
            self._record_on_register(event, operation.register)
            return
        if completion is None:
            marker = operation.f == MARKER
            self.writer.invoke(
                InvocationRow(
                    operation.f,
                    operation.process,
                    operation.client,
                    event.invoked,
                    operation.at,
                    operation.topic,
                    operation.partition,
                    operation.value,
                    self.marker_acks if marker else None,
                    self.marker_idempotent if marker else None,
                )
            )
            return
        assert event.completed is not None
        self.writer.complete(
            CompletionRow(
                operation.process,
                completion.type,
                event.completed,
                completion.offset,
                completion.offsets,
                completion.values,
                completion.error,
                completion.client,
                completion.sequence,
                completion.session,
                completion.position,
                completion.leader_epoch,
                completion.high_watermark,
                completion.log_start,
                completion.node,
                completion.idempotent,
            )
        )

    def _record_on_register(self, event: Event, register: str) -> None:
        operation, completion = event.operation, event.completion
        if completion is None:
            self.writer.invoke(
                RegisterInvocation(
                    operation.f,
                    operation.process,
                    operation.client,
                    event.invoked,
                    operation.at,
                    register,
                    operation.value,
                    operation.expected,
                )
            )
            return
        assert event.completed is not None
        self.writer.complete(
            RegisterCompletion(
                operation.process,
                completion.type,
                event.completed,
                found=completion.found,
                version=completion.version,
                refused=completion.refused,
                error=completion.error,
                node=completion.node,
            )
        )

    def flush(self) -> None:
        """Make everything recorded so far survive the death of this process."""
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
