"""Translate nemesis events to the history's fault windows; the one translation between `nemesis` and `results`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from squall.nemesis.core.evidence import in_words
from squall.nemesis.runner import NemesisEvent
from squall.results.history.segments import EventWriter, FaultWindow

KIND_NAMES = {"kill": "kill -9"}


class FaultLog:
    """Keeps the window of every fault, writes each change to the run's fault file, and calls a listener."""

    def __init__(self, writer: EventWriter, tell: Callable[[FaultWindow], None]) -> None:
        self.writer = writer
        self.tell = tell
        self.windows: dict[str, FaultWindow] = {}

    def note(self, event: NemesisEvent) -> None:
        """Record an event of a fault; pass on the window as it now stands."""
        before = self.windows.get(event.id) or opened(event)
        after = changed(before, event)
        self.windows[event.id] = after
        self.writer.write(after)
        self.tell(after)


def opened(event: NemesisEvent) -> FaultWindow:
    """Return the window of a new fault."""
    return FaultWindow(
        id=event.id,
        fault=KIND_NAMES.get(event.kind, event.kind),
        targets=event.targets,
        summary=summary(event),
    )


def summary(event: NemesisEvent) -> str:
    """Return `b2 (leader of events/3)`; the role is left out where it adds nothing."""
    names = ", ".join(event.targets) or "nobody"
    return names if event.role in ("by name", "nobody", "") else f"{names} ({event.role})"


def changed(window: FaultWindow, event: NemesisEvent) -> FaultWindow:
    """Return a window after one more event."""
    changes: dict[str, object] = {"targets": event.targets, "summary": summary(event)}
    record = event.record
    if event.phase == "started":
        changes["injected"] = event.at_ns
    elif event.phase in ("proven", "unproven") and record is None:
        changes |= {"took": event.phase == "proven", "during": event.text, "shown": event.at_ns}
    if record is not None:
        changes |= {
            "injected": record.injected_at_ns,
            "healed": record.healed_at_ns,
            "took": record.proven,
            "undone": record.healed if record.injected_at_ns is not None else None,
            "before": in_words(record.evidence_before),
            "after": in_words(record.evidence_after),
            "ended": event.at_ns if record.injected_at_ns is not None else None,
        }
        if record.injected_at_ns is None or not record.healed:
            changes["trouble"] = record.detail
    return msgspec.structs.replace(window, **changes)
