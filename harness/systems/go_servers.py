"""What systems have in common whose servers, all alike, are one program in Go: how it is built, placed and started.

    class NatsJetStream(GoServers):
        …
    system = NatsJetStream("2.12.1")
    system.fetch(print)                              # builds server and client by `go build`, once
    nodes = system.configure(inventory, places, settings)

The server is built from its pinned module (`artifacts/go`), the client program from a module of ours beside the system.
Both lie in one library (`hosts/libraries.py`). They are built for machines such as this one; a host of another
architecture is refused.
"""

from __future__ import annotations

import platform
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from squall.harness.artifacts.go_programs import built, go_program, versions
from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import Bundle, HostKind, HostPaths
from squall.harness.hosts.libraries import Library, make_library
from squall.harness.hosts.ssh_access import resolve
from squall.harness.hosts.system import (
    BROKER_PORT,
    ClusterSettings,
    NodePlan,
    ProcessDefinition,
    bundler,
    data_directory,
    number_nodes,
)
from squall.harness.plugins.system_limits import MUTANTS, SystemLimits
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.without_kafka import NOT_WATCHED
from squall.nemesis.core.ports import NODE_PROCESS

SERVER: Final = "server"
CLIENT: Final = "client"


@dataclass(frozen=True)
class Member:
    """One server of a cluster: its number, the name it goes by, its address."""

    number: int
    name: str
    address: str


@dataclass(frozen=True)
class Launch:
    """How a server is started: its arguments, and the files that it reads, by path."""

    arguments: tuple[str, ...]
    files: Mapping[str, str]


def newest_first(prefix: str) -> tuple[str, ...]:
    """Return the pinned versions of a server."""

    def key(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    return tuple(sorted(versions(prefix), key=key, reverse=True))


class GoServers(ABC):
    """A cluster of servers that are all alike."""

    name: ClassVar[str]
    limits: ClassVar[SystemLimits]
    module: ClassVar[str]
    """What the names of the server's pinned modules begin with; a version follows."""
    package: ClassVar[str]
    """The server's main package."""
    client_module: ClassVar[Path]
    """The directory of the client program."""

    def __init__(self, version: str = "") -> None:
        self.version = version or self.limits.versions[0]
        self.members: list[Member] = []
        """The servers of the run, as they were configured."""
        self._library: Library | None = None
        self._bundler = bundler({})

    @abstractmethod
    def launch(
        self, member: Member, members: Sequence[Member], directory: str, data: str, run: ClusterSettings
    ) -> Launch:
        """Return how a member is started whose files lie in `directory`, and what it stores in `data`."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Build the server and the client program, unless they are there. Raises UsageError."""
        server = go_program(f"{self.module}{self.version}", self.package, say=say)
        client = built(self.client_module, ".", say=say)

        def fill(directory: Path) -> None:
            shutil.copy(server, directory / SERVER)
            shutil.copy(client, directory / CLIENT)

        self._library = make_library(f"{server.name}-{client.name.rpartition('-')[2][:8]}", fill)

    def library(self) -> Library:
        assert self._library is not None, "fetch comes first"
        return self._library

    def client_program(self, workload: str, programs: str) -> tuple[str, ...]:
        return (f"{programs}/{CLIENT}",)

    def bundle(self, kind: HostKind) -> Bundle:
        if kind.machine != platform.machine():
            raise UsageError(
                f"system {self.name}: a host is a {kind.machine}, and the server was built for {platform.machine()}",
                remedy="run Squall on a machine such as the hosts",
            )
        return self._bundler.bundle(kind)

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        self._refuse(inventory, settings)
        numbers = number_nodes(inventory)
        self.members = [Member(numbers[host.name], host.name, resolve(host)) for host in inventory.brokers]
        return {
            host.name: self._plan(host, member, places[host.name], settings)
            for host, member in zip(inventory.brokers, self.members, strict=True)
        }

    def _refuse(self, inventory: Inventory, settings: ClusterSettings) -> None:
        if not inventory.brokers:
            raise UsageError(f"{inventory.source}: a cluster needs at least one broker")
        if settings.mutants:
            raise UsageError(f"cluster.mutants: {self.name}: {self.limits.lacks[MUTANTS]}")
        if settings.disk_calls:
            raise UsageError(f"faults of the disk calls {', '.join(settings.disk_calls)}: {NOT_WATCHED}")
        for key, value in texts(settings).items():
            if problem := self.limits.wrong_with_setting(key, value, self.version):
                raise UsageError(f"cluster.config.{key}: {problem}")

    def _plan(self, host: HostSpec, member: Member, place: HostPaths, settings: ClusterSettings) -> NodePlan:
        directory = place.run_directory(settings.run_id)
        data = data_directory(host, directory, settings.run_id)
        launch = self.launch(member, self.members, directory, data, settings)
        log = f"{directory}/node.log"
        process = ProcessDefinition(
            name=NODE_PROCESS,
            argv=(f"{place.programs}/{SERVER}", *launch.arguments),
            env={},
            cwd=directory,
            log=log,
            data=data,
            ports=(BROKER_PORT,),
        )
        return NodePlan(
            host=host.name,
            node_id=member.number,
            roles=("broker",),
            address=member.address,
            files=launch.files,
            directories=(directory, data),
            process=process,
            logs=(log, *launch.files),
        )


def texts(settings: ClusterSettings) -> dict[str, str]:
    """Return the suite's settings as text."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.config.items()
    }
