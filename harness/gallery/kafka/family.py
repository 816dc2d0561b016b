"""Apache Kafka as a family of the gallery: which versions, clients and settings there are, and how its nodes start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from squall.harness.gallery.core.entry import Arm, Entry
from squall.harness.gallery.core.family import Problem, Say, Stage, without_registers
from squall.harness.gallery.core.frame_proxy import FrameProxy
from squall.harness.gallery.kafka.nodes import ClusterShape, KafkaNodes
from squall.harness.gallery.kafka.observer import KafkaObserver
from squall.harness.gallery.kafka.programs import NAMES, command_of, settings_of
from squall.harness.systems.kafka.properties import wrong_with_setting
from squall.harness.systems.kafka.system import ApacheKafka
from squall.harness.systems.kafka.versions import VERSIONS
from squall.harness.yaml_source import suggestion

START_SECONDS: Final = 120.0


class KafkaFamily:
    """See the module."""

    def problems(self, entry: Entry) -> Iterator[Problem]:
        yield from without_registers(entry)
        for where, system in ((("system",), entry.system), (("twin", "system"), entry.twin.system)):
            if system is not None and system.version not in VERSIONS:
                hint = suggestion(system.version, VERSIONS)
                yield (*where, "version"), f"{system.version!r} is no version of Apache Kafka that Squall has{hint}"
        for where, client in ((("client",), entry.client), (("twin", "client"), entry.twin.client)):
            if client is not None and client.name not in NAMES:
                yield (*where, "name"), f"{client.name!r} is no client of Apache Kafka; {', '.join(NAMES)} are"
        for key, value in {**entry.cluster.config, **(entry.twin.config or {})}.items():
            if wrong := wrong_with_setting(key, value, entry.system.version):
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
