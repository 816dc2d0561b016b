"""A process that dies exactly before or exactly after one of its own disk calls.

The node runs under a watch over its disk calls, which waits for the call and kills (`nemesis/agent`). Evidence is the
process table, and the files that the call was about: their sizes before it as recorded by the watch, and now. Before a
call nothing may have changed; after one that creates, renames or removes, its effect must be visible.
"""

from __future__ import annotations

from squall.nemesis.core.evidence import Facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.faults.kind import Kind
from squall.nemesis.faults.processes.process import KillProcess
from squall.nemesis.options import KillAtCall


class KillAtDiskCall(KillProcess):
    """`kill-at-call`"""

    waits_to_show = True

    def __init__(self, options: KillAtCall, context: FaultContext) -> None:
        super().__init__(options, context)
        self._options = options

    async def observe(self) -> Facts:
        context = self._context
        facts = await super().observe()
        for host in self._targets:
            seen = await context.hosts[host].call("probe.failpoint", id=context.id)
            facts[host] |= {"open": seen["open"], "calls": seen["met"], "deed": seen["deed"]}
        return facts

    async def inject(self, ttl: float) -> None:
        context, options = self._context, self._options
        asked = {"calls": [options.call], "path": options.path, "when": options.when, "nth": options.nth}
        await self._ask("proc.kill_at_call", id=context.id, name=context.process, ttl=ttl, **asked)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for host in self._targets:
            seen = during[host]
            if seen["deed"] is None:
                made = f"{seen['calls']} of {self._options.nth}" if seen["calls"] else "none"
                return f"{host}: still waiting for {self._options.call} calls on {self._options.path}: saw {made}"
            wrong = why_not_there(self._options, seen["deed"])
            if wrong:
                return f"{host}: {wrong}"
        return super().check_effect(before, during)

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        still = [host for host in self._targets if after[host]["open"]]
        return f"{still[0]}: the kill is still armed" if still else super().shows_end(before, after)

    def told(self, during: Facts) -> str:
        options = self._options
        deeds = {host: during[host]["deed"] for host in self._targets}
        where = ", ".join(
            f"{host} at {short(next(iter(deed['before'])))} ({sizes(deed)})" for host, deed in deeds.items()
        )
        return f"process gone {options.when} {options.call} number {options.nth}: {where}"


def short(path: str) -> str:
    """The file and its directory: enough to identify the log."""
    return "/".join(path.split("/")[-2:])


def sizes(deed: Facts) -> str:
    """The size of the first file of a call before it and now."""
    path = next(iter(deed["before"]))
    was, now = (size if size is not None else "none" for size in (deed["before"][path], deed["now"][path]))
    return f"{was} bytes then, {now} now"


def why_not_there(options: KillAtCall, deed: Facts) -> str | None:
    """Why the files do not show that the process died there; None if they do."""
    if deed["error"]:
        return f"the call itself failed: {deed['error']}"
    paths = list(deed["before"])
    if options.when == "before":
        changed = [path for path in paths if deed["now"][path] != deed["before"][path]]
        return f"{short(changed[0])} changed, although the call was not made" if changed else None
    created = {"create": paths[-1:], "rename": paths[-1:]}.get(options.call, [])
    removed = {"remove": paths[:1], "rename": paths[:1]}.get(options.call, [])
    for path in created:
        if deed["now"][path] is None:
            return f"{short(path)} does not exist, although the call was made"
    for path in removed:
        if deed["now"][path] is not None:
            return f"{short(path)} still exists, although the call was made"
    if options.call == "write" and (deed["now"][paths[0]] or 0) < (deed["before"][paths[0]] or 0):
        return f"{short(paths[0])} became shorter by a write"
    return None


FAILPOINTS = (
    Kind(
        KillAtCall,
        KillAtDiskCall,
        ("proc.kill_at_call",),
        simulation=False,
        on_hosts="a supervisor of the node's disk calls (seccomp user notification) kills the node instead of the"
        " call, or makes the call for the node and then kills it; started again when healed",
        proof="as for `kill`; and the files of the call are unchanged (`before`) or show its effect (`after`)",
        limits="needs Linux 5.6; mapped files and io_uring are not intercepted",
    ),
)
