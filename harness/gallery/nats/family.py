"""NATS JetStream as a family of the gallery: which versions, clients and settings there are, how its servers start.

A server is built by `go build` from its pinned module, and so is the client program (`publisher/main.go`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from squall.harness.artifacts.go_programs import built, go_program, versions
from squall.harness.gallery.core.entry import Arm, Cluster, Entry
from squall.harness.gallery.core.family import Problem, Say, Stage, without_registers
from squall.harness.gallery.core.steps import Hold, Node, Position, Reassign, Step, Transaction
from squall.harness.gallery.nats.nodes import NatsNodes
from squall.harness.gallery.nats.observer import NatsObserver
from squall.harness.systems.nats.configuration import SETTINGS
from squall.harness.systems.nats.system import MODULE as SERVER
from squall.harness.systems.nats.system import PACKAGE
from squall.harness.yaml_source import suggestion

CLIENT: Final = "nats.go"
PUBLISHER: Final = Path(__file__).parent / "publisher"
START_SECONDS: Final = 60.0
DEFAULTS: Final = {"publishers": "8", "timeout": "2s"}


class NatsFamily:
    """See the module."""

    def problems(self, entry: Entry) -> Iterator[Problem]:
        yield from _of_versions(entry)
        yield from _of_cluster(entry.cluster)
        yield from without_registers(entry)
        for at, step in enumerate(entry.schedule):
            if problem := _of_step(step):
                yield ("schedule", at), problem
        for key in {**entry.cluster.config, **(entry.twin.config or {})}:
            if key not in SETTINGS:
                hint = suggestion(key, SETTINGS)
                yield ("cluster", "config", key), f"is no setting of JetStream that an entry may have{hint}"

    def command_of(self, arm: Arm, say: Say) -> list[str]:
        return [str(built(PUBLISHER, ".", say=say))]

    def settings_of(self, arm: Arm, bootstrap: str) -> dict[str, str]:
        return {"servers": bootstrap, **DEFAULTS, **arm.client.settings}

    def stage(self, arm: Arm, work: Path, kept: Path, say: Say, stack: ExitStack) -> Stage:
        program = go_program(f"{SERVER}{arm.system.version}", PACKAGE, say=say)
        watched = any(isinstance(step, Node) and step.do == "lose-power" for step in arm.schedule)
        servers = arm.cluster.brokers
        nodes = stack.enter_context(NatsNodes(program, servers, arm.cluster.config, work, watched=watched))
        stack.callback(nodes.keep_logs, kept)
        nodes.start()
        nodes.wait_until_listening(START_SECONDS)
        nodes.number_the_meta_leader_last(START_SECONDS)
        return Stage(nodes.nodes, nodes.bootstrap, {}, NatsObserver(nodes.bootstrap, nodes.numbers))


def client_version() -> str:
    """The version of nats.go that the publisher is built with."""
    found = re.search(r"nats-io/nats\.go v(\S+)", (PUBLISHER / "go.mod").read_text())
    assert found is not None
    return found[1]


def _of_versions(entry: Entry) -> Iterator[Problem]:
    known = versions(SERVER)
    for where, system in ((("system",), entry.system), (("twin", "system"), entry.twin.system)):
        if system is not None and system.version not in known:
            hint = suggestion(system.version, known)
            yield (*where, "version"), f"{system.version!r} is no version of NATS that Squall has{hint}"
    for where, client in ((("client",), entry.client), (("twin", "client"), entry.twin.client)):
        if client is None:
            continue
        if client.name != CLIENT:
            yield (*where, "name"), f"{client.name!r} is no client of NATS; {CLIENT} is"
        elif client.version != client_version():
            yield (*where, "version"), f"{client.version!r} is not the version that is pinned, {client_version()}"


def _of_cluster(cluster: Cluster) -> Iterator[Problem]:
    for name, default in (("combined", True), ("proxied", ()), ("receive_buffer", None)):
        if getattr(cluster, name) != default:
            yield ("cluster", name), "is for Apache Kafka; leave it out"
    everywhere = tuple(range(1, cluster.brokers + 1))
    for name, topic in cluster.topics.items():
        where = ("cluster", "topics", name)
        if len(topic.replicas) != 1 or tuple(sorted(topic.replicas[0])) != everywhere:
            yield where, f"a stream of NATS is one topic-partition on every server: replicas: [{list(everywhere)}]"
        if topic.config:
            yield (*where, "config"), "is for Apache Kafka; leave it out"


def _of_step(step: Step) -> str:
    """Why the family has no such step; empty if it has."""
    if isinstance(step, Hold):
        return "hold: is for Apache Kafka's messages"
    if isinstance(step, Reassign):
        return "reassign: is for Apache Kafka"
    if isinstance(step, (Transaction, Position)):
        return f"{step.do}: JetStream has no transactions of producers"
    return ""
