"""An observer that does not judge: a run is judged by its history and its nodes' evidence alone, as on hosts.

A run without a judging observer goes on after a breach, to its end. The observer still records what a watcher records
on hosts: who leads the quorum, and in runs that must be calm every change of an ISR. It also records the losses that
unclean elections declare. Nothing on hosts shows those, and without them a legal loss would be a false alarm.

After its first breach the observer's own account is wrong, so it looks no further. `breach` says what it was, to
compare the findings of observer and history.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.harness.simulation.observer.invariants import Observer
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.protocol.requests.session import ServerRequest
from squall.workloads.core.operation import Event


class UnjudgedObserver(Observer):
    """Observes until the first breach, and raises nothing."""

    breach: Exception | None = None
    """What broke: an InvariantBroken, or the error of an observer that met a state it cannot account for."""

    def event(self, name: str, **fields: object) -> None:
        self._unless_broken(lambda: super(UnjudgedObserver, self).event(name, **fields))

    def power_lost(self, name: str) -> None:
        self._unless_broken(lambda: super(UnjudgedObserver, self).power_lost(name))

    def look(self, process: SimProcess) -> None:
        self._unless_broken(lambda: super(UnjudgedObserver, self).look(process))

    def early_turn(self, process: SimProcess, due: int) -> Callable[[], None]:
        check = super().early_turn(process, due)
        return lambda: self._unless_broken(check)

    def _answered(self, process: SimProcess, request: ServerRequest) -> None:
        if self.breach is None:
            super()._answered(process, request)

    def client_event(self, event: Event, number: int = 0, at: int = 0) -> None:
        self._unless_broken(lambda: super(UnjudgedObserver, self).client_event(event, number, at))

    def final(self) -> None:
        self._unless_broken(super().final)

    def _unless_broken(self, observe: Callable[[], None]) -> None:
        if self.breach is not None:
            return
        try:
            observe()
        except Exception as breach:
            self.breach = breach
