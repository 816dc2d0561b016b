"""Run agents on client hosts, so that faults may target the load workers there, like the nodes' processes.

A worker is started by its pipe and not by an agent; it is *adopted*: the agent receives its process id, and from then
on identifies it by a name, `load-0`, and by its start time. Faults there have all that agents provide elsewhere: a
journal, a time to live, a keeper. Hosts that run no worker of this run get no agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from squall.harness.hosts.agent_link import AgentHost
from squall.harness.hosts.ssh import on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import SquallNodes, agent_command, deploy_all
from squall.harness.load.remote_load import RemoteWorker
from squall.nemesis.core.ports import HostUnreachable, LoadHost, VerbFailed


class LoadAgents:
    """One agent for each client host."""

    def __init__(self, agents: Mapping[str, AgentHost], processes: Mapping[str, tuple[str, ...]]) -> None:
        self._agents = agents
        self._processes = processes

    @classmethod
    async def beside(cls, workers: Sequence[RemoteWorker], numbers: Sequence[int], lock: str | None) -> LoadAgents:
        """Start the agents and register every worker with one.

        Raises UsageError, SshError, VerbFailed, HostUnreachable.
        """
        remotes = {worker.host.name: worker.host.remote for worker in workers}
        deployed = await asyncio.to_thread(deploy_all, remotes.values(), SquallNodes())
        agents = {
            name: AgentHost(remote, agent_command(deployed[name].place, remote.spec, lock), sudo=remote.spec.sudo)
            for name, remote in remotes.items()
        }
        processes: dict[str, tuple[str, ...]] = {}
        try:
            for worker, number in zip(workers, numbers, strict=True):
                name = f"load-{number}"
                await agents[worker.host.name].call("proc.adopt", name=name, pid=await _pid_of(worker))
                processes[worker.host.name] = (*processes.get(worker.host.name, ()), name)
        except BaseException:
            await asyncio.gather(*(agent.close() for agent in agents.values()), return_exceptions=True)
            raise
        return cls(agents, processes)

    @property
    def hosts(self) -> Mapping[str, LoadHost]:
        """The client hosts as faults receive them."""
        return {name: LoadHost(agent, self._processes[name]) for name, agent in self._agents.items()}

    async def heal(self) -> list[str]:
        """End every fault. Return the hosts that did not respond (their keepers will end the faults)."""
        names = list(self._agents)
        results = await asyncio.gather(*(self._agents[name].call("heal") for name in names), return_exceptions=True)
        return [
            name
            for name, result in zip(names, results, strict=True)
            if isinstance(result, VerbFailed | HostUnreachable)
        ]

    async def close(self) -> None:
        await asyncio.gather(*(agent.close() for agent in self._agents.values()), return_exceptions=True)


async def _pid_of(worker: RemoteWorker) -> int:
    """Read the process id that the worker's shell wrote before it became the worker. Raises SshError."""
    path = f"{worker.directory}/worker.pid"
    found = await asyncio.to_thread(on_all, [worker.host.remote], lambda remote: remote.run(["cat", path]))
    answer = found[worker.host.name]
    if not answer.ok or not answer.stdout.strip().isdecimal():
        raise SshError(worker.host.remote.spec, f"no process id of a load worker in {path}")
    return int(answer.stdout)
