"""`reconfigure`: brokers restart one after the other with other settings, and one after the other back again.

It is the rolling restart of an operator who has edited a file on each host, such as the two rolls that move a cluster
to a listener for the controller's requests (KIP-291, P21). The host keeps the change in its journal and takes it back
at its time to live; a node that then still runs by it is killed and started again. The way back after the window is as
clean as the way there.

Evidence is what each broker reports of itself (DescribeConfigs), beside the evidence of a rolling restart: with the
fault the values that were set, and after it those from before.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.ports import HostUnreachable, OperationRefused, VerbFailed
from squall.nemesis.core.selector import NoTarget, Target
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import LOOK_SECONDS, first_reason, why_not_back
from squall.nemesis.faults.processes.rounds import LONGEST_DOWN_MARGIN, RestartOneByOne
from squall.nemesis.options import Reconfigure

REPORT_SECONDS = 5.0
"""How long a broker that serves clients may take to report its settings."""
BACK_SECONDS = 20.0
"""How long a broker may take to accept connections again, on the way back."""


class ReconfigureBrokers(RestartOneByOne):
    """See the module."""

    def __init__(self, options: Reconfigure, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options
        self._stop_id = f"{context.id}/stop"
        self._ttl = 0.0
        self._changed: list[str] = []

    async def aim(self) -> Target:
        target = await super().aim()
        others = [host for host in target.hosts if host not in self._context.cluster.brokers]
        if others:
            raise NoTarget(f"{others[0]} is no broker, and only brokers report their settings")
        return target

    async def inject(self, ttl: float) -> None:
        way_back = len(self._targets) * (self._patience + LONGEST_DOWN_MARGIN + BACK_SECONDS + self._between)
        self._ttl = ttl + way_back
        await super().inject(ttl)

    async def observe(self) -> Facts:
        found = await super().observe()
        rolls = self._task is not None and not self._task.done()
        reported = {} if rolls else {host: await self._reported(host) for host in self._targets}
        return {**found, "reported": reported}

    async def _reported(self, host: str) -> Mapping[str, str | None]:
        """The values of these settings as the broker reports them; empty if it does not in time."""
        context, operator = self._context, self._context.operator
        end = context.now_ns() + round(REPORT_SECONDS * 1e9)
        while operator is not None:
            try:
                found = await operator.settings_of(host)
                return {key: found.get(key) for key in self._options.settings}
            except OperationRefused:
                if context.now_ns() >= end:
                    break
            await context.sleep(LOOK_SECONDS)
        return {}

    async def _before_the_stop(self, host: str) -> None:
        self._changed.append(host)
        await self._change(host)

    async def _change(self, host: str) -> None:
        context = self._context
        settings = self._options.texts(context.hosts[host].address)
        await context.hosts[host].call(
            "proc.reconfigure", id=context.id, name=context.process, settings=settings, ttl=self._ttl
        )

    async def heal(self) -> None:
        """Restart what was changed as it was before, one after the other."""
        await self.stand_down()
        for host in tuple(self._changed):
            await self._restore(host)
            self._changed.remove(host)
            await self._context.sleep(self._between if self._changed else 0.0)
        self._stopped.clear()

    async def _restore(self, host: str) -> None:
        context = self._context
        if (await self._look((host,)))[host]["state"] == "running":
            await self._stop(host)
        await context.hosts[host].call("heal", id=context.id)
        await context.hosts[host].call("proc.start", name=context.process)
        end = context.now_ns() + round(BACK_SECONDS * 1e9)
        while context.now_ns() < end and await self._why_not_serving(host) is not None:
            await context.sleep(LOOK_SECONDS)

    async def _why_not_serving(self, host: str) -> str | None:
        try:
            return why_not_back(host, (await self._look((host,)))[host])
        except (VerbFailed, HostUnreachable) as trouble:
            return str(trouble)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        reasons = (self._why_not_changed(host, before, during) for host in self._targets)
        return super().check_effect(before, during) or first_reason(list(reasons))

    def _why_not_changed(self, host: str, before: Facts, during: Facts) -> str | None:
        was, now = before["reported"].get(host), during["reported"].get(host)
        if not was or not now:
            return f"{host}: does not report its settings"
        for key, value in self._options.texts(self._context.hosts[host].address).items():
            if now[key] != value:
                return f"{host}: reports {now[key]!r} for {key}, not {value!r}"
        return f"{host}: its settings are those from before" if was == now else None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        reasons = (self._why_not_restored(host, before, after) for host in self._targets)
        return super().shows_end(before, after) or first_reason(list(reasons))

    def _why_not_restored(self, host: str, before: Facts, after: Facts) -> str | None:
        was, now = before["reported"].get(host), after["reported"].get(host)
        return None if was == now else f"{host}: does not report its settings from before"

    def told(self, during: Facts) -> str:
        return f"{', '.join(self._targets)} report {', '.join(self._options.settings)} as set"


RECONFIGURATIONS = (
    Kind(
        Reconfigure,
        ReconfigureBrokers,
        ("proc.reconfigure", "proc.term"),
        on_hosts="settings appended to the node's file, SIGTERM and a start, host by host; the same back when healed",
        proof="as for `rolling-restart`; and each broker reports the settings (DescribeConfigs), later its former ones",
        limits="brokers only; a control process that ends without healing leaves nodes to be killed and started again",
    ),
)
