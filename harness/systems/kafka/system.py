"""Apache Kafka as the system under test.

    system = ApacheKafka("4.4.0")
    system.fetch(print)                              # the jars, pinned by checksum, and an archive of shared classes
    system.refuse_hosts(remotes)                     # each needs a Java
    deployed = deploy_all(remotes, system)
    nodes = system.configure(inventory, places, settings)

The jars are a library (`hosts/libraries.py`); a shell script formats and starts a node from them (`launch.py`). Roles,
node ids and ports are those of our own nodes; `properties.py` writes the configuration. Its logs have the format of
ours, so our program describes them at the end of a run (`nodes/server/digest.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.jar_lists import pinned_jars
from squall.harness.artifacts.java import java
from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import Bundle, Bundler, HostKind, HostPaths
from squall.harness.hosts.libraries import Library, make_library
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import resolve
from squall.harness.hosts.system import (
    CONTROLLER_PORT,
    PORT_OF_ROLE,
    ClusterSettings,
    NodePlan,
    ProcessDefinition,
    cluster_id,
    data_directory,
    digest_command,
    number_nodes,
    roles_of,
    room,
)
from squall.harness.hosts.voters import Controller, format_arguments, initial_voters, quorum_properties
from squall.harness.plugins.system_limits import MUTANTS, SystemLimits
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.java_on_hosts import refuse_hosts_without_java
from squall.harness.systems.kafka.launch import USUAL_JVM, script
from squall.harness.systems.kafka.properties import (
    CLUSTER_ID,
    features,
    format_properties,
    node_properties,
    wrong_with_metadata,
    wrong_with_setting,
)
from squall.harness.systems.kafka.shared_classes import NoArchive, copy_jars, identity, make_archive
from squall.harness.systems.kafka.versions import NEWEST, OLDEST_JAVA, ON_ZOOKEEPER, VERSIONS, jar_list
from squall.nemesis.core.ports import NODE_PROCESS

NO_LEDGER: Final = "its nodes keep no ledger of what they have fsynced, so nobody knows what a power loss would take"
WALL_CLOCK: Final = "its quorum's timers go by the wall clock, so that a jump ends the active controller's term"
NOT_WATCHED: Final = "its nodes' disk calls are not watched"
JAVA_START_SECONDS: Final = 30.0
"""On a machine whose processors are busy; a few seconds on one that is not."""


class ApacheKafka:
    """Brokers and controllers of Apache Kafka."""

    name = "kafka"
    limits = SystemLimits(
        versions=VERSIONS,
        jvm=True,
        start_seconds=JAVA_START_SECONDS,
        lacks={MUTANTS: "it has no seeded bugs"},
        faults={"power-loss": NO_LEDGER, "lying-fsync": NO_LEDGER}
        | dict.fromkeys(
            ("kill-at-call", "disk-error", "disk-slow", "disk-stall", "disk-full", "read-only-disk"), NOT_WATCHED
        ),
        disturbing=dict.fromkeys(("clock", "clock-strobe", "clock-freeze"), WALL_CLOCK),
        wrong_with_setting=wrong_with_setting,
        on_zookeeper=ON_ZOOKEEPER,
        wrong_with_metadata=wrong_with_metadata,
    )

    def __init__(self, version: str = "", jvm: str = "") -> None:
        self.version = version or NEWEST
        self.jvm = tuple(shlex.split(jvm)) or USUAL_JVM
        self._library: Library | None = None
        self._bundler = Bundler({"squall/nodes": room("nodes")}, room("nemesis") / "agent")

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the jars, and make the archive of shared classes beside them. Raises UsageError."""
        program = java(OLDEST_JAVA)
        found = jars(jar_list(self.version))

        def fill(directory: Path) -> None:
            say(f"kafka      preparing {len(found)} jars of version {self.version}, once")
            copy_jars(found, directory)
            try:
                make_archive(directory, [jar.name for jar in found], program)
            except NoArchive as trouble:
                say(f"{'':<11}nodes will start slowly: no archive of shared classes: {trouble}")

        self._library = make_library(f"kafka-{self.version}-{identity(program, found)}", fill)

    def library(self) -> Library:
        assert self._library is not None, "fetch comes first"
        return self._library

    def refuse_hosts(self, remotes: Sequence[Remote]) -> None:
        """Raise one UsageError for all hosts without a Java that is new enough."""
        refuse_hosts_without_java(remotes, OLDEST_JAVA)

    def bundle(self, kind: HostKind) -> Bundle:
        return self._bundler.bundle(kind)

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        if not inventory.controllers or not inventory.brokers:
            raise UsageError(f"{inventory.source}: a cluster needs at least one controller and one broker")
        self.refuse_settings(settings)
        numbered = number_nodes(inventory)
        controllers = [(numbered[host.name], resolve(host), CONTROLLER_PORT) for host in inventory.controllers]
        return {
            host.name: self._plan(host, numbered[host.name], controllers, places[host.name], settings, inventory)
            for host in inventory.hosts
            if host.name in numbered
        }

    def refuse_settings(self, settings: ClusterSettings) -> None:
        """Raise UsageError for what nodes of this version cannot do."""
        if settings.mutants:
            raise UsageError(f"cluster.mutants: kafka: {self.limits.lacks[MUTANTS]}")
        if settings.disk_calls:
            raise UsageError(f"faults of the disk calls {', '.join(settings.disk_calls)}: {NOT_WATCHED}")
        for key, value in texts(settings).items():
            if problem := wrong_with_setting(key, value, self.version):
                raise UsageError(f"cluster.config.{key}: {problem}")

    def _plan(
        self,
        host: HostSpec,
        node_id: int,
        controllers: list[Controller],
        place: HostPaths,
        settings: ClusterSettings,
        inventory: Inventory,
    ) -> NodePlan:
        directory = place.run_directory(settings.run_id)
        data = data_directory(host, directory, settings.run_id)
        roles, address = roles_of(host), resolve(host)
        properties = node_properties(
            node_id=node_id,
            roles=roles,
            address=address,
            quorum=quorum_properties(controllers, dynamic=settings.dynamic_voters),
            data=data,
            rack=host.rack,
            brokers=len(inventory.brokers),
            config=texts(settings),
            version=self.version,
        )
        config, launcher, log = files_of(directory)
        # One word: an id may begin with a hyphen, and would be taken for another option.
        identity = [f"--cluster-id={texts(settings).get(CLUSTER_ID, cluster_id(settings.run_id))}"]
        for name, level in features(texts(settings)).items():
            identity += ["--feature", f"{name}={level}"]
        first, again = identity, identity
        if settings.dynamic_voters and "controller" in roles:
            first = identity + format_arguments(initial_voters(controllers, settings.run_id))
            again = [*identity, "--no-initial-controllers"]
        text = script(
            library=place.programs,
            jars=self.jar_names(),
            directory=directory,
            data=data,
            config=config,
            jvm=self.jvm,
            format_arguments=first,
            again_arguments=again,
        )
        return NodePlan(
            host=host.name,
            node_id=node_id,
            roles=roles,
            address=address,
            files={config: format_properties(properties), launcher: text},
            directories=(directory, data),
            process=process_of(directory, data, roles),
            logs=(log, config, launcher),
            preparation=("/bin/sh", launcher, "format"),
            digest=digest_command(place, data, directory, delayed_starts=True),
        )

    def jar_names(self) -> list[str]:
        """The class path of a node, from where the library lies."""
        return [one.coordinates.file_name for one in pinned_jars(jar_list(self.version))]


def files_of(directory: str) -> tuple[str, str, str]:
    """Where a node's configuration, its launcher and its log lie."""
    return f"{directory}/node.properties", f"{directory}/kafka.sh", f"{directory}/node.log"


def process_of(directory: str, data: str, roles: Sequence[str]) -> ProcessDefinition:
    """Return what the agent starts: the launcher, which becomes the node."""
    config, launcher, log = files_of(directory)
    return ProcessDefinition(
        name=NODE_PROCESS,
        argv=("/bin/sh", launcher, "run"),
        env={},
        cwd=directory,
        log=log,
        data=data,
        ports=tuple(PORT_OF_ROLE[role] for role in roles),
        config=config,
    )


def texts(settings: ClusterSettings) -> dict[str, str]:
    """Return a suite's settings as they are written in a properties file."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.config.items()
    }
