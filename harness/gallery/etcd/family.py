"""etcd as a family of the gallery: one member, whose keys are registers. Its writes can be held.

A member is built by `go build` from a pinned module. Clusters of several members are not started yet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from squall.harness.artifacts.go_programs import go_program, versions
from squall.harness.gallery.core.entry import Arm, Entry
from squall.harness.gallery.core.family import Problem, Say, Stage
from squall.harness.gallery.core.node_process import NodeProcess, keep_files, wait_until_listening
from squall.harness.gallery.core.observations import Marked, Place, Position, Read
from squall.harness.gallery.core.steps import Await, HoldWrites, Node, Release, Wait, WriteRegister
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.core.waiting import wait_until
from squall.harness.gallery.core.write_hold import WriteHold
from squall.harness.loopback.loopback import free_ports
from squall.harness.systems.etcd.gateway import TROUBLES, VERSION, Gateway
from squall.harness.systems.etcd.members import Peer, arguments
from squall.harness.systems.etcd.system import MODULE as SERVER
from squall.harness.yaml_source import suggestion

CLIENT: Final = "json-gateway"
MEMBER: Final = 1
START_SECONDS: Final = 60.0
READ_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 5.0
LOOK_EVERY_S: Final = 0.1
DEFAULTS: Final = {"timeout": "5"}
STEPS: Final = (Await, HoldWrites, Node, Release, Wait, WriteRegister)


class EtcdNode(NodeProcess):
    """The member and its files."""

    def __init__(self, program: Path, directory: Path, port: int, peer_port: int, *, watched: bool) -> None:
        super().__init__(directory / "node.log")
        data = directory / "data"
        data.mkdir(parents=True)
        alone = Peer("m1", f"127.0.0.1:{port}", f"127.0.0.1:{peer_port}")
        self._command = [str(program), *arguments(alone, [alone], str(data), {})]
        self.writes = WriteHold(data) if watched else None

    def lose_power(self) -> int:
        raise NotReproduced("what an etcd member has fsynced is not known: its log is allocated in advance")

    def _spawn(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        if self.writes is not None:
            return self.writes.start(self._command, out)
        return subprocess.Popen(self._command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


class EtcdObserver:
    """Reads registers of the member at an address."""

    findings = ()

    def __init__(self, address: str) -> None:
        self._gateway = Gateway(address, REQUEST_SECONDS)

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> None:
        raise NotReproduced("etcd has no topics")

    def in_sync(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        raise NotReproduced("etcd has no topics")

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        raise NotReproduced("etcd has no topics")

    def position(self, group: str, topic: str, partition: int) -> Position:
        raise NotReproduced("etcd has no positions of groups")

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until something holds. Raises NotReproduced."""
        wait_until(holds, what, seconds)

    def read_register(self, name: str) -> Position:
        """Read a register as soon as the member answers. Raises NotReproduced."""
        end = time.monotonic() + READ_SECONDS
        while True:
            begun = time.monotonic_ns()
            try:
                found = self._gateway.get(name)
            except TROUBLES as trouble:
                if time.monotonic() > end:
                    raise NotReproduced(f"register {name} cannot be read: {trouble}") from None
            else:
                value = -1 if found is None else int(found)
                return Position(name, "read", begun, time.monotonic_ns(), value)
            time.sleep(LOOK_EVERY_S)

    def mark(self, places: Sequence[Place]) -> list[Marked]:
        return []

    def read_all(self, markers: Sequence[Marked]) -> list[Read]:
        return []


class EtcdFamily:
    """See the module."""

    def problems(self, entry: Entry) -> Iterator[Problem]:
        known = versions(SERVER)
        for where, system in ((("system",), entry.system), (("twin", "system"), entry.twin.system)):
            if system is not None and system.version not in known:
                hint = suggestion(system.version, known)
                yield (*where, "version"), f"{system.version!r} is no version of etcd that Squall has{hint}"
        for where, client in ((("client",), entry.client), (("twin", "client"), entry.twin.client)):
            if client is not None and (client.name, client.version) != (CLIENT, VERSION):
                yield where, f"{client.words} is no client of etcd; {CLIENT} {VERSION} is"
        cluster = entry.cluster
        for name in ("topics", "config", "proxied"):
            if getattr(cluster, name):
                yield ("cluster", name), "etcd has none; leave it out"
        if cluster.brokers != 1:
            yield ("cluster", "brokers"), "an entry about etcd has one member so far"
        for at, step in enumerate(entry.schedule):
            if not isinstance(step, STEPS) or (isinstance(step, Node) and step.do == "lose-power"):
                yield ("schedule", at), f"etcd has no step `{step.do}`"

    def command_of(self, arm: Arm, say: Say) -> list[str]:
        return [sys.executable, "-m", "squall.harness.gallery.etcd.register_program"]

    def settings_of(self, arm: Arm, bootstrap: str) -> dict[str, str]:
        return {"address": bootstrap, **DEFAULTS, **arm.client.settings}

    def stage(self, arm: Arm, work: Path, kept: Path, say: Say, stack: ExitStack) -> Stage:
        program = go_program(f"{SERVER}{arm.system.version}", ".", say=say)
        watched = any(isinstance(step, HoldWrites) for step in arm.schedule)
        port, peer_port = free_ports(2)
        directory = work / f"node-{MEMBER}"
        directory.mkdir()
        node = EtcdNode(program, directory, port, peer_port, watched=watched)
        nodes: dict[int, NodeProcess] = {MEMBER: node}
        stack.callback(keep_files, nodes, ("node.log",), kept)
        stack.callback(node.kill)
        node.start()
        wait_until_listening({node: port}, START_SECONDS)
        observer = EtcdObserver(f"127.0.0.1:{port}")
        observer.read_register("ready")
        return Stage(nodes, f"127.0.0.1:{port}", {}, observer)
