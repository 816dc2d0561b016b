"""Apache Kafka's own quorum of controllers as processes, and stub brokers that register with it.

Each controller is a process of the role `controller` alone, from the pinned jars of its version, with Kafka's default
time-outs and the collector of the ZooKeeper arm (`kafka_process.py`). The stages of a failover are read from the
survivors' logs, each line with the time at which it arrived (`elected_process.py`).
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from squall.benchmarks.experiments.parts.elected_process import LoggingProcess
from squall.benchmarks.parts.controller_processes import Stages
from squall.benchmarks.parts.stub_brokers import CLUSTER_ID, Address, Stub, until
from squall.harness.artifacts.jar_cache import jars
from squall.harness.artifacts.java import command
from squall.harness.loopback.loopback import free_ports
from squall.nodes.config import format_properties
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import (
    FRAME_VERSION,
    RECORDS,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from squall.nodes.protocol.schema import Message

MAIN_CLASS: Final = "kafka.Kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
FIRST_ID: Final = 101
START_TIMEOUT_S: Final = 120.0
RESTART_TIMEOUT_S: Final = 300.0
SETTINGS: Final = {
    "process.roles": "controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "metadata.log.max.record.bytes.between.snapshots": str(2**31 - 1),
    "metadata.log.max.snapshot.interval.ms": "0",
}
"""No snapshots, as in our own quorum: they are no part of what is measured."""
STARTED: Final = "Kafka Server started"
STANDS: Final = ("Completed transition to ProspectiveState", "Completed transition to CandidateState")
LEADS: Final = "Completed transition to Leader"
DECIDES: Final = "Becoming the active controller at epoch"
LOGGED: Final = (
    "kafka.server.KafkaRaftServer",
    "org.apache.kafka.raft.QuorumState",
    "org.apache.kafka.controller.QuorumController",
)
FEATURES: Final = (
    "metadata.version",
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
"""A broker has to support the level of every feature that the cluster uses; stubs say that they support any."""
HIGHEST_LEVEL: Final = 999
DIRECTORY_IDS_FROM: Final = 1_000
"""Kafka reserves the ids of directories below 100."""
_VERSIONS_ALIKE: Final[dict[type[Message], tuple[int, ...]]] = {
    PartitionRecord: (1,),
    PartitionChangeRecord: (1,),
    RegisterBrokerRecord: (4,),
    BrokerRegistrationChangeRecord: (3,),
}
"""Our nodes read these like the newest version that they know: only tagged fields differ."""
_HEADS: Final = {
    bytes((FRAME_VERSION, record.RECORD_ID, version)): bytes((FRAME_VERSION, record.RECORD_ID, record.VERSIONS[1]))
    for record, versions in _VERSIONS_ALIKE.items()
    for version in versions
}


class KafkaController(LoggingProcess):
    """One controller process of Apache Kafka."""

    def __init__(self, node: int, version: str, ports: Mapping[int, int], *, heap_mb: int) -> None:
        super().__init__(node)
        self.port = ports[node]
        self._jars = jars(version)
        self._options = _options(heap_mb)
        self._config = self.directory / "server.properties"
        properties = {
            **SETTINGS,
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{port}" for one, port in ports.items()),
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "log.dirs": str(self.directory / "data"),
        }
        self._config.write_text(format_properties(properties), encoding="utf-8")

    def format(self) -> None:
        """Format its directory. Raises AssertionError with what the tool said."""
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self._config)]
        ran = subprocess.run(
            command(STORAGE_TOOL, self._jars, arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def command(self) -> Sequence[str]:
        return command(MAIN_CLASS, self._jars, [str(self._config)], options=self._options)


class KafkaControllers:
    """Three controllers of one version; a context manager. See `QuorumProcesses`."""

    def __init__(self, version: str, number: int, *, heap_mb: int) -> None:
        self.ids = list(range(FIRST_ID, FIRST_ID + number))
        ports = dict(zip(self.ids, free_ports(number), strict=True))
        self._all = {node: KafkaController(node, version, ports, heap_mb=heap_mb) for node in self.ids}

    def __enter__(self) -> KafkaControllers:
        try:
            for one in self._all.values():
                one.format()
            for one in self._all.values():
                one.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for one in self._all.values():
            one.close()

    @property
    def addresses(self) -> list[Address]:
        return [("127.0.0.1", one.port) for one in self._all.values()]

    async def are_up(self) -> None:
        """Wait until all of them serve. Raises AssertionError with the end of its log if one does not."""
        for one in self._all.values():
            await asyncio.to_thread(one.wait_for, STARTED, timeout_s=START_TIMEOUT_S)

    def kill(self, controller: int) -> None:
        self._all[controller].kill()

    async def start(self, controller: int) -> float:
        """Start a killed one again, and wait until it logs that it has started. Returns the seconds that this took."""
        began = time.monotonic()
        self._all[controller].start()
        started = self._all[controller].wait_for
        await asyncio.to_thread(started, STARTED, since=began, timeout_s=RESTART_TIMEOUT_S)
        return time.monotonic() - began

    def resident(self) -> list[int]:
        """Resident bytes of each running controller."""
        return [one.resident for one in self._all.values() if one.is_running]

    def end_of_logs(self) -> str:
        return "\n".join(f"controller {node}:\n{one.end_of_log()}" for node, one in self._all.items())

    async def stages(self, survivors: Sequence[int], killed_at: float) -> Stages:
        """Return the stages of the failover since a kill, by the survivors' logs."""

        def first(*texts: str) -> float | None:
            return _earliest(self._all[one].logged(text, killed_at) for one in survivors for text in texts)

        await until("the logs tell of the failover", lambda: first(DECIDES) is not None, every_s=0.1)
        stands, leads, decides = first(*STANDS), first(LEADS), first(DECIDES)
        assert stands is not None and leads is not None and decides is not None, self.end_of_logs()
        return Stages(stands - killed_at, leads - killed_at, decides - killed_at)


class KafkaStub(Stub):
    """A stub broker of a quorum of Apache Kafka. Its image has what our nodes know as well; other records are left out.

    Records of topic-partitions in an older version are read as the newest one: so they take the same fast path as those
    of our own quorum.
    """

    def registration(self) -> BrokerRegistrationRequest:
        request = super().registration()
        request.features = [Feature(name, 0, HIGHEST_LEVEL) for name in FEATURES]
        request.log_dirs = [(DIRECTORY_IDS_FROM + self.broker).to_bytes(16, "big")]
        return request

    def replay(self, image: MetadataImage, values: Sequence[bytes], offset: int, epoch: int) -> None:
        known = [as_newest(one) for one in values if is_known(one)]
        if known:
            image.replay_values(known, offset, epoch)


def is_known(value: bytes) -> bool:
    """Whether a record is one of those that our nodes have as well: its id is the second byte."""
    return len(value) > 1 and value[1] in RECORDS


def as_newest(value: bytes) -> bytes:
    """Return a record with the head of the newest version that our nodes know, where that reads the same."""
    head = _HEADS.get(value[:3])
    return value if head is None else head + value[3:]


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((one for one in times if one is not None), default=None)


def _options(heap_mb: int) -> list[str]:
    levels = [f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in LOGGED]
    return [f"-Xmx{heap_mb}m", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *levels]
