"""Apache Kafka as a family of the gallery: which versions, clients and settings there are, and how its nodes start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from squall.harness.gallery.core.entry import BROKEN, TWIN, Arm, Client, Entry
from squall.harness.gallery.core.family import Problem, Say, Stage, without_registers
from squall.harness.gallery.core.frame_proxy import FrameProxy
from squall.harness.gallery.kafka.nodes import ClusterShape, KafkaNodes
from squall.harness.gallery.kafka.observer import KafkaObserver
from squall.harness.gallery.kafka.programs import NAMES, command_of, settings_of
from squall.harness.systems.kafka.properties import wrong_with_setting
from squall.harness.systems.kafka.system import ApacheKafka
from squall.harness.systems.kafka.versions import VERSIONS
from squall.harness.yaml_source import KeyPath, suggestion

START_SECONDS: Final = 120.0


class KafkaFamily:
    """See the module."""

    def problems(self, entry: Entry) -> Iterator[Problem]:
        yield from without_registers(entry)
        for where, version in _versions_in(entry):
            if version not in VERSIONS:
                hint = suggestion(version, VERSIONS)
                yield (*where, "version"), f"{version!r} is no version of Apache Kafka that Squall has{hint}"
        for where, client in _clients_in(entry):
            if client.name not in NAMES:
                yield (*where, "name"), f"{client.name!r} is no client of Apache Kafka; {', '.join(NAMES)} are"
        for arm in (entry.arm(BROKEN), entry.arm(TWIN), *(entry.cell_arm(cell) for cell in entry.cells)):
            for key, value in arm.cluster.config.items():
                if arm.system.version in VERSIONS and (wrong := wrong_with_setting(key, value, arm.system.version)):
                    yield ("cluster", "config", key), wrong

    def command_of(self, arm: Arm, say: Say) -> list[str]:
        return command_of(arm.client)

    def settings_of(self, arm: Arm, bootstrap: str) -> dict[str, str]:
        return settings_of(arm.client, bootstrap)

    def stage(self, arm: Arm, work: Path, kept: Path, say: Say, stack: ExitStack) -> Stage:
        cluster, system = arm.cluster, ApacheKafka(arm.system.version)
        system.fetch(say)
        shape = ClusterShape(cluster.brokers, cluster.combined, cluster.proxied, cluster.config)
        nodes = stack.enter_context(KafkaNodes(system, shape, work))
        stack.callback(nodes.keep_logs, kept)
        nodes.start()
        nodes.wait_until_listening(START_SECONDS)
        proxies = {
            node: stack.enter_context(
                FrameProxy(port, nodes.ports[node], work / f"proxy-{node}", receive_buffer=cluster.receive_buffer)
            )
            for node, port in nodes.proxy_ports.items()
        }
        observer = KafkaObserver(nodes.bootstrap)
        observer.wait_until(lambda: observer.brokers() == tuple(nodes.ports), "all brokers registered", START_SECONDS)
        return Stage(nodes.nodes, nodes.bootstrap, proxies, observer)


def _versions_in(entry: Entry) -> Iterator[tuple[KeyPath, str]]:
    """Every version of the system that an entry names, with its place."""
    yield ("system",), entry.system.version
    if entry.twin.system is not None:
        yield ("twin", "system"), entry.twin.system.version
    yield from ((("cells", at), cell.version) for at, cell in enumerate(entry.cells))


def _clients_in(entry: Entry) -> Iterator[tuple[KeyPath, Client]]:
    """Every client that an entry names, with its place."""
    yield ("client",), entry.client
    if entry.twin.client is not None:
        yield ("twin", "client"), entry.twin.client
