"""A whole system of a user's own: a log over TCP that knows nothing of Kafka, with its clients and its workload.

The server keeps one log in a file. A line `A 17` appends the value 17 and is answered by its offset; `R 5` is answered
by the values from offset 5 on. A package brings all of it: the system by `squall.systems`, the workload with its
clients by `squall.workloads`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from squall.harness.hosts.system import BROKER_PORT, NodePlan, ProcessDefinition, bundler, resolve
from squall.harness.plugins.system_limits import REPLICAS, SystemLimits
from squall.nemesis.core.ports import NODE_PROCESS
from squall.workloads.clients.common.client import ClientPlan, ClusterState, PartitionState
from squall.workloads.core.operation import FAIL, INFO, MARKER, OK, SEND, Completion, Operation
from squall.workloads.log import LogOptions, LogWorkload
from squall.workloads.workload import LoadOptions, WorkloadKind

SERVER = """
import socketserver, sys, threading
file, lock = open(sys.argv[1], "a+b", buffering=0), threading.Lock()
file.seek(0)
values = file.read().split()
class Log(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            what, number = line.split()
            with lock:
                if what == b"A":
                    file.write(number + b"\\n")
                    values.append(number)
                answer = str(len(values) - 1).encode() if what == b"A" else b" ".join(values[int(number):][:500])
            self.wfile.write(answer + b"\\n")
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer((sys.argv[2], int(sys.argv[3])), Log).serve_forever()
"""


class ToyLog:
    """One server, on the first broker's host."""

    name = "toylog"
    limits = SystemLimits(lacks={REPLICAS: "it has one"})

    def __init__(self) -> None:
        self._bundler = bundler({})

    def bundle(self, kind: Any) -> Any:
        return self._bundler.bundle(kind)

    def configure(self, inventory: Any, places: Any, settings: Any) -> dict[str, NodePlan]:
        host = inventory.brokers[0]
        directory, address = places[host.name].run_directory(settings.run_id), resolve(host)
        server, log = f"{directory}/server.py", f"{directory}/node.log"
        argv = (places[host.name].python, server, f"{directory}/values", address, str(BROKER_PORT))
        process = ProcessDefinition(NODE_PROCESS, argv, {}, directory, log, ports=(BROKER_PORT,))
        files = {server: SERVER}
        return {host.name: NodePlan(host.name, 1, ("broker",), address, files, (directory,), process, (log,))}

    def admin(self, connector: Any, brokers: Sequence[tuple[str, int]]) -> ToyAdmin:
        return ToyAdmin(connector.network, brokers[0])


class Line:
    """A connection that asks one line at a time."""

    def __init__(self, address: tuple[str, int], network: Any = None) -> None:
        self.address, self.network, self.lock = address, network, asyncio.Lock()
        self.streams: Any = None

    async def ask(self, line: str) -> str:
        async with self.lock, asyncio.timeout(2):
            if self.streams is None:
                await self._connect()
            reader, writer = self.streams
            try:
                writer.write(f"{line}\n".encode())
                answer = await reader.readline()
            except OSError:
                answer = b""
            if not answer.endswith(b"\n"):
                self.streams = None
                raise EOFError(line)
            return answer.decode().strip()

    async def _connect(self) -> None:
        if self.network is None:
            self.streams = await asyncio.open_connection(*self.address)
            return
        made = self.network.socket()
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, self.address)
        self.streams = await asyncio.open_connection(sock=made)


class ToyAdmin:
    """What the harness asks of it besides load."""

    def __init__(self, network: Any, address: tuple[str, int]) -> None:
        self.line, self.address = Line(address, network), address

    async def describe(self, topics: Sequence[str] | None = None) -> ClusterState:
        try:
            await self.line.ask("R 1000000000")
        except EOFError:
            raise ConnectionError("the server is gone") from None
        whole = tuple(PartitionState(topic, 0, 1, 0, (1,), (1,)) for topic in topics or ())
        return ClusterState(((1, *self.address),), whole, None)

    async def create_topics(self, topics: Any) -> None:
        await self.describe()

    async def close(self) -> None:
        self.line.streams = None


class ToyClient:
    """Appends, and reads on from where it is."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.line, self.position = Line(address), 0

    async def invoke(self, operation: Operation) -> Completion:
        try:
            if operation.f in (SEND, MARKER):
                return Completion(OK, offset=int(await self.line.ask(f"A {operation.value}")))
            values = tuple(map(int, (await self.line.ask(f"R {self.position}")).split()))
        except (EOFError, TimeoutError):
            return Completion(INFO if operation.f in (SEND, MARKER) else FAIL, error="no_answer")
        except OSError:
            await asyncio.sleep(0.01)
            return Completion(FAIL, error="not_connected")
        before, self.position = self.position, self.position + len(values)
        return Completion(OK, offsets=tuple(range(before, self.position)), values=values, session=1, position=before)

    async def open(self) -> None: ...

    async def setup(self) -> None: ...

    async def teardown(self) -> None: ...

    async def close(self) -> None: ...


class ToyClients:
    name = "toylog"

    def __init__(self, options: Any, bootstrap: Any) -> None:
        self.address = bootstrap[0]

    def client(self, plan: ClientPlan) -> ToyClient:
        return ToyClient(self.address)


class ToyOptions(LoadOptions):
    name: Literal["toylog"] = "toylog"
    rate: int = 100


def plan(options: ToyOptions, topics: Any) -> LogWorkload:
    return LogWorkload(LogOptions(producers=options.producers, rate=f"{options.rate}/s", idempotent=False), topics)


WORKLOAD = WorkloadKind(ToyOptions, plan, simulation=False, clients=ToyClients)
