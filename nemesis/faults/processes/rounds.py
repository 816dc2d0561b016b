"""Repeated restarts: one process bounced again and again, or all processes restarted one after the other.

Both act while their window lasts, as a task beside the runner's observations; they use the verbs that kill, stop and
start. Each stop has its own time to live, so the hosts end the storm if it is not healed.

Evidence is the process table, observed in each round, and by the runner in between: a bounce counts if pid and start
time differ from before, a rolling restart if a process was missing and another one took its place.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from typing import Any

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of, process_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import HostUnreachable, VerbFailed
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import LOOK_SECONDS, first_reason, same_process, why_not_back
from squall.nemesis.options import Bounce, Reconfigure, RollingRestart

FEWEST_BOUNCES = 2
"""A single one might be a kill from another source."""
LONGEST_DOWN_MARGIN = 5.0


class _Rounds(AimedFault):
    """A fault that acts until `stand_down`."""

    waits_to_show = True

    def __init__(self, options: Bounce | RollingRestart | Reconfigure, context: FaultContext) -> None:
        super().__init__(options, context)
        self._task: asyncio.Task[None] | None = None
        self._step: asyncio.Task[Any] | None = None
        self._trouble = ""

    async def inject(self, ttl: float) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    @abstractmethod
    async def _go_on(self) -> None: ...

    async def _whole(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Complete a step even if `stand_down` comes meanwhile, so that nothing happens after that."""
        self._step = asyncio.get_running_loop().create_task(step)
        return await asyncio.shield(self._step)

    async def stand_down(self) -> None:
        """Stop acting before returning."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._step is not None:
            await asyncio.gather(self._step, return_exceptions=True)

    async def _look(self, hosts: tuple[str, ...]) -> Facts:
        context = self._context
        return await process_facts(context.hosts, hosts, context.process, context.ports)

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return first_reason([why_not_back(host, after["processes"][host]) for host in self._targets])


class BounceProcess(_Rounds):
    """`bounce`: all targets at once, round after round."""

    def __init__(self, options: Bounce, context: FaultContext) -> None:
        super().__init__(options, context)
        self._every, self._down = options.every, options.down
        self._kills: dict[str, int] = {}
        self._lives: dict[str, list[tuple[object, object]]] = {}

    async def observe(self) -> Facts:
        facts = await self._look(self._targets)
        self._remember(facts)
        starts = {host: max(0, len(self._lives.get(host, ())) - 1) for host in self._targets}
        kills = {host: self._kills.get(host, 0) for host in self._targets}
        return {"processes": facts, "new_processes": starts, "kills": kills, "trouble": self._trouble}

    def _remember(self, facts: Facts) -> None:
        for host, seen in facts.items():
            life = (seen["pid"], seen["started"])
            if seen["state"] != "absent" and life not in self._lives.setdefault(host, []):
                self._lives[host].append(life)

    async def _go_on(self) -> None:
        context = self._context
        while True:
            began = context.now_ns()
            await self._whole(self._round_of_kills())
            await context.sleep(self._down)
            await self._whole(self._start_all())
            await context.sleep(max(LOOK_SECONDS, self._every - (context.now_ns() - began) / 1e9))

    async def _round_of_kills(self) -> None:
        """Kill on all hosts. A host that cannot be asked, or has no process to kill, is skipped in this round."""
        try:
            self._remember(await process_facts(self._context.hosts, self._targets, self._context.process, {}))
        except (VerbFailed, HostUnreachable) as trouble:
            self._trouble = str(trouble)
        await asyncio.gather(*(self._kill(host) for host in self._targets))

    async def _kill(self, host: str) -> None:
        context = self._context
        try:
            ttl = self._down + LONGEST_DOWN_MARGIN
            await context.hosts[host].call("proc.kill", id=context.id, name=context.process, ttl=ttl)
        except (VerbFailed, HostUnreachable) as trouble:
            self._trouble = str(trouble)
        else:
            self._kills[host] = self._kills.get(host, 0) + 1

    async def _start_all(self) -> None:
        context = self._context
        calls = (context.hosts[host].call("heal", id=context.id) for host in self._targets)
        for failed in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(failed, VerbFailed | HostUnreachable):
                self._trouble = str(failed)

    async def heal(self) -> None:
        await self.stand_down()
        await self._ask("heal", id=self._context.id)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for host in self._targets:
            if before["processes"][host]["state"] == "absent":
                return f"{host}: the process was not running before"
            starts = int(during["new_processes"][host])
            if starts < FEWEST_BOUNCES:
                why = f" ({during['trouble']})" if during["trouble"] else ""
                return f"{host}: only {starts} new processes were seen, {FEWEST_BOUNCES} prove a bounce{why}"
        return None

    def told(self, during: Facts) -> str:
        starts = during["new_processes"]
        return ", ".join(f"{starts[host] + 1} processes on {host}, one after the other" for host in self._targets)


class RestartOneByOne(_Rounds):
    """`rolling-restart`, and what restarts with other settings (reconfigure.py)."""

    def __init__(self, options: RollingRestart | Reconfigure, context: FaultContext) -> None:
        super().__init__(options, context)
        self._patience, self._between = options.patience, options.between
        self._stop_id = context.id
        self._stopped: list[str] = []
        self._rolled: dict[str, Facts] = {}

    async def observe(self) -> Facts:
        return {"processes": await self._look(self._targets), "rolled": dict(self._rolled), "trouble": self._trouble}

    async def _go_on(self) -> None:
        for host in self._targets:
            await self._whole(self._restart(host))
            await self._wait_for(host)
            await self._context.sleep(self._between)

    async def _before_the_stop(self, host: str) -> None:
        """Do nothing: a node restarts as it was."""

    async def _restart(self, host: str) -> None:
        """Restart one host and record what was observed; a host that cannot be asked ends the round here."""
        context = self._context
        try:
            before = (await process_facts(context.hosts, (host,), context.process, {}))[host]
            await self._before_the_stop(host)
            self._stopped.append(host)
            answer = await self._stop(host)
            gone = (await self._look((host,)))[host]
            self._rolled[host] = {"before": before, "gone": gone, "by_itself": bool(answer.get("by_itself", True))}
            await context.hosts[host].call("proc.start", name=context.process)
            self._stopped.remove(host)
        except (VerbFailed, HostUnreachable) as trouble:
            self._trouble = str(trouble)
            raise

    async def _stop(self, host: str) -> Facts:
        context = self._context
        return await context.hosts[host].call(
            "proc.term",
            id=self._stop_id,
            name=context.process,
            timeout=self._patience,
            ttl=self._patience + LONGEST_DOWN_MARGIN,
        )

    async def _wait_for(self, host: str) -> None:
        while True:
            seen = (await self._look((host,)))[host]
            if why_not_back(host, seen) is None:
                self._rolled[host] = {**self._rolled[host], "back": seen}
                return
            await self._context.sleep(LOOK_SECONDS)

    async def heal(self) -> None:
        await self.stand_down()
        context = self._context
        await all_of(context.hosts[host].call("proc.start", name=context.process) for host in tuple(self._stopped))
        self._stopped.clear()

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return first_reason([self._why_not_rolled(host, during) for host in self._targets])

    def _why_not_rolled(self, host: str, during: Facts) -> str | None:
        seen = during["rolled"].get(host)
        if seen is None or "back" not in seen:
            why = f" ({during['trouble']})" if during["trouble"] else "; give it more time by `for`"
            return f"{host}: its restart was not over within the window{why}"
        if not seen["by_itself"]:
            return f"{host}: did not stop cleanly within {self._patience:g} s and was killed"
        if seen["before"]["state"] != "running" or seen["gone"]["state"] != "absent":
            return f"{host}: the process was {seen['before']['state']}, and after the stop {seen['gone']['state']}"
        if same_process(seen["before"], seen["back"]):
            return f"{host}: the process is the same as before"
        return None

    def told(self, during: Facts) -> str:
        return f"{', '.join(self._targets)} stopped by themselves and came back, one after the other"


ROUNDS = (
    Kind(
        Bounce,
        BounceProcess,
        ("proc.kill",),
        on_hosts="SIGKILL and a new start, repeatedly",
        proof="at least two new pids and start times in the process table",
        limits="a process that takes longer than `every` to start is killed before it serves clients",
    ),
    Kind(
        RollingRestart,
        RestartOneByOne,
        ("proc.term",),
        on_hosts="SIGTERM and a start, host by host",
        proof="for each host: the process ended by itself, left the process table, and another process replaced it",
    ),
)
