"""Send requests to the nodes of any cluster, Squall's or Kafka's, in versions that both sides support.

Each connection begins with ApiVersions, as every client's does; for each API the newest version that both support is
used. An API that a node does not serve at all raises `NotServed`, which a caller may handle by leaving the data out: an
older Kafka has no DescribeTopicPartitions, and shows its topic-partitions without ELR.

`AdminConnection.any` tries the bootstrap addresses in their order until one responds; `AdminConnection.at` sends to one
node.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.harness.errors import UsageError
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.schema import Message
from squall.workloads.clients.native.admin import Address, error_name
from squall.workloads.clients.native.connection import KafkaConnection, Response
from squall.workloads.core.ports import Connector

CLIENT_ID = "squall-operator"
ANSWER_SECONDS = 10.0
DEFAULT_PORT = 9092


class NotServed(UsageError):
    """The node does not serve this API in any version that this client supports."""


class Refused(UsageError):
    """The cluster responded with an error."""


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Parse `host:port,host:port`; the port is 9092 if left out. Raises UsageError."""
    addresses = [_parse_address(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise UsageError(f"--bootstrap {text!r} has no HOST:PORT", remedy="give host:port, such as 127.0.0.1:9092")
    return tuple(addresses)


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, DEFAULT_PORT
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        remedy = "give host:port with a port of 1 to 65535, such as 127.0.0.1:9092"
        raise UsageError(f"--bootstrap {text!r} is not an address; give HOST:PORT", remedy=remedy)
    return host.strip("[]"), int(port)


def refuse_error(what: str, code: int, message: str | None = None) -> None:
    """Raise Refused for an error code of a response; 0 is no error."""
    if code != ErrorCode.NONE:
        name = error_name(code)
        raise Refused(f"{what}: {name}" + (f", {message}" if message and message != name else ""))


class AdminConnection:
    """Connections to the nodes of a cluster, opened on demand."""

    def __init__(self, connector: Connector, bootstrap: Sequence[Address], *, seconds: float = ANSWER_SECONDS) -> None:
        self.connector = connector
        self.bootstrap = tuple(bootstrap)
        self.seconds = seconds
        self._connections: dict[Address, KafkaConnection] = {}
        self._served: dict[Address, dict[int, tuple[int, int]]] = {}

    async def any(self, message: Message, answer: type[Response]) -> Response:
        """Send a request to the first bootstrap node that responds. Raises UsageError."""
        troubles = []
        for address in self.bootstrap:
            try:
                return await self.at(address, message, answer)
            except OSError as trouble:
                troubles.append(f"{address[0]}:{address[1]}: {str(trouble) or 'no answer in time'}")
        said = "\n".join(troubles) or "no address to ask"
        raise UsageError(said, remedy="name brokers that are up: --bootstrap host:port, --inventory FILE or --lab NAME")

    async def at(self, address: Address, message: Message, answer: type[Response]) -> Response:
        """Send a request to one node. Raises OSError if it does not respond, NotServed."""
        connection = await self._connection(address)
        version = self._version(address, message)
        return await connection.request(message, version, answer, self.seconds)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connection(self, address: Address) -> KafkaConnection:
        connection = self._connections.get(address)
        if connection is None or connection.gone is not None:
            try:
                connection = await KafkaConnection.connect(self.connector, *address, CLIENT_ID)
            except TimeoutError:
                raise TimeoutError("it did not accept a connection in time") from None
            self._connections[address] = connection
            served = await connection.request(ApiVersionsRequest(), 0, ApiVersionsResponse, self.seconds)
            self._served[address] = {one.api_key: (one.min_version, one.max_version) for one in served.api_keys}
        return connection

    def _version(self, address: Address, message: Message) -> int:
        theirs = self._served[address].get(message.API_KEY)
        ours = type(message).VERSIONS
        name = type(message).__name__.removesuffix("Request")
        where = f"{address[0]}:{address[1]}"
        if theirs is None:
            raise NotServed(f"{where} does not serve {name} (API key {message.API_KEY})")
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            said = f"versions {theirs[0]} to {theirs[1]}, we speak {ours[0]} to {ours[1]}"
            raise NotServed(f"{where} serves {name} (API key {message.API_KEY}) in {said}")
        return version
