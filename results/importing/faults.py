"""Map the events of a foreign nemesis to fault windows, which shade a timeline and prove nothing.

Names pair the begin of a fault with its end: `start-partition` and `stop-partition`, `kill` and `start`, `pause` and
`resume`, `bump-clock` and `reset-clock`. Jepsen reports each twice, when it is requested and when it is done; the
window is the widest of these. A foreign history does not state whether a fault took effect, so no evidence is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from squall.results.history.segments import FaultWindow
from squall.results.importing.edn import shown
from squall.results.importing.reading import ForeignHistory

_ENDS: Final = {
    "stop": ("start",),
    "start": ("kill", "stop-node", "crash"),
    "resume": ("pause",),
    "reset-clock": ("bump-clock", "strobe-clock", "bump", "strobe"),
    "reset": ("bump", "strobe"),
    "heal": ("partition", "start-partition"),
}
_NO_FAULTS: Final = ("check-clock-offsets", "check-offsets")
UNPROVEN: Final = "imported: a foreign history says what was asked of its nemesis, not what was seen"


def fault_windows(history: ForeignHistory) -> Iterator[FaultWindow]:
    """Yield the windows in the order in which they begin."""
    found: list[FaultWindow] = []
    open_ones: dict[str, int] = {}
    closed: dict[str, list[int]] = {}
    for time, event in history.nemesis:
        if event.f in _NO_FAULTS:
            continue
        begins = _begun_by(event.f)
        ended = [name for name in begins if name in open_ones]
        if ended:
            closed[event.f] = [open_ones.pop(name) for name in ended]
        elif event.f not in open_ones and not (begins and event.f in closed):
            open_ones[event.f] = len(found)
            summary = "" if event.value is None else shown(event.value)[:200]
            found.append(_window(len(found), event.f, time, summary))
            closed = {end: one for end, one in closed.items() if event.f not in _begun_by(end)}
            continue
        for place in closed.get(event.f, ()):
            found[place] = _until(found[place], time)
    yield from found


def _begun_by(f: str) -> tuple[str, ...]:
    """Return the names of the faults that the event `f` ends."""
    named = (f"start-{f.removeprefix('stop-')}",) if f.startswith("stop-") else ()
    return named + _ENDS.get(f, ())


def _window(number: int, f: str, time: int, summary: str) -> FaultWindow:
    name = f.removeprefix("start-")
    return FaultWindow(id=str(number + 1), fault=name, targets=(), summary=summary, injected=time, trouble=UNPROVEN)


def _until(one: FaultWindow, time: int) -> FaultWindow:
    return FaultWindow(
        id=one.id,
        fault=one.fault,
        targets=(),
        summary=one.summary,
        injected=one.injected,
        healed=time,
        trouble=UNPROVEN,
    )
