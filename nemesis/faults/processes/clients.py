"""Paused clients: load workers on client hosts, paused as a node's process is.

A client sleeps through its timeouts and wakes: its requests may have been processed or not, and it reports *info* where
it does not know. Evidence is a new look at the process table of the client's host.
"""

from __future__ import annotations

from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.selector import NoTarget, Target
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import first_reason, same_process
from squall.nemesis.options import PauseClients


class PauseLoad:
    """`pause-clients`"""

    kind = "pause-clients"
    waits_to_show = False

    def __init__(self, options: PauseClients, context: FaultContext) -> None:
        self._which = options.which
        self._context = context
        self._chosen: tuple[tuple[str, str], ...] = ()
        """Client hosts and the names of processes on them."""

    async def aim(self) -> Target:
        loads = self._context.loads
        everyone = tuple((host, name) for host in sorted(loads) for name in loads[host].processes)
        if not everyone:
            raise NoTarget("no load worker runs on a client host")
        self._chosen = everyone if self._which == "all" else (self._context.rng.choice(everyone),)
        hosts = tuple(dict.fromkeys(host for host, _ in self._chosen))
        return Target(hosts, ", ".join(name for _, name in self._chosen))

    async def observe(self) -> Facts:
        loads = self._context.loads
        answers = await all_of(loads[host].host.call("proc.status", name=name) for host, name in self._chosen)
        return {
            "processes": {
                f"{host}/{name}": {key: answer.get(key) for key in ("state", "pid", "started")}
                for (host, name), answer in zip(self._chosen, answers, strict=True)
            }
        }

    def _id(self, name: str) -> str:
        """The fault's id for one worker: a host has one open fault of each id, and may have several workers."""
        return f"{self._context.id}/{name}"

    async def inject(self, ttl: float) -> None:
        loads = self._context.loads
        await all_of(
            loads[host].host.call("proc.pause", id=self._id(name), name=name, ttl=ttl) for host, name in self._chosen
        )

    async def heal(self) -> None:
        loads = self._context.loads
        await all_of(loads[host].host.call("heal", id=self._id(name)) for host, name in self._chosen)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return first_reason(
            [_why_not_asleep(who, before["processes"][who], seen) for who, seen in during["processes"].items()]
        )

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return first_reason(
            [
                None if seen["state"] == "running" else f"{who}: the process is {seen['state']}"
                for who, seen in after["processes"].items()
            ]
        )

    def told(self, during: Facts) -> str:
        return f"{len(self._chosen)} load workers stopped" if len(self._chosen) > 1 else "load worker stopped"

    def cuts(self) -> Grudge:
        return {}


def _why_not_asleep(who: str, before: Facts, during: Facts) -> str | None:
    if before["state"] != "running":
        return f"{who}: the process was {before['state']} before"
    if during["state"] != "stopped":
        return f"{who}: the process is {during['state']}"
    return None if same_process(before, during) else f"{who}: another process than before is stopped"


CLIENTS = (
    Kind(
        PauseClients,
        PauseLoad,
        ("proc.adopt", "proc.pause"),
        simulation=False,
        on_hosts="SIGSTOP of load workers on client hosts; SIGCONT when healed",
        proof="state `stopped` of the same process",
        limits="needs client hosts; a load worker is never killed, because its history would end too",
    ),
)
