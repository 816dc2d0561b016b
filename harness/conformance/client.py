"""Ask brokers anything, in any version that both sides have, and compare what they respond.

A question is sent in a version drawn from those that the broker announces and that can say it (`since`, `until`), since
much of a broker's code belongs to one range of versions. A broker that does not respond in time, or closes the
connection, breaks a promise as well: the cluster has no faults. It may close a connection that is idle
(`connections.max.idle.ms`), at the moment at which a question is sent on it, and has not read the question then. So a
question that ends an old connection is sent once more, on a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import APIS, ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.native.admin import error_name
from squall.workloads.clients.native.connection import KafkaConnection
from squall.workloads.core.ports import Connector

CLIENT_ID = "squall-conformance"
ANSWER_SECONDS = 10.0
AGAIN_SECONDS = 0.1
NEWEST = 2**15
NOBODY = 4_711
"""A node id that no cluster of ours has."""
UNKNOWN_ID = bytes(range(16))
"""The id of no topic and of no directory."""
STRANGE_CLUSTER = "c3F1YWxsLXN0cmFuZ2Vycw"
"""The id of a cluster that is not the one that is asked."""

Address = tuple[str, int]
Response = TypeVar("Response", bound=Message)
Found = TypeVar("Found")


@dataclass(frozen=True)
class Patience:
    """How long a check waits, in seconds; the defaults are for processes on busy hosts."""

    settling: float = 20.0
    """Until brokers show a change: a replica that is added must catch up first."""
    prompt: float = 0.25
    """Until a request is answered that waits only for other brokers, as the median of several."""


class NotConforming(AssertionError):
    """A response is not what the protocol promises. The message names the broker, the question and both answers."""


class ConformanceClient:
    """Connections to all nodes of a cluster without faults. `close` it in the end."""

    def __init__(
        self,
        connector: Connector,
        brokers: Iterable[Address],
        rng: Random,
        wall_clock_ms: Callable[[], int],
        controllers: Iterable[Address] = (),
        on_send: Callable[[int], None] = lambda value: None,
        patience: Patience | None = None,
        *,
        knows_all: bool = False,
    ) -> None:
        """`wall_clock_ms` is the brokers' time of day. `controllers` listen for clients; a cluster may have none.

        `on_send` is called with each value that a broker should append, before it is sent. `knows_all`: no node can
        read a version that this client cannot write, since the nodes are of the same commit.
        """
        self.connector = connector
        self.brokers = tuple(brokers)
        self.controllers = tuple(controllers)
        self.rng = rng
        self.wall_clock_ms = wall_clock_ms
        self.on_send = on_send
        self.patience = patience or Patience()
        self.knows_all = knows_all
        self._connections: dict[Address, KafkaConnection] = {}
        self._connecting = asyncio.Lock()
        self._announced: dict[Address, dict[int, tuple[int, int]]] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def on_other_connections(self) -> ConformanceClient:
        """The same client with connections of its own, for questions whose answers must not wait for others."""
        return ConformanceClient(
            self.connector,
            self.brokers,
            self.rng,
            self.wall_clock_ms,
            self.controllers,
            self.on_send,
            self.patience,
            knows_all=self.knows_all,
        )

    def any_broker(self) -> Address:
        return self.rng.choice(self.brokers)

    async def serves(self, address: Address, key: ApiKey, version: int | None = None) -> bool:
        """Whether a node announces an API, in this version if one is named."""
        announced = (await self._versions(address)).get(int(key))
        return announced is not None and (version is None or announced[0] <= version <= announced[1])

    async def settled(self, attempt: Callable[[], Awaitable[Found]]) -> Found:
        """Return what `attempt` returns once it does not raise NotConforming: a broker may hear of a change late."""
        loop = asyncio.get_running_loop()
        late = loop.time() + self.patience.settling
        while True:
            try:
                return await attempt()
            except NotConforming as wrong:
                if loop.time() >= late:
                    raise NotConforming(f"{wrong}, {self.patience.settling:g} s after the change") from wrong
            await asyncio.sleep(AGAIN_SECONDS)

    async def ask(
        self,
        address: Address,
        request: Message,
        answer: type[Response],
        *,
        since: int = 0,
        until: int = NEWEST,
    ) -> Response:
        """Send a request in a version from `since` to `until`. Raises NotConforming if there is no response."""
        try:
            announced = (await self._versions(address))[request.API_KEY]
            own = APIS[ApiKey(request.API_KEY)].versions
            low, high = max(announced[0], own[0], since), min(announced[1], own[1], until)
            return await self._request(address, request, self.rng.randint(low, high), answer)
        except OSError as trouble:
            raise NotConforming(f"{place(address)} does not respond to {name_of(request)}: {trouble}") from trouble

    async def _request(self, address: Address, request: Message, version: int, answer: type[Response]) -> Response:
        known = self._connections.get(address)
        connection = await self._connection(address)
        try:
            return await connection.request(request, version, answer, ANSWER_SECONDS)
        except ConnectionError:
            if connection is not known:
                raise
        connection = await self._connection(address)
        return await connection.request(request, version, answer, ANSWER_SECONDS)

    async def tell(self, address: Address, request: Message, version: int) -> None:
        """Send a request that has no response."""
        try:
            await (await self._connection(address)).send_only(request, version)
        except OSError as trouble:
            raise NotConforming(f"{place(address)} does not take {name_of(request)}: {trouble}") from trouble

    async def ends(self, address: Address, request: Message, version: int) -> bool:
        """Send a request that has no response. Return whether the node then ends the connection."""
        asked = ApiVersionsRequest(client_software_name="squall", client_software_version="0")
        try:
            connection = await self._connection(address)
            await connection.send_only(request, version)
        except OSError as trouble:
            raise NotConforming(f"{place(address)} does not take {name_of(request)}: {trouble}") from trouble
        try:
            await connection.request(asked, APIS[ApiKey.API_VERSIONS].versions[1], ApiVersionsResponse, ANSWER_SECONDS)
        except ConnectionError:
            return True
        return False

    async def _versions(self, address: Address) -> dict[int, tuple[int, int]]:
        if address not in self._announced:
            asked = ApiVersionsRequest(client_software_name="squall", client_software_version="0")
            low, high = APIS[ApiKey.API_VERSIONS].versions
            version = self.rng.randint(low, high)
            response = await self._request(address, asked, version, ApiVersionsResponse)
            expect(address, "ApiVersions", response.error_code, 0)
            without = [one.api_key for one in response.api_keys if not 0 <= one.min_version <= one.max_version]
            expect(address, "APIs without a version, by ApiVersions", without, [])
            self._announced[address] = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        return self._announced[address]

    async def _connection(self, address: Address) -> KafkaConnection:
        async with self._connecting:  # of many questions at once, one connects
            connection = self._connections.get(address)
            if connection is None or connection.gone is not None:
                connection = await KafkaConnection.connect(self.connector, *address, CLIENT_ID)
                self._connections[address] = connection
            return connection


def expect(address: Address, question: str, came: object, *expected: object) -> None:
    """Raise NotConforming unless `came` is one of those expected."""
    if came not in expected:
        told = " or ".join(repr(one) for one in expected)
        raise NotConforming(f"{place(address)}: {question}: {came!r} came instead of {told}")


def expect_error(address: Address, question: str, came: int, *expected: ErrorCode, message: str | None = None) -> None:
    """Raise NotConforming unless this error code, or no error, is one of those expected. `message` came with it."""
    if came not in expected:
        told = " or ".join(one.name for one in expected)
        why = f" ({message})" if message else ""
        raise NotConforming(f"{place(address)}: {question}: {error_name(came)}{why} came instead of {told}")


def place(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def name_of(request: Message) -> str:
    return type(request).__name__.removesuffix("Request")
