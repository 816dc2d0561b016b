"""`squall run --capture`: record the packets of every node's host, in `nodes/HOST/capture.pcap` of the run.

A program that comes with the agent does it (nemesis/agent/net/capture.py), as a process of the agent beside the node.
Nothing has to be installed, and it ends at its time limit even if no command stops it. It costs processor time that the
node might need, so it only runs on request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import NodePlan
from squall.harness.scenario.inventory import Inventory

PROCESS = "capture"
LONGER_SECONDS = 600.0
"""Seconds that a capture may run beyond the load: start-up, final reads, and the delays of a slow machine."""


@dataclass(frozen=True)
class Captured:
    """What one host's capture reports about itself."""

    host: str
    written: int
    without_room: int
    missed: int

    @property
    def is_whole(self) -> bool:
        return not (self.without_room or self.missed)


def refuse_capture(inventory: Inventory) -> None:
    """Raise UsageError for hosts whose packets are not their own: those of a reduced lab."""
    if any(host.reduced for host in inventory.hosts):
        raise UsageError(
            f"--capture: {inventory.source} is a reduced lab, whose packets are the machine's own",
            remedy="leave --capture out, or take a complete lab or other hosts",
        )


class Captures:
    """One capture on every host of a run."""

    def __init__(
        self,
        agents: Mapping[str, AgentHost],
        remotes: Mapping[str, Remote],
        plans: Mapping[str, NodePlan],
        places: Mapping[str, HostPaths],
    ) -> None:
        self._agents = agents
        self._remotes = remotes
        self._plans = plans
        self._places = places

    async def start(self, seconds: float) -> None:
        """Start all captures, each for at most `seconds`. Raises VerbFailed or HostUnreachable."""
        await asyncio.gather(*(self._start(name, seconds) for name in self._plans))

    async def _start(self, name: str, seconds: float) -> None:
        agent, place, directory = self._agents[name], self._places[name], self._directory(name)
        argv = [place.python, "-u", place.agent_starter, "net.capture"]
        argv += ["--output", f"{directory}/capture.pcap", "--seconds", f"{seconds:g}"]
        argv += ["--except-port", str(self._remotes[name].spec.port)]
        await agent.call("proc.define", name=PROCESS, argv=argv, env={}, cwd=directory, log=f"{directory}/capture.log")
        await agent.call("proc.start", name=PROCESS)

    async def end(self, into: Path) -> list[Captured]:
        """Stop all captures and fetch their files into `into/HOST/`. Raises SshError."""
        await asyncio.gather(*(self._agents[name].call("proc.stop", name=PROCESS) for name in self._plans))
        return list(await asyncio.gather(*(asyncio.to_thread(self._fetch, name, into / name) for name in self._plans)))

    def _fetch(self, name: str, into: Path) -> Captured:
        into.mkdir(parents=True, exist_ok=True)
        remote, directory = self._remotes[name], self._directory(name)
        remote.get(f"{directory}/capture.pcap", into / "capture.pcap", sudo=remote.spec.sudo)
        said = remote.run(["cat", f"{directory}/capture.log"], sudo=remote.spec.sudo, check=True).stdout.splitlines()
        return Captured(name, **json.loads(said[-1]))

    def _directory(self, name: str) -> str:
        return self._plans[name].process.cwd
