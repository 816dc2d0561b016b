"""Our own brokers on a real ZooKeeper ensemble: hosts of the group `zookeeper` run its servers, one each.

    system = SquallOnZooKeeper()
    system.fetch(print)                              # ZooKeeper's jars, pinned by checksum
    nodes = system.configure(inventory, places, settings)

A server is a process of the agent like a broker, so that faults kill it, pause it and cut it off (`one zookeeper
server`, `z1`). Every broker may be the controller; the *active controller* is the one that ZooKeeper has elected.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.jar_lists import pinned_jars
from squall.harness.artifacts.java import OLDEST
from squall.harness.artifacts.zookeeper import MAIN_CLASS, VERSION, Server, configuration, java_options
from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.libraries import Library, make_library
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import resolve
from squall.harness.hosts.system import (
    ZOOKEEPER_PORT,
    ClusterSettings,
    NodePlan,
    ProcessDefinition,
    SquallNodes,
    data_directory,
    node_properties,
    number_nodes,
)
from squall.harness.hosts.voters import Controller
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.java_on_hosts import refuse_hosts_without_java
from squall.harness.systems.kafka.shared_classes import copy_jars
from squall.nemesis.core.ports import NODE_PROCESS

PEER_PORT, ELECTION_PORT = 2888, 3888
FIRST_SERVER_ID: Final = 201
"""Node ids of servers, apart from those of brokers and controllers."""
SETTINGS: Final = {"tickTime": "500", "initLimit": "20", "syncLimit": "8"}
"""A member that is silent for 4 s is out; sessions may be as short as 1 s."""
OF_QUORUM: Final = ("process.roles", "controller.listener.names")


class SquallOnZooKeeper(SquallNodes):
    """Our own brokers, and the servers of an ensemble."""

    def __init__(self) -> None:
        super().__init__()
        self._connect = ""
        self._library: Library | None = None

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the jars of a server. Raises UsageError."""
        found = jars(VERSION)
        pins = "".join(one.sha256 for one in pinned_jars(VERSION))
        name = f"{VERSION}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"
        self._library = make_library(name, lambda directory: copy_jars(found, directory))

    def library(self) -> Library:
        assert self._library is not None, "fetch comes first"
        return self._library

    def refuse_hosts(self, remotes: Sequence[Remote]) -> None:
        """Raise one UsageError for all servers' hosts without a Java that is new enough."""
        refuse_hosts_without_java([one for one in remotes if "zookeeper" in one.spec.groups], OLDEST)

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        servers = ensemble_of(inventory)
        self._connect = connect_text(servers)
        numbered = number_nodes(inventory)
        plans = {
            host.name: self._plan(host, numbered[host.name], [], places[host.name], settings)
            for host in inventory.brokers
        }
        return plans | server_plans(inventory, servers, places, settings.run_id, VERSION)

    def _properties(
        self, host: HostSpec, node_id: int, controllers: list[Controller], data: str, settings: ClusterSettings
    ) -> dict[str, str]:
        found = node_properties(host, node_id, ("broker",), resolve(host), {"zookeeper.connect": self._connect}, data)
        return {key: value for key, value in found.items() if key not in OF_QUORUM}


def ensemble_of(inventory: Inventory) -> list[Server]:
    """Return the servers that the hosts of the group `zookeeper` run. Raises UsageError."""
    if not inventory.zookeeper or not inventory.brokers:
        raise UsageError(
            f"{inventory.source}: `metadata: zookeeper` needs at least one host in each of the groups zookeeper and "
            "brokers"
        )
    for host in inventory.zookeeper:
        if host in inventory.brokers:
            raise UsageError(f"{inventory.source}: {host.name} is in the groups zookeeper and brokers; a host runs one")
    return [
        Server(number, resolve(host), ZOOKEEPER_PORT, PEER_PORT, ELECTION_PORT)
        for number, host in enumerate(inventory.zookeeper, start=1)
    ]


def connect_text(servers: Sequence[Server]) -> str:
    """The ensemble as brokers are configured with it: `zookeeper.connect`."""
    return ",".join(f"{one.host}:{one.client_port}" for one in servers)


def server_plans(
    inventory: Inventory, servers: Sequence[Server], places: Mapping[str, HostPaths], run_id: str, jar_list: str
) -> dict[str, NodePlan]:
    """Return the plan of each server, by host; its jars are those of the list of this name."""
    return {
        host.name: server_plan(host, server, servers, places[host.name], run_id, jar_list)
        for server, host in zip(servers, inventory.zookeeper, strict=True)
    }


def server_plan(
    host: HostSpec, server: Server, ensemble: Sequence[Server], place: HostPaths, run_id: str, jar_list: str
) -> NodePlan:
    """Return the plan of one server."""
    directory = place.run_directory(run_id)
    data = data_directory(host, directory, run_id)
    config, launcher, log = f"{directory}/zoo.cfg", f"{directory}/zookeeper.sh", f"{directory}/node.log"
    process = ProcessDefinition(
        name=NODE_PROCESS, argv=("/bin/sh", launcher), env={}, cwd=directory, log=log, data=data, config=config
    )
    return NodePlan(
        host=host.name,
        node_id=FIRST_SERVER_ID + server.number - 1,
        roles=("zookeeper",),
        address=server.host,
        files={
            config: configuration(server, ensemble, data, SETTINGS),
            launcher: script(server, place, config, data, jar_list),
        },
        directories=(directory, data),
        process=process,
        logs=(log, config, launcher),
    )


def script(server: Server, place: HostPaths, config: str, data: str, jar_list: str) -> str:
    """Return the shell script that becomes the server, by exec.

    It writes the server's number where a fault has emptied the directory.
    """
    classes = ":".join(one.coordinates.file_name for one in pinned_jars(jar_list))
    java = shlex.join(["java", *java_options(), "-cp", classes, MAIN_CLASS, config])
    return f"""\
#!/bin/sh
cd {shlex.quote(place.programs or ".")} || exit 1
[ -e {shlex.quote(data)}/myid ] || echo {server.number} > {shlex.quote(data)}/myid || exit 1
exec {java}
"""
