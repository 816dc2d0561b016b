"""Process faults: kill, clean restart, pause, and the kill of a leader whose followers lag.

Evidence is a new look at the process table (`proc.status`: state, pid, start time), not the response of the verb that
sent the signal, and where the node's port is known a connection from another host, which a dead process refuses.
"""

from __future__ import annotations

from squall.nemesis.core.aimed import AimedFault
from squall.nemesis.core.evidence import Facts, all_of, process_facts
from squall.nemesis.core.fault import FaultContext
from squall.nemesis.core.grudge import Grudge
from squall.nemesis.core.selector import NoTarget, Target, led_topic_partition, parse_topic_partition
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import Kill, KillAtCall, LeaderKillLagging, Pause, PowerLoss, Restart, WipeDisk

AimedAtProcess = Kill | Pause | PowerLoss | WipeDisk | Restart | KillAtCall

LOOK_SECONDS = 0.05
MARGIN_SECONDS = 5.0


def same_process(one: Facts, other: Facts) -> bool:
    return (one["pid"], one["started"]) == (other["pid"], other["started"])


def why_not_killed(host: str, before: Facts, during: Facts) -> str | None:
    """Why these two observations do not show that the process was killed; None if they do."""
    if before["state"] == "absent":
        return f"{host}: the process was not running before"
    if during["state"] != "absent":
        return f"{host}: the process is {during['state']}, pid {during['pid']}"
    if during.get("port") == "open":
        return f"{host}: its port still accepts connections"
    return None


def why_not_back(host: str, after: Facts) -> str | None:
    """Why this observation does not show that a killed process is running again; None if it does."""
    if after["state"] != "running":
        return f"{host}: the process is {after['state']}"
    if after.get("port") == "refused":  # silence may be caused by another fault
        return f"{host}: its port does not accept connections yet"
    return None


def first_reason(reasons: list[str | None]) -> str | None:
    return next((reason for reason in reasons if reason), None)


class _ProcessFault(AimedFault):
    """Aim and observe, the same for kill and pause."""

    async def observe(self) -> Facts:
        context = self._context
        return await process_facts(context.hosts, self._targets, context.process, context.ports)

    async def inject(self, ttl: float) -> None:
        context = self._context
        await self._ask(f"proc.{self.kind}", id=context.id, name=context.process, ttl=ttl)


class KillProcess(_ProcessFault):
    """SIGKILL; healing restarts the process."""

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return first_reason([why_not_killed(host, before[host], during[host]) for host in self._targets])

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return first_reason([why_not_back(host, after[host]) for host in self._targets])

    def told(self, during: Facts) -> str:
        return "process gone"


class RestartProcess(_ProcessFault):
    """SIGTERM, and a restart when it is over. A stop that needed SIGKILL proves another fault."""

    def __init__(self, options: Restart, context: FaultContext) -> None:
        super().__init__(options, context)
        self._patience = options.patience
        self._killed: list[str] = []

    async def inject(self, ttl: float) -> None:
        context = self._context
        answers = await self._ask(
            "proc.term", id=context.id, name=context.process, timeout=self._patience, ttl=ttl + self._patience
        )
        self._killed = [
            name for name, answer in zip(self._targets, answers, strict=True) if not answer.get("by_itself", True)
        ]

    async def heal(self) -> None:
        context = self._context
        await self._ask("proc.start", name=context.process)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        if self._killed:
            return f"{self._killed[0]}: did not stop cleanly within {self._patience:g} s and was killed"
        return first_reason([why_not_killed(host, before[host], during[host]) for host in self._targets])

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        return first_reason([why_not_back(host, after[host]) for host in self._targets])

    def told(self, during: Facts) -> str:
        return "process stopped by itself"


class PauseProcess(_ProcessFault):
    """SIGSTOP; healing sends SIGCONT."""

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        return first_reason([self._why_not_paused(host, before, during) for host in self._targets])

    def _why_not_paused(self, host: str, before: Facts, during: Facts) -> str | None:
        if during[host]["state"] != "stopped":
            return f"{host}: the process is {during[host]['state']}"
        if not same_process(before[host], during[host]):
            return f"{host}: another process than before is stopped"
        return None

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        waiting = [host for host in self._targets if after[host]["state"] != "running"]
        return f"{waiting[0]}: the process is {after[waiting[0]]['state']}" if waiting else None

    def told(self, during: Facts) -> str:
        return "process stopped"


class KillLaggingLeader:
    """Pauses the followers of a topic-partition, lets its leader run alone for a moment and kills it, then resumes
    them.

    What the leader acknowledged meanwhile, it acknowledged alone: a system that waits for its in-sync replicas loses
    nothing; another one loses those records permanently once a follower leads.
    """

    kind = "leader-kill-lagging"
    waits_to_show = False

    def __init__(self, options: LeaderKillLagging, context: FaultContext) -> None:
        self._pattern = parse_topic_partition(options.target)
        self._lag = options.lag
        self._context = context
        self._leader = ""
        self._followers: tuple[str, ...] = ()
        self._while_lagging: Facts = {}

    async def aim(self) -> Target:
        context = self._context
        topic, partition, self._leader = await led_topic_partition(self._pattern, context.cluster, context.rng)
        in_sync = await context.cluster.in_sync(topic, partition)
        self._followers = tuple(sorted(set(in_sync) - {self._leader}))
        if not self._followers:
            raise NoTarget(f"{topic}/{partition} has no followers in sync")
        return Target((self._leader,), f"leader of {topic}/{partition}, lagging {', '.join(self._followers)}")

    async def observe(self) -> Facts:
        facts = await self._look((self._leader, *self._followers))
        return {"processes": facts, "while_lagging": self._while_lagging}

    async def _look(self, hosts: tuple[str, ...]) -> Facts:
        context = self._context
        return await process_facts(context.hosts, hosts, context.process, {})

    async def inject(self, ttl: float) -> None:
        context = self._context
        began = context.now_ns()
        await self._call_each(self._followers, "proc.pause", name=context.process, ttl=self._lag + MARGIN_SECONDS)
        self._while_lagging = await self._look(self._followers)
        # A signal takes a moment to arrive, longer in a process that waits for its disk: look again while they lag.
        while (left := self._lag - (context.now_ns() - began) / 1e9) > LOOK_SECONDS and not self._all_asleep():
            await context.sleep(LOOK_SECONDS)
            self._while_lagging = await self._look(self._followers)
        await context.sleep(max(0.0, left))
        await self._call_each((self._leader,), "proc.kill", name=context.process, ttl=ttl)
        await self._call_each(self._followers, "proc.resume")

    def _all_asleep(self) -> bool:
        return all(facts["state"] == "stopped" for facts in self._while_lagging.values())

    async def heal(self) -> None:
        await self._call_each((self._leader, *self._followers), "heal")

    async def _call_each(self, hosts: tuple[str, ...], verb: str, **arguments: object) -> None:
        context = self._context
        await all_of(context.hosts[host].call(verb, id=context.id, **arguments) for host in hosts)

    def check_effect(self, before: Facts, during: Facts) -> str | None:
        for follower in self._followers:
            seen = during["while_lagging"].get(follower, {"state": "not observed"})
            if seen["state"] != "stopped":
                return f"{follower}: the follower was {seen['state']} while it should have been paused"
        return why_not_killed(self._leader, before["processes"][self._leader], during["processes"][self._leader])

    def shows_end(self, before: Facts, after: Facts) -> str | None:
        asleep = [name for name in self._followers if after["processes"][name]["state"] != "running"]
        if asleep:
            return f"{asleep[0]}: the process is {after['processes'][asleep[0]]['state']}"
        return why_not_back(self._leader, after["processes"][self._leader])

    def told(self, during: Facts) -> str:
        return f"{', '.join(self._followers)} paused {self._lag:g} s, then the leader's process gone"

    def cuts(self) -> Grudge:
        return {}


PROCESSES = (
    Kind(
        Kill,
        KillProcess,
        ("proc.kill",),
        on_hosts="SIGKILL; started again when healed",
        proof="absent from the process table, and its port refuses connections",
    ),
    Kind(
        Pause,
        PauseProcess,
        ("proc.pause",),
        on_hosts="SIGSTOP; SIGCONT when healed",
        proof="state `stopped` of the same process",
    ),
    Kind(
        Restart,
        RestartProcess,
        ("proc.term",),
        on_hosts="SIGTERM; started again when healed",
        proof="as for `kill`; and the process stopped by itself",
    ),
    Kind(
        LeaderKillLagging,
        KillLaggingLeader,
        ("proc.kill", "proc.pause"),
        on_hosts="followers are paused, the leader killed meanwhile",
        proof="as for `pause` and `kill`",
    ),
)
