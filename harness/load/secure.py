"""Connections of the native client to a secured cluster: TLS, then SASL, and then frames as over plain TCP.

    connector = SecureConnector(SocketsHere(), {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", …})

SASL is Kafka's: SaslHandshake names the mechanism, SaslAuthenticate carries its messages (KIP-152). PLAIN is RFC 4616,
SCRAM is RFC 5802; the server's proof is checked, so that no other server can pass for it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from squall.harness.load.tcp import CONNECT_SECONDS, LENGTH_BYTES, Sockets, TcpConnector, TcpStream

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
VERSION: Final = 1
CLIENT_ID: Final = b"squall"
LARGEST_ANSWER: Final = 1 << 20
NONCE_BYTES: Final = 18
MOST_ITERATIONS: Final = 1_000_000

Exchange = Callable[[bytes], Awaitable[bytes]]
"""Sends a message of the mechanism, and returns the answer."""


class NotAuthenticated(ConnectionError):
    """The cluster refused the credentials, or could not prove that it knows them."""


class SecureConnector(TcpConnector):
    """Implements `workloads.ports.Connector`. `properties` have librdkafka's keys."""

    def __init__(self, network: Sockets, properties: Mapping[str, str]) -> None:
        super().__init__(network)
        self._properties = dict(properties)
        protocol = self._properties.get("security.protocol", "PLAINTEXT")
        self._tls = tls_context(self._properties) if protocol.endswith("SSL") else None
        self._sasl = protocol.startswith("SASL")

    async def connect(self, host: str, port: int) -> TcpStream:
        """Open a connection. Raises OSError if no response arrives in time, or if it is not the one asked for."""
        made = await asyncio.to_thread(self.network.socket)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (host, port))
                name = host if self._tls is not None else None
                reader, writer = await asyncio.open_connection(sock=made, ssl=self._tls, server_hostname=name)
                if self._sasl:
                    await self._authenticate(reader, writer)
        except BaseException:
            if writer is not None:
                writer.close()
            made.close()
            raise
        return TcpStream(reader, writer)

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mechanism = self._properties["sasl.mechanism"]
        user, password = self._properties["sasl.username"], self._properties["sasl.password"]
        answer = await _request(reader, writer, SASL_HANDSHAKE, _text(mechanism.encode()))
        (error,) = struct.unpack_from(">h", answer)
        if error:
            raise NotAuthenticated(f"the cluster does not offer {mechanism} (error {error})")

        async def exchange(message: bytes) -> bytes:
            found = await _request(reader, writer, SASL_AUTHENTICATE, _bytes(message))
            return _authentication_answer(found)

        if mechanism == "PLAIN":
            await exchange(b"\0" + user.encode() + b"\0" + password.encode())
        else:
            await scram(exchange, mechanism.removeprefix("SCRAM-").replace("-", "").lower(), user, password)


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS settings of the properties. Raises OSError for files that are no certificates."""
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    if properties.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        context.check_hostname = False
    certificate = properties.get("ssl.certificate.location")
    if certificate is not None:
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    return context


async def scram(exchange: Exchange, digest: str, user: str, password: str, nonce: str = "") -> None:
    """Authenticate by SCRAM with this digest, such as `sha256`. Raises NotAuthenticated."""
    nonce = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = (await exchange(f"n,,{first}".encode())).decode()
    fields = _fields(challenge)
    iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
    if not fields.get("r", "").startswith(nonce) or "s" not in fields or not 0 < iterations <= MOST_ITERATIONS:
        raise NotAuthenticated("the cluster's SCRAM challenge does not answer ours")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(fields["s"]), iterations)
    last = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{last}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = _fields((await exchange(f"{last},p={base64.b64encode(proof).decode()}".encode())).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(final.get("v", "")), expected):
        raise NotAuthenticated("the cluster could not prove that it knows the credentials")


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api: int, body: bytes) -> bytes:
    """Send a request with a header of version 1; return the answer without its correlation id."""
    frame = struct.pack(">hhi", api, VERSION, 0) + _text(CLIENT_ID) + body
    writer.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
    await writer.drain()
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if not LENGTH_BYTES < length <= LARGEST_ANSWER:
            raise NotAuthenticated(f"the peer announced an answer of {length} bytes")
        return (await reader.readexactly(length))[4:]
    except asyncio.IncompleteReadError:
        raise NotAuthenticated("the peer closed the connection while we authenticated") from None


def _authentication_answer(answer: bytes) -> bytes:
    """Return the mechanism's bytes in a SaslAuthenticate response. Raises NotAuthenticated."""
    error, length = struct.unpack_from(">hh", answer)
    said = answer[4 : 4 + max(length, 0)].decode(errors="replace")
    if error:
        raise NotAuthenticated(f"the cluster refused the credentials: {said or f'error {error}'}")
    at = 4 + max(length, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(size, 0)]


def _text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value
