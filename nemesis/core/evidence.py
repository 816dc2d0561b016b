"""Evidence of a fault before, during and after it, from sources that are independent of its injection.

The "ok" of a verb proves nothing. A network partition is observed by datagrams between the hosts, each direction
separately; a kill or a pause by a new look at the process table and, where the node's port is known, by a connection
from another host; a skewed clock by a child process that reads the time. `FaultRecord` is the outcome: `proven` only if
the observations show the fault, `healed` only if they show its end. An unproven fault makes the verdict *unknown*,
never *valid* (HX-04).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from squall.nemesis.core.ports import Host, HostUnreachable, VerbFailed

Facts = dict[str, Any]
"""An observation, as JSON."""

LISTEN_SECONDS = 0.3
PORT_SECONDS = 0.3
MOST_OBSERVERS = 3


@dataclass(frozen=True)
class FaultRecord:
    """One fault that was injected or planned. Times are on the history's clock; None: that step was not reached."""

    id: str
    kind: str
    targets: tuple[str, ...]
    role: str
    injected_at_ns: int | None
    healed_at_ns: int | None
    evidence_before: Facts
    evidence_during: Facts
    evidence_after: Facts
    proven: bool
    healed: bool
    detail: str
    inject_ns: int | None = None
    """How long injecting took, and `heal_ns` how long healing took; the observations that prove either come
    after that.
    """
    heal_ns: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FaultRecord:
        return cls(**{**data, "targets": tuple(data["targets"])})


def in_words(facts: Facts) -> str:
    """An observation in a few words, for a report: which nodes receive from which, processes and pids, clock
    offsets.
    """
    if "heard" in facts:
        return _heard_in_words(facts["heard"])
    if "clocks" in facts:
        offsets = {host: round(clock["offset_s"], 1) + 0.0 for host, clock in sorted(facts["clocks"].items())}
        return ", ".join(f"{host} {offset:+.1f} s" for host, offset in offsets.items())
    for already_in_words in ("said", "asked"):
        if already_in_words in facts:
            return str(facts[already_in_words])
    if "messages" in facts:
        return ", ".join(f"{host} {seen['met']} messages" for host, seen in sorted(facts["messages"].items()))
    if "round_trips" in facts:
        return _round_trips_in_words(facts["round_trips"])
    processes = facts.get("processes", facts)
    return ", ".join(
        f"{host} {process['state']}" + (f" (pid {process['pid']})" if process.get("pid") else "")
        for host, process in sorted(processes.items())
        if isinstance(process, dict) and "state" in process
    )


def _round_trips_in_words(round_trips: Mapping[str, Mapping[str, float | None]]) -> str:
    """The longest round trip of each host."""
    return ", ".join(
        f"{host} up to {max((seconds for seconds in peers.values() if seconds), default=0.0) * 1000:.1f} ms"
        for host, peers in sorted(round_trips.items())
    )


def _heard_in_words(heard: Mapping[str, Sequence[str]]) -> str:
    """That all nodes receive from each other, or which node is deaf to which."""
    everyone = sorted(heard)
    deaf = {name: [other for other in everyone if other != name and other not in heard[name]] for name in everyone}
    lines = [f"{name} deaf to {' '.join(others)}" for name, others in deaf.items() if others]
    return "; ".join(lines) or f"all {len(everyone)} nodes hear each other"


async def all_of(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """All results; every call is awaited to its end before the first failure is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)


async def reach_matrix(
    hosts: Mapping[str, Host], nodes: Sequence[str], nonce: str, *, expect_all: bool
) -> dict[str, list[str]]:
    """Which nodes' datagrams each node received. With `expect_all` it returns as soon as all have arrived
    everywhere.
    """
    others = {node: [other for other in nodes if other != node] for node in nodes}
    await all_of(
        hosts[node].call(
            "probe.send",
            targets={other: hosts[other].address for other in others[node]},
            nonce=nonce,
            source=node,
        )
        for node in nodes
    )
    answers = await all_of(
        hosts[node].call("probe.heard", nonce=nonce, timeout=LISTEN_SECONDS, expect=others[node] if expect_all else [])
        for node in nodes
    )
    return {
        node: sorted(name for name in answer["heard"] if name in nodes)
        for node, answer in zip(nodes, answers, strict=True)
    }


async def process_facts(
    hosts: Mapping[str, Host], targets: Sequence[str], process: str, ports: Mapping[str, int]
) -> Facts:
    """State, pid and start time of the process on each target, and its `port` as another host finds it, where it is
    known.
    """
    answers = await all_of(hosts[target].call("proc.status", name=process) for target in targets)
    facts = {
        target: {key: answer.get(key) for key in ("state", "pid", "started")}
        for target, answer in zip(targets, answers, strict=True)
    }
    for target in targets:
        if target in ports:
            facts[target]["port"] = await seen_from_elsewhere(hosts, target, ports[target])
    return facts


async def seen_from_elsewhere(hosts: Mapping[str, Host], target: str, port: int) -> str:
    """What a TCP connection from another host finds: `open`, `refused`, `silent`, or `unknown` if no host could try.

    Silence may be due to the observer (which may be cut off itself), so then another host tries.
    """
    found = "unknown"
    for observer in [name for name in sorted(hosts) if name != target][:MOST_OBSERVERS]:
        try:
            answer = await hosts[observer].call(
                "probe.port", targets={target: f"{hosts[target].address}:{port}"}, timeout=PORT_SECONDS
            )
        except (VerbFailed, HostUnreachable):
            continue
        found = str(answer[target])
        if found != "silent":
            break
    return found


async def clock_facts(hosts: Mapping[str, Host], targets: Sequence[str], process: str, watch_s: float = 0.0) -> Facts:
    """The offset in seconds of the process's wall clock from true time on each target; with a watch also how its clocks
    run.
    """
    watch = {"watch_s": watch_s} if watch_s else {}
    answers = await all_of(hosts[target].call("probe.clock", name=process, **watch) for target in targets)
    return {
        target: {**(answer if watch else {}), "offset_s": answer["offset_s"], "mapped": answer.get("mapped")}
        for target, answer in zip(targets, answers, strict=True)
    }


@dataclass(frozen=True)
class HealReport:
    """What `heal_all` achieved: healed ids by host, and the hosts not known to be healed, with the reason."""

    healed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unhealed: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return not self.unhealed


async def heal_all(hosts: Mapping[str, Host], attempts: int = 3) -> HealReport:
    """Heal every fault on every host. A host counts as healed only when its journal is empty."""
    names = sorted(hosts)
    outcomes = await asyncio.gather(*(_heal_one(hosts[name], attempts) for name in names))
    healed = {name: ids for name, (ids, _) in zip(names, outcomes, strict=True) if ids}
    unhealed = {name: reason for name, (_, reason) in zip(names, outcomes, strict=True) if reason}
    return HealReport(healed, unhealed)


async def _heal_one(host: Host, attempts: int) -> tuple[tuple[str, ...], str]:
    healed: list[str] = []
    reason = ""
    for _ in range(attempts):
        try:
            answer = await host.call("heal")
            healed += [str(id) for id in _listed(answer.get("healed"))]
            left = _listed((await host.call("journal")).get("entries"))
        except (VerbFailed, HostUnreachable) as trouble:
            reason = str(trouble)
            continue
        if not left:
            return tuple(healed), ""
        reason = f"{host.name} still has open faults: {', '.join(str(entry['id']) for entry in left)}"
    return tuple(healed), reason


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
