"""SCRAM as RFC 5802 and RFC 7677 give it, and connections to a server that authenticates."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping

import pytest

from squall.harness.load.secure import NotAuthenticated, SecureConnector, scram
from squall.harness.load.tcp import SocketsHere

RFC_7677 = [
    (
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    ),
    (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]
"""The exchange of RFC 7677, section 3."""


class Server:
    """Answers as in an exchange, and remembers what it was sent."""

    def __init__(self, answers: Iterator[bytes]) -> None:
        self.answers = answers
        self.sent: list[bytes] = []

    async def exchange(self, message: bytes) -> bytes:
        self.sent.append(message)
        return next(self.answers)


def authenticate(answers: list[bytes]) -> list[bytes]:
    server = Server(iter(answers))
    asyncio.run(scram(server.exchange, "sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO"))
    return server.sent


def test_scram_is_that_of_the_rfc() -> None:
    assert authenticate([answer for _, answer in RFC_7677]) == [message for message, _ in RFC_7677]


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([RFC_7677[0][1], b"v=AAAA"], "could not prove that it knows the credentials"),
        ([RFC_7677[0][1], b"e=invalid-proof"], "could not prove that it knows the credentials"),
        ([b"r=another,s=AAAA,i=4096"], "does not answer ours"),
        ([RFC_7677[0][1].replace(b"i=4096", b"i=999999999")], "does not answer ours"),
        ([b"nonsense"], "does not answer ours"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_believed(answers: list[bytes], problem: str) -> None:
    with pytest.raises(NotAuthenticated, match=problem):
        authenticate(answers)


PLAIN: Mapping[str, str] = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "hunter2",
}


def connect(handshake: bytes, authentication: bytes) -> list[bytes]:
    """Connect to a server with these two answers. Return the bodies of the requests it got."""
    got: list[bytes] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (handshake, authentication):
            length = int.from_bytes(await reader.readexactly(4), "big")
            got.append(await reader.readexactly(length))
            frame = struct.pack(">i", 0) + answer
            writer.write(struct.pack(">i", len(frame)) + frame)
        writer.close()

    async def both() -> None:
        server = await asyncio.start_server(served, "127.0.0.1", 0)
        async with server:
            stream = await SecureConnector(SocketsHere(), PLAIN).connect(*server.sockets[0].getsockname()[:2])
            stream.close()

    asyncio.run(both())
    return got


ACCEPTED = struct.pack(">hhiq", 0, -1, 0, 0)


def test_a_plain_login_follows_a_handshake() -> None:
    handshake, authentication = connect(struct.pack(">hi", 0, 0), ACCEPTED)
    assert struct.unpack_from(">hh", handshake) == (17, 1) and handshake.endswith(b"\0\5PLAIN")
    assert struct.unpack_from(">hh", authentication) == (36, 1) and authentication.endswith(b"\0me\0hunter2")


@pytest.mark.parametrize(
    ("handshake", "authentication", "problem"),
    [
        (struct.pack(">hi", 33, 0), ACCEPTED, r"does not offer PLAIN \(error 33\)"),
        (struct.pack(">hi", 0, 0), struct.pack(">hh4si", 58, 4, b"nope", 0), "refused the credentials: nope"),
    ],
)
def test_a_refusal_is_told_without_the_password(handshake: bytes, authentication: bytes, problem: str) -> None:
    with pytest.raises(NotAuthenticated, match=problem) as refused:
        connect(handshake, authentication)
    assert "hunter2" not in str(refused.value)
