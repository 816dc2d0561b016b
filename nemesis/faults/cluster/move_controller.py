"""Moves the quorum's leadership: the active controller stops cleanly, and another takes its place.

No request moves it, so the process is stopped cleanly, which makes it resign, and restarted when the fault is over.
Evidence is the active controller that the quorum reports, besides the process table.
"""

from __future__ import annotations

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.selector import Target
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import RestartProcess
from squall.nemesis.options import MoveController, Restart


class MoveActiveController:
    """`move-controller`."""

    waits_to_show = True

    def __init__(self, options: MoveController, context: FaultContext) -> None:
        self.kind: str = options.fault
        restart = Restart(fault="restart", target="active controller", patience=options.patience)
        self._restart = RestartProcess(restart, context)
        self._context = context

    async def aim(self) -> Target:
        return await self._restart.aim()

    async def observe(self) -> Facts:
        active = await self._context.cluster.active_controller()
        return {"processes": await self._restart.observe(), "active": active}

    async def inject(self, ttl: float) -> None:
        await self._restart.inject(ttl)

    async def heal(self) -> None:
        await self._restart.heal()

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        reason = self._restart.check_effect(before["processes"], during["processes"])
        if reason is None and during["active"] in (None, before["active"]):
            return f"the active controller is {during['active'] or 'not known'}, and was {before['active']}"
        return reason

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return self._restart.shows_end(before["processes"], after["processes"])

    def told(self, during: Facts) -> str:
        return f"{during['active']} is the active controller now"

    def cuts(self) -> Grudge:
        return {}


CONTROLLER_MOVES = (
    Kind(
        MoveController,
        MoveActiveController,
        ("proc.term",),
        on_hosts="SIGTERM to the active controller; started again when healed",
        proof="another controller is active according to the quorum, and the process stopped by itself",
    ),
)
