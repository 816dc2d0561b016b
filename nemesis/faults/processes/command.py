"""A user-defined fault: shell commands inject it, heal it, and check whether it holds.

The check runs before, during and after: it must fail, succeed and fail again. So a command that does nothing, or a
check that always succeeds, proves nothing.
"""

from __future__ import annotations

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import first_reason
from squall.nemesis.options import Command


class RunCommands(AimedFault):
    """`command`"""

    def __init__(self, options: Command, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options

    async def observe(self) -> Facts:
        asked = {"id": self._context.id, "check": self._options.check, "timeout": self._options.timeout}
        answers = await self._ask("probe.command", **asked)
        said = [f"{host} check {_outcome(answer)}" for host, answer in zip(self._targets, answers, strict=True)]
        return {"checks": dict(zip(self._targets, answers, strict=True)), "said": ", ".join(said)}

    async def inject(self, ttl: float) -> None:
        options, context = self._options, self._context
        asked = {"inject": options.inject, "heal": options.heal, "timeout": options.timeout}
        await all_of(
            context.hosts[host].call("host.command", id=context.id, ttl=ttl, **asked) for host in self._targets
        )

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return first_reason([self._why_not_held(host, before, during) for host in self._targets])

    def _why_not_held(self, host: str, before: Facts, during: Facts) -> str | None:
        if before["checks"][host]["status"] is None:
            return f"{host}: {how_it_went(before['checks'][host])} before the fault, so it proves nothing"
        if before["checks"][host]["status"] == 0:
            return f"{host}: the check succeeded before as well"
        if during["checks"][host]["status"] != 0:
            return f"{host}: {how_it_went(during['checks'][host])}"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return first_reason([self._why_not_over(host, after["checks"][host]) for host in self._targets])

    def _why_not_over(self, host: str, seen: Facts) -> str | None:
        if seen["open"]:
            return f"{host}: the fault is still open"
        if seen["status"] is None:
            return f"{host}: {how_it_went(seen)}"
        return f"{host}: the check still succeeds" if seen["status"] == 0 else None

    def told(self, during: Facts) -> str:
        said = next((seen["said"] for seen in during["checks"].values() if seen["said"]), "")
        return "the check succeeds" + (f": {said.splitlines()[-1]}" if said else "")


def _outcome(seen: Facts) -> str:
    return "succeeds" if seen["status"] == 0 else "takes too long" if seen["status"] is None else "fails"


def how_it_went(seen: Facts) -> str:
    """The result of a check that did not succeed."""
    how = "took too long" if seen["status"] is None else f"ended with {seen['status']}"
    return f"the check {how}" + (f": {seen['said'].splitlines()[-1]}" if seen["said"] else "")


COMMANDS = (
    Kind(
        Command,
        RunCommands,
        ("host.command",),
        simulation=False,
        on_hosts="shell commands, as the agent's user; the host stores the heal command before the first one runs",
        proof="the check command fails before, succeeds during and fails after",
        limits="proves only what the check command proves; the heal command must be harmless if nothing needs healing",
    ),
)
