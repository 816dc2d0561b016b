"""The world of real hosts, rented or in the lab: from an inventory to running nodes, and back to clean hosts.

    testbed = await Testbed.connect(inventory, network)
    await testbed.deploy(SquallNodes(), ClusterSettings(run_id, config=…, mutants=…))
    await testbed.start()
    …                                    # a `World`: hosts, cluster, clock, connector, bootstrap
    await testbed.stop(); await testbed.collect(directory); await testbed.close()

Blocking SSH work runs in threads; agents are called directly. Nodes are started through the agents' own `proc` verbs,
so that a fault's time to live can restart a killed node without the control process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from squall.harness.hosts.agent_link import AgentHost, new_probe_key
from squall.harness.hosts.deploy import Deployed
from squall.harness.hosts.libraries import Library, place_library
from squall.harness.hosts.network import Network
from squall.harness.hosts.packet_capture import Captures
from squall.harness.hosts.preflight import refuse_busy_ports, refuse_unable, refuse_unfit, refuse_unwatchable_disks
from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.hosts.system import (
    BROKER_PORT,
    CONTROLLER_PORT,
    ClusterSettings,
    DemandingSystem,
    FetchedSystem,
    NodePlan,
    ObservedSystem,
    System,
    agent_command,
    collect_logs,
    deploy_all,
    remove_run,
    write_files,
)
from squall.harness.load.tcp import TcpConnector
from squall.harness.run.starting import LINES_READ, telling_lines
from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.cluster import KafkaClusterView, NodeNames
from squall.harness.scenario.inventory import Inventory
from squall.nemesis.core.ports import NODE_PROCESS, Host, HostUnreachable, VerbFailed
from squall.workloads.clients.common.client import Admin
from squall.workloads.clients.native.admin import NativeAdmin
from squall.workloads.clients.native.operator import NativeOperator

KNOCK_SECONDS = 0.5


class Testbed:
    """Hosts with nodes on them; implements `World`."""

    def __init__(
        self, inventory: Inventory, network: Network, topics: Mapping[str, int], lock: str | None = None
    ) -> None:
        """`lock` is the token of the hosts' lock, if it was taken: agents obey only as long as it is held."""
        self.lock = lock
        self.inventory = inventory
        self.network = network
        self.remotes = {spec.name: Remote(spec, network) for spec in inventory.hosts}
        self.deployed: dict[str, Deployed] = {}
        self.plans: dict[str, NodePlan] = {}
        self.agents: dict[str, AgentHost] = {}
        self.probe_key = new_probe_key()
        self.topics = topics
        self._admin: Admin | None = None
        self._cluster: KafkaClusterView | None = None

    # --- the World protocol ----------------------------------------------------------------------------------

    @property
    def hosts(self) -> Mapping[str, Host]:
        """Hosts that run a node; faults target these."""
        return {name: self.agents[name] for name in self.plans}

    @property
    def cluster(self) -> KafkaClusterView:
        assert self._cluster is not None, "deploy comes before cluster"
        return self._cluster

    @property
    def admin(self) -> Admin:
        assert self._admin is not None, "deploy comes before admin"
        return self._admin

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def connector(self) -> TcpConnector:
        return TcpConnector(self.network)

    def bootstrap(self) -> list[tuple[str, int]]:
        return [(plan.address, BROKER_PORT) for plan in self.plans.values() if plan.is_broker]

    def controller_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the controllers' listeners."""
        return [(plan.address, CONTROLLER_PORT) for plan in self.plans.values() if "controller" in plan.roles]

    def ports(self) -> dict[str, int]:
        """A port that each node listens on, by host: where its life is visible from outside."""
        return {name: plan.port for name, plan in self.plans.items()}

    async def knock(self, address: str, port: int) -> str:
        """Return the result of a connection from here: `open`, `refused`, or `silent` without a response in time."""
        one = self.network.socket()
        one.setblocking(False)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(one, (address, port)), KNOCK_SECONDS)
        except TimeoutError:
            return "silent"
        except OSError:
            return "refused"
        finally:
            one.close()
        return "open"

    # --- lifecycle -------------------------------------------------------------------------------------------

    async def deploy(self, system: System, settings: ClusterSettings, *, faults: bool = True) -> None:
        """Send bundles to hosts, start agents, configure nodes. Raises UsageError for what the hosts lack.

        With `faults` hosts also need what faults require.
        """
        nodes = {host.name for host in self.inventory.with_nodes}
        with_nodes = [remote for name, remote in self.remotes.items() if name in nodes]
        if isinstance(system, DemandingSystem):
            await asyncio.to_thread(system.refuse_hosts, with_nodes)
        self.deployed = await asyncio.to_thread(deploy_all, with_nodes, system)
        if isinstance(system, FetchedSystem):
            await asyncio.to_thread(self._place, system.library())
        places = {name: deployed.place for name, deployed in self.deployed.items()}
        self.plans = system.configure(self.inventory, places, settings)
        remotes = [self.remotes[name] for name in self.plans]
        probes = {name: deployed.probe for name, deployed in self.deployed.items()}
        await asyncio.to_thread(refuse_unfit, remotes, probes, faults=faults)
        if settings.disk_calls:
            await asyncio.to_thread(refuse_unwatchable_disks, remotes)
        await asyncio.to_thread(on_all, remotes, lambda remote: write_files(remote, self.plans[remote.name]))
        for spec in self.inventory.hosts:
            if spec.name in self.plans:
                command = agent_command(places[spec.name], spec, self.lock)
                self.agents[spec.name] = AgentHost(
                    self.remotes[spec.name], command, sudo=spec.sudo, probe_key=self.probe_key
                )
        await asyncio.gather(*(agent.connect() for agent in self.agents.values()))
        self._admin = self._admin_of(system, settings.cluster_id)
        names = NodeNames({plan.node_id: name for name, plan in self.plans.items()})
        brokers = tuple(name for name, plan in self.plans.items() if plan.is_broker)
        controllers = tuple(name for name, plan in self.plans.items() if "controller" in plan.roles)
        zookeeper = tuple(name for name, plan in self.plans.items() if "zookeeper" in plan.roles)
        self._cluster = KafkaClusterView(self._admin, names, brokers, controllers or brokers, self.topics, zookeeper)

    def _admin_of(self, system: System, cluster_id: str) -> Admin:
        if isinstance(system, ObservedSystem):
            return system.admin(self.connector(), self.bootstrap())
        controllers = self.controller_addresses()
        return NativeAdmin(self.connector(), self.bootstrap(), controllers, cluster_id, has_quorum=bool(controllers))

    def _place(self, library: Library) -> None:
        """Have all nodes' hosts see the system's programs."""
        remotes = [self.remotes[name] for name in self.deployed]
        found = on_all(remotes, lambda remote: place_library(remote, self.deployed[remote.name].probe, library))
        for name, path in found.items():
            deployed = self.deployed[name]
            self.deployed[name] = replace(deployed, place=replace(deployed.place, programs=path))

    async def refuse_unable(self, verbs: Iterable[str]) -> None:
        """Raise UsageError for hosts that cannot carry out one of these verbs."""
        answers = await asyncio.gather(*(agent.call("info") for agent in self.agents.values()))
        refuse_unable(dict(zip(self.agents, answers, strict=True)), verbs)

    def operator(self) -> ClusterAdmin:
        """Return an operator with its own connections; the caller closes it."""
        controllers = {
            name: (plan.address, CONTROLLER_PORT) for name, plan in self.plans.items() if "controller" in plan.roles
        }
        client = NativeOperator(self.connector(), self.bootstrap(), tuple(controllers.values()))
        return ClusterAdmin(client, {name: plan.node_id for name, plan in self.plans.items()}, controllers)

    async def start(self) -> None:
        """Define and start every node. Raises UsageError if another process has its port.

        Defining a node ends a node left behind by another run; a process that still listens after that is foreign.
        """
        defined = (self.agents[name].call("proc.define", **self.plans[name].process.arguments()) for name in self.plans)
        await asyncio.gather(*defined)
        await asyncio.to_thread(refuse_busy_ports, [self.remotes[name] for name in self.plans])
        await asyncio.gather(*(self.agents[name].call("proc.start", name=NODE_PROCESS) for name in self.plans))

    def captures(self) -> Captures:
        """Return packet captures on the nodes' hosts; the caller starts and ends them."""
        places = {name: self.deployed[name].place for name in self.plans}
        return Captures(self.agents, self.remotes, self.plans, places)

    async def heal(self) -> list[str]:
        """End every fault on every host.

        Return the hosts that did not respond (their faults end at their time to live).
        """
        names = list(self.agents)
        results = await asyncio.gather(*(self.agents[name].call("heal") for name in names), return_exceptions=True)
        return [name for name, result in zip(names, results, strict=True) if isinstance(result, Exception)]

    def strangers(self) -> list[str]:
        """Describe brokers of another cluster that responded on this run's hosts.

        What those brokers did is not part of this run.
        """
        names = {plan.address: name for name, plan in self.plans.items()}
        found = self._admin.strangers if isinstance(self._admin, NativeAdmin) else {}
        return [
            f"{names.get(address, address)}:{port} answered as a broker of cluster {named}, which is not this run's"
            for (address, port), named in found.items()
        ]

    async def statuses(self) -> dict[str, str]:
        """Return the state of every node's process, by host."""

        async def one(name: str) -> str:
            try:
                return str((await self.agents[name].call("proc.status", name=NODE_PROCESS))["state"])
            except (VerbFailed, HostUnreachable) as trouble:
                return str(trouble)

        return dict(zip(self.plans, await asyncio.gather(*(one(name) for name in self.plans)), strict=True))

    async def last_lines(self, names: Collection[str]) -> list[str]:
        """Return the lines of these nodes' logs that say most about their end, each with the host."""

        def read(remote: Remote) -> list[str]:
            try:
                said = remote.run(["tail", "-n", str(LINES_READ), self.plans[remote.name].process.log])
            except SshError:
                return []
            return [f"{remote.name}: {line}" for line in telling_lines(said.stdout)]

        found = await asyncio.to_thread(on_all, [self.remotes[name] for name in names if name in self.plans], read)
        return [line for lines in found.values() for line in lines]

    async def stop(self) -> None:
        """Stop every node that can be reached: brokers first, because they need the controllers for their shutdown."""
        brokers = [name for name, plan in self.plans.items() if plan.is_broker and name in self.agents]
        for names in (brokers, [name for name in self.agents if name not in brokers]):
            calls = (self.agents[name].call("proc.stop", name=NODE_PROCESS) for name in names)
            await asyncio.gather(*calls, return_exceptions=True)

    async def collect(self, into: Path) -> None:
        """Fetch what the nodes left: logs and configurations, into one directory per host."""

        def one(remote: Remote) -> None:
            try:
                collect_logs(remote, self.plans[remote.name], into)
            except SshError:
                (into / remote.name).mkdir(parents=True, exist_ok=True)

        await asyncio.to_thread(on_all, [self.remotes[name] for name in self.plans], one)

    async def remove(self) -> None:
        """Remove the run's files from the hosts; nodes must have been stopped."""

        def one(remote: Remote) -> None:
            remove_run(remote, self.plans[remote.name])

        await asyncio.to_thread(on_all, [self.remotes[name] for name in self.plans], one)

    async def close(self) -> None:
        """Close every connection."""
        if self._admin is not None:
            await self._admin.close()
        await asyncio.gather(*(agent.close() for agent in self.agents.values()), return_exceptions=True)
        for remote in self.remotes.values():
            await asyncio.to_thread(remote.close)
