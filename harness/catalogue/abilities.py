"""Find out from their agents what hosts can do, and with which driver they would carry out each kind of fault.

Agents report which verbs they cannot carry out, and why (`unable` in the response of `info`); whether a node's disk
calls can be watched is tried as `squall inventory check` tries it. Nothing is assumed from a kernel's version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.network import Network
from squall.harness.hosts.preflight import disk_calls_finding
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.system import SquallNodes, agent_command, deploy_all
from squall.harness.scenario.inventory import Inventory
from squall.nemesis.faults.disk.disk import watched_calls
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options import FaultOptions
from squall.nemesis.registry import ON_HOSTS, kind_of


@dataclass(frozen=True)
class Abilities:
    """The abilities of some hosts: what each agent reports, and where and why disk calls cannot be watched."""

    source: str
    info: Mapping[str, Mapping[str, object]]
    unwatchable: Mapping[str, str] = field(default_factory=dict)
    clients: int = 0

    def why_not(self, options: FaultOptions) -> str:
        """Return why these hosts cannot carry out this fault; empty if they can."""
        if watched_calls([options]):
            for host, reason in sorted(self.unwatchable.items()):
                return f"{host}: disk calls cannot be watched: {reason}"
        return self.why_not_kind(kind_of(options))

    def why_not_kind(self, kind: Kind) -> str:
        """Like `why_not`, for a kind with any options."""
        for verb in kind.verbs:
            if verb not in ON_HOSTS:
                return f"no agent offers {verb} yet"
            for host, info in sorted(self.info.items()):
                unable = info.get("unable")
                if isinstance(unable, Mapping) and verb in unable:
                    return f"{host}: {verb}: {unable[verb]}"
            if verb in ("disk.error", "disk.slow"):
                for host, reason in sorted(self.unwatchable.items()):
                    return f"{host}: disk calls cannot be watched: {reason}"
        return ""

    def driver(self, kind: Kind) -> str:
        """Return the driver with which these hosts would carry it out."""
        used = tuple(dict.fromkeys(self._driver_of(verb) for verb in kind.verbs))
        return ", ".join(used) if used and all(used) else kind.on_hosts

    def _driver_of(self, verb: str) -> str:
        family, _, _ = verb.partition(".")
        if verb == "net.drop":
            return f"{self._each('network')}, raw prerouting"
        if verb == "net.shape":
            return f"NFQUEUE by {self._each('links')}"
        if verb in ("proc.kill", "proc.pause"):
            return "signals"
        if family == "clock":
            return f"clock {self._each('clock')}"
        if family == "rpc":
            return "frame proxy by nft tproxy"
        return "seccomp user notification" if verb in ("disk.error", "disk.slow") else ""

    def _each(self, what: str) -> str:
        """Return what the hosts report, each different value once."""
        return " or ".join(dict.fromkeys(str(info.get(what)) for info in self.info.values()))


async def ask_hosts(inventory: Inventory, network: Network) -> Abilities:
    """Ask every host that runs a node. Raises UsageError for hosts that cannot be reached."""
    nodes = {spec.name: spec for spec in (*inventory.controllers, *inventory.brokers)}
    remotes = {name: Remote(spec, network) for name, spec in nodes.items()}
    try:
        deployed = await asyncio.to_thread(deploy_all, remotes.values(), SquallNodes())
        agents = [
            AgentHost(remote, agent_command(deployed[name].place, remote.spec), sudo=remote.spec.sudo)
            for name, remote in remotes.items()
        ]
        info = await _asked(agents)
        found = await asyncio.to_thread(on_all, list(remotes.values()), disk_calls_finding)
    finally:
        for remote in remotes.values():
            await asyncio.to_thread(remote.close)
    return Abilities(
        source=inventory.source,
        info=info,
        unwatchable={name: one.said for name, one in found.items() if not one.ok},
        clients=len(inventory.clients),
    )


async def _asked(agents: Sequence[AgentHost]) -> dict[str, Mapping[str, object]]:
    try:
        answers = await asyncio.gather(*(agent.call("info") for agent in agents))
    finally:
        await asyncio.gather(*(agent.close() for agent in agents), return_exceptions=True)
    return {agent.name: answer for agent, answer in zip(agents, answers, strict=True)}
