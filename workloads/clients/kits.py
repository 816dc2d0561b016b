"""The client libraries that a suite may name, and the kits that make their clients.

`program` is a program of its own in any language (`programs/`); all others speak Kafka's protocol. `mixed` assigns
clients to two libraries in turn, so that one history shows what both did to the same logs. Libraries are imported on
demand: a load worker should start in a fraction of a second, and aiokafka need not be installed where it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from squall.workloads.clients.common.client import Client, ClientFactory, ClientPlan
from squall.workloads.clients.programs.client import ProgramChoice, ProgramFactory
from squall.workloads.core.ports import Clock, Connector

Library = Literal["confluent", "kafka-python", "aiokafka", "native", "mixed", "program"]

Bootstrap = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MixedFactory:
    """Makes clients of several libraries in turn, by the client's number."""

    factories: tuple[ClientFactory, ...]
    name: str = "mixed"

    def client(self, plan: ClientPlan) -> Client:
        return self.factories[plan.client % len(self.factories)].client(plan)


NO_SECURITY: Mapping[str, str] = MappingProxyType({})

NativeWorld = Callable[[], tuple[Connector, Clock]]
"""How native clients reach the cluster, and their clock; called when native clients are to be made."""


def factory_of(
    library: Library,
    bootstrap: Bootstrap,
    native: NativeWorld | None = None,
    security: Mapping[str, str] = NO_SECURITY,
    program: ProgramChoice | None = None,
) -> ClientFactory:
    """The kit of that name for one cluster; `security` says how to connect, by librdkafka's keys.

    Raises LibraryMissing.
    """
    if library == "program":
        if program is None:
            raise LibraryMissing('workload.client "program": no command is given, and the system brings no program')
        return ProgramFactory(program, bootstrap)
    if library == "native":
        return _native_factory(bootstrap, native)
    if security and library != "confluent":
        raise LibraryMissing(f'workload.client "{library}": only native and confluent connect by client properties')
    if library == "mixed":
        return MixedFactory((factory_of("confluent", bootstrap), factory_of("kafka-python", bootstrap)))
    if library == "kafka-python":
        from squall.workloads.clients.libraries.kafka_python import KafkaPythonFactory

        return KafkaPythonFactory(bootstrap)
    if library == "aiokafka":
        return _aiokafka_factory(bootstrap)
    from squall.workloads.clients.libraries.confluent import ConfluentFactory

    return ConfluentFactory(bootstrap, dict(security))


def _native_factory(bootstrap: Bootstrap, native: NativeWorld | None) -> ClientFactory:
    from squall.workloads.clients.native.native import NativeFactory

    if native is None:
        raise LibraryMissing('workload.client "native": no connection settings are given')
    connector, clock = native()
    return NativeFactory(connector, bootstrap, clock)


class LibraryMissing(Exception):
    """A client library that a suite names is not installed; the message says how to install it."""


def _aiokafka_factory(bootstrap: Bootstrap) -> ClientFactory:
    try:
        from squall.workloads.clients.libraries.aiokafka import AiokafkaFactory
    except ModuleNotFoundError as missing:
        raise LibraryMissing(
            f'workload.client "aiokafka": {missing.name} is not installed here; pip install "squall[aiokafka]"'
        ) from None
    return AiokafkaFactory(bootstrap)
