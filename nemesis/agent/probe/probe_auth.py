"""Seals and checks the datagrams between keepers, by keys of the deployment.

    magic (3) · key id (8) · seal (16) · kind (1) · length of the body (2) · body · what is not sealed

The seal is an HMAC-SHA256 over kind and body, cut to 16 bytes. There are two kinds of keys:

* a *session key*, which the control process draws and hands to every agent over SSH (`probe.key`); hosts use it between
  each other. Each host keeps the latest `KEPT`, for keepers to check by;
* the *own key* of this host, in a file readable by its user alone, with which agents query the keeper of the same host.

A datagram of the wrong shape, with an unknown key or a wrong seal is neither accepted nor answered; it costs one hash.
A copied datagram does not count twice, since received ones are identified by nonce, sender and number. No response is
larger than its request, except to the host's own key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from squall.nemesis.agent.core.durable import write_durably
from squall.nemesis.agent.core.verb_error import VerbError

MAGIC = b"SQ1"
ID_BYTES = 8
SEAL_BYTES = 16
HEADER = len(MAGIC) + ID_BYTES + SEAL_BYTES + 3
LARGEST = 2048
"""Bytes of a datagram from another host."""
KEPT = 16
OWN = "own"
LOOK_AGAIN = 0.1

HEARD, ECHO, REPLY, TRAIN, QUESTION, ANSWER = (b"h", b"e", b"r", b"t", b"q", b"a")


@dataclass(frozen=True)
class Key:
    """A key, and the id derived from it."""

    secret: bytes

    @property
    def id(self) -> bytes:
        return hashlib.sha256(b"id" + self.secret).digest()[:ID_BYTES]

    def seal(self, kind: bytes, body: bytes, unsealed: bytes = b"") -> bytes:
        """Build a sealed datagram."""
        length = len(body).to_bytes(2, "big")
        return b"".join((MAGIC, self.id, self._mac(kind, body), kind, length, body, unsealed))

    def opens(self, datagram: Sealed) -> bool:
        return hmac.compare_digest(self._mac(datagram.kind, datagram.body), datagram.seal)

    def _mac(self, kind: bytes, body: bytes) -> bytes:
        return hmac.digest(self.secret, kind + body, "sha256")[:SEAL_BYTES]


@dataclass(frozen=True)
class Sealed:
    """A datagram whose seal is not checked yet."""

    key_id: bytes
    seal: bytes
    kind: bytes
    body: bytes
    unsealed: bytes


def parsed(data: bytes) -> Sealed | None:
    """Parse a datagram; None if it has the wrong shape."""
    if len(data) < HEADER or not data.startswith(MAGIC):
        return None
    at = len(MAGIC)
    key_id, seal = data[at : at + ID_BYTES], data[at + ID_BYTES : at + ID_BYTES + SEAL_BYTES]
    kind, length = data[HEADER - 3 : HEADER - 2], int.from_bytes(data[HEADER - 2 : HEADER], "big")
    body = data[HEADER : HEADER + length]
    return Sealed(key_id, seal, kind, body, data[HEADER + length :]) if len(body) == length else None


class ProbeKeys:
    """The keys known to this host, in files that agents and keeper share."""

    def __init__(self, state: Path) -> None:
        self._directory = state / "keys"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._known: dict[bytes, Key] = {}
        self._looked = float("-inf")

    def own(self) -> Key:
        """The key of this host, created if missing. Raises VerbError if it cannot be created."""
        path = self._directory / OWN
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError, ValueError):
                return _key_in(path.read_text())
            self._keep(path, os.urandom(32).hex())
        raise VerbError("failed", f"{path} contains no key")

    def add(self, secret: object) -> Key:
        """Store a session key. Raises VerbError."""
        if not isinstance(secret, str) or re.fullmatch(r"[0-9a-f]{64}", secret) is None:
            raise VerbError("bad_argument", "key: must be 64 hexadecimal digits")
        key = _key_in(secret)
        self._keep(self._directory / key.id.hex(), secret)
        sessions = [path for path in self._directory.iterdir() if path.name != OWN and not path.name.startswith(".")]
        for path in sorted(sessions, key=_age)[KEPT:]:
            path.unlink(missing_ok=True)
        return key

    def find(self, key_id: bytes) -> Key | None:
        """Find a key by its id. For an unknown id the files are read again, but not for each datagram of a flood."""
        if key_id not in self._known and time.monotonic() - self._looked > LOOK_AGAIN:
            self._looked = time.monotonic()
            found = {}
            for path in self._directory.iterdir():
                with contextlib.suppress(OSError, ValueError):
                    key = _key_in(path.read_text())
                    found[key.id] = key
            self._known = found
        return self._known.get(key_id)

    def open(self, data: bytes, why_not: Counter[str]) -> tuple[Sealed, Key] | None:
        """Check a datagram against the known keys. Returns None and counts the reason if it is not valid."""
        datagram = parsed(data)
        if datagram is None:
            why_not["no datagram of ours"] += 1
            return None
        key = self.find(datagram.key_id)
        if key is None:
            why_not["unknown key"] += 1
            return None
        if not key.opens(datagram):
            why_not["wrong seal"] += 1
            return None
        return datagram, key

    def _keep(self, path: Path, secret: str) -> None:
        try:
            write_durably(path, secret)
            path.chmod(0o600)
        except OSError as trouble:
            raise VerbError("failed", f"the key of probes cannot be kept: {trouble}") from None


def _key_in(text: str) -> Key:
    secret = bytes.fromhex(text)
    if len(secret) != 32:
        raise ValueError("no key")
    return Key(secret)


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return -path.stat().st_mtime
    return 0.0
