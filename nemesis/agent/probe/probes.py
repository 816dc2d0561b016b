"""Measures by datagrams which hosts reach which, independently of the verbs that inject faults.

The keeper of every host listens on a UDP port. `send` sends a few datagrams with a nonce to each target, and `heard`
asks the host's own keeper which senders' datagrams with that nonce arrived: together they measure **each direction
separately**, which an echo cannot. `reach` is the echo: both directions at once.

Every datagram is sealed (`probe_auth.py`); an unsealed one, or one with wrong content, is counted and ignored. Kinds:
`HEARD` with [nonce, sender, number]; `ECHO`, answered by `REPLY` with the same body; `QUESTION`, which asks what
arrived for a nonce and is answered to the host's own key only. Trains of datagrams (`link_trains.py`) are counted here
too. Memory is bounded: a maximum number of nonces, and of senders for each.
"""

from __future__ import annotations

import contextlib
import errno
import json
import select
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

from squall.nemesis.agent.core.socket_room import ask_for_room
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.probe.link_trains import Trains
from squall.nemesis.agent.probe.probe_auth import (
    ANSWER,
    ECHO,
    HEARD,
    LARGEST,
    QUESTION,
    REPLY,
    TRAIN,
    Key,
    ProbeKeys,
    Sealed,
    parsed,
)

COPIES = 3
COPY_GAP = 0.005
ECHO_AGAIN = 0.05
KEPT_NONCES = 512
MOST_SENDERS = 256
LONGEST_NAME = 200
LARGEST_ANSWER = 1 << 16
ANYWHERE = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
ASK_SECONDS = 1.0


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def is_local(address: str) -> bool:
    """Whether only this host can send to this address."""
    return address.startswith("127.") or address == "::1"


class UdpResponder:
    """The keeper's sockets: records received datagrams, answers echoes and requests.

    One socket is bound to the host's own address, where that is known and the host has it (behind a NAT router it has
    not), else to all addresses. One is bound to loopback for requests, which must be answered even while the interface
    is down.
    """

    def __init__(self, address: str, port: int, keys: ProbeKeys) -> None:
        self._keys = keys
        self._own = keys.own().id
        self.sockets = [bound_or_anywhere(address, port)]
        self.ignored: Counter[str] = Counter()
        self._heard: OrderedDict[str, dict[str, set[int]]] = OrderedDict()
        self._trains = Trains()
        name = self.sockets[0].getsockname()[0]
        family = family_of(address)
        if name != ANYWHERE[family] and not is_local(name):
            with contextlib.suppress(OSError):  # another keeper has the port: requests come to the host's address
                self.sockets.append(bound(LOOPBACK[family], port))

    def address(self) -> tuple[str, int]:
        """The address at which other hosts' datagrams arrive."""
        name = self.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def close(self) -> None:
        for one in self.sockets:
            one.close()

    def listen(self, timeout: float) -> None:
        """Serve the datagrams that arrive within `timeout`."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            ready = select.select(self.sockets, [], [], left)[0]
            if not ready:
                return
            for one in ready:
                self._serve(one)

    def _serve(self, one: socket.socket) -> None:
        try:
            data, sender = one.recvfrom(LARGEST)
            answer = self.answer(data)
            if answer is not None:
                one.sendto(answer, sender)
        except OSError:
            self.ignored["not received or not answered"] += 1
        except Exception:  # no datagram may end the listening
            self.ignored["wrong content"] += 1

    def answer(self, data: bytes) -> bytes | None:
        """The response to a datagram; None for a datagram that is only recorded, and for an invalid one."""
        opened = self._keys.open(data, self.ignored)
        if opened is None:
            return None
        datagram, key = opened
        if datagram.kind == ECHO and not datagram.unsealed:
            return key.seal(REPLY, datagram.body)
        if datagram.kind == TRAIN:
            self._trains.take(datagram.body, datagram.unsealed)
        elif datagram.kind == HEARD:
            self._hear(datagram.body)
        elif datagram.kind == QUESTION and key.id == self._own:
            what, nonce = json.loads(datagram.body)
            told = self.heard(nonce) if what == "heard" else self._trains.told(nonce)
            return key.seal(ANSWER, json.dumps([nonce, told]).encode())
        else:
            self.ignored["wrong kind"] += 1
        return None

    def heard(self, nonce: str) -> dict[str, int]:
        """How many datagrams with this nonce came from each sender; a copy counts once."""
        return {sender: len(numbers) for sender, numbers in self._heard.get(nonce, {}).items()}

    def _hear(self, body: bytes) -> None:
        nonce, sender, number = json.loads(body)
        if not _is_name(nonce) or not _is_name(sender) or not isinstance(number, int) or not 0 <= number < COPIES:
            raise ValueError("not what is heard")
        senders = self._heard.setdefault(nonce, {})
        if sender in senders or len(senders) < MOST_SENDERS:
            senders.setdefault(sender, set()).add(number)
        while len(self._heard) > KEPT_NONCES:
            self._heard.popitem(last=False)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME


def bound(address: str, port: int) -> socket.socket:
    """A socket that receives what is sent to this address. Raises OSError."""
    one = socket.socket(family_of(address), socket.SOCK_DGRAM)
    try:
        if one.family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        ask_for_room(one)  # trains arrive faster than a busy host reads: loss here would look like loss on the link
        one.bind((address, port))
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def bound_or_anywhere(address: str, port: int) -> socket.socket:
    """A socket bound to all addresses if the host does not have this one. Raises OSError."""
    try:
        return bound(address, port)
    except OSError as trouble:
        if trouble.errno != errno.EADDRNOTAVAIL:
            raise
        return bound(ANYWHERE[family_of(address)], port)


class Prober:
    """The agent's side. The key is the session's, once the control process has sent it; until then the host's own."""

    def __init__(self, address: str, port: int, keys: ProbeKeys) -> None:
        self._address = address
        self._port = port
        self._keys = keys
        self._session: Key | None = None

    def use(self, secret: object) -> dict[str, Any]:
        """`probe.key`: seal datagrams to and from other hosts with this key from now on. Raises VerbError."""
        self._session = self._keys.add(secret)
        return {"key": self._session.id.hex()}

    def key(self) -> Key:
        """The key that seals datagrams to other hosts."""
        return self._session or self._keys.own()

    def send(self, targets: Mapping[str, str], nonce: str, source: str) -> dict[str, Any]:
        """Send datagrams to every target. An address to which this host refuses to send is returned, not raised."""
        refused: dict[str, str] = {}
        for copy in range(COPIES):
            if copy:
                time.sleep(COPY_GAP)
            datagram = self.key().seal(HEARD, json.dumps([nonce, source, copy]).encode())
            for name, address in targets.items():
                try:
                    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sender:
                        sender.sendto(datagram, (address, self._port))
                except OSError as trouble:
                    refused[name] = str(trouble)
        return {"sent": COPIES * len(targets), "refused": refused}

    def heard(self, nonce: str, timeout: float, expect: list[str]) -> dict[str, int]:
        """The senders whose datagrams arrived. Waits for all of `expect`, but not longer than `timeout`."""
        deadline = time.monotonic() + timeout
        while True:
            counts: dict[str, int] = self.ask_keeper("heard", nonce, ASK_SECONDS)
            if time.monotonic() >= deadline or (expect and all(name in counts for name in expect)):
                return counts
            time.sleep(min(0.02, max(0.0, deadline - time.monotonic())))

    def ask_keeper(self, what: str, nonce: str, seconds: float) -> dict[str, Any]:
        """Ask the keeper of this host what it has `heard` or `caught` for a nonce. Raises VerbError."""
        own = self._keys.own()
        trouble: object = "no answer"
        for address in self._own_addresses():
            with socket.socket(family_of(address), socket.SOCK_DGRAM) as asker:
                try:
                    asker.settimeout(seconds)
                    asker.connect((address, self._port))
                    asker.send(own.seal(QUESTION, json.dumps([what, nonce]).encode()))
                    return _told(own, asker, nonce)
                except (OSError, ValueError) as refused:
                    trouble = refused
        raise VerbError("failed", f"UDP port {self._port} of this host cannot be opened for probes: {trouble}")

    def _own_addresses(self) -> list[str]:
        """The addresses at which to ask this host's keeper, in order."""
        family = family_of(self._address)
        if self._address == ANYWHERE[family]:
            return [LOOPBACK[family]]
        return [self._address] if is_local(self._address) else [LOOPBACK[family], self._address]

    def reach(self, targets: Mapping[str, str], timeout: float) -> dict[str, bool]:
        """Which targets' echoes return within `timeout`. Retries meanwhile, since datagrams get lost."""
        reached = dict.fromkeys(targets, False)
        deadline = time.monotonic() + timeout
        key = self.key()
        with contextlib.ExitStack() as stack:
            sockets = {}
            for name, address in targets.items():
                one = stack.enter_context(socket.socket(family_of(address), socket.SOCK_DGRAM))
                one.setblocking(False)
                one.connect((address, self._port))
                sockets[one] = name
            while sockets and (left := deadline - time.monotonic()) > 0:
                for one in sockets:
                    with contextlib.suppress(OSError):
                        one.send(key.seal(ECHO, json.dumps(sockets[one]).encode()))
                for one in select.select(list(sockets), [], [], min(left, ECHO_AGAIN))[0]:
                    with contextlib.suppress(OSError):
                        if reply_in(key, one.recv(LARGEST)) is not None:
                            reached[sockets.pop(one)] = True
        return reached


def reply_in(key: Key, data: bytes) -> bytes | None:
    """The body of a valid reply; None for anything else."""
    datagram = parsed(data)
    return datagram.body if datagram and _is(datagram, REPLY, key) else None


def _told(key: Key, asker: socket.socket, nonce: str) -> dict[str, Any]:
    """Receive the keeper's response. Skips invalid ones and late responses to other requests. Raises OSError."""
    while True:
        datagram = parsed(asker.recv(LARGEST_ANSWER))
        if datagram and _is(datagram, ANSWER, key):
            about, told = json.loads(datagram.body)
            if about == nonce:
                return dict(told)


def _is(datagram: Sealed, kind: bytes, key: Key) -> bool:
    return datagram.kind == kind and datagram.key_id == key.id and key.opens(datagram)


def knock(targets: Mapping[str, str], timeout: float) -> dict[str, str]:
    """For each `address:port`: `open`, `refused`, or `silent` if no response came within `timeout`."""
    found: dict[str, str] = {}
    waiting: dict[socket.socket, str] = {}
    deadline = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        for name, target in targets.items():
            address, _, port = target.rpartition(":")
            one = stack.enter_context(socket.socket(family_of(address.strip("[]")), socket.SOCK_STREAM))
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                try:
                    one.connect((address.strip("[]"), int(port)))
                except ConnectionRefusedError:
                    found[name] = "refused"
                    continue
            waiting[one] = name
        while waiting and (left := deadline - time.monotonic()) > 0:
            for one in select.select([], list(waiting), [], left)[1]:
                error = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                found[waiting.pop(one)] = "open" if error == 0 else "refused"
    return {name: found.get(name, "silent") for name in targets}
