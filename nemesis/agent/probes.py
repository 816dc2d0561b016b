"""Who hears whom: datagrams between hosts, as evidence that owes nothing to the verbs that made the fault.

The keeper of every host listens on a UDP port. `send` throws a few datagrams with a nonce at each target and
`heard` asks the own keeper which senders' datagrams with that nonce arrived: together they measure **each
direction by itself**, which an echo cannot. `reach` is the echo: both directions at once.

Messages are JSON: {"from", "nonce"} to be heard; {"echo"} to be answered; {"heard"} and {"caught"} asked over loopback
only. Trains of datagrams (`link_trains.py`) are counted here too.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from link_trains import Trains
from nfqueue import ask_for_room
from trouble import Trouble

COPIES = 3
COPY_GAP = 0.005
ECHO_AGAIN = 0.05
KEPT_NONCES = 512
LARGEST = 2048


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Ear:
    """The keeper's socket: remembers who was heard, answers echoes and questions."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.socket(family_of(address), socket.SOCK_DGRAM)
        if family_of(address) == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        ask_for_room(self.socket)  # trains come faster than a busy host reads: loss here would look like a link
        self.socket.bind((address, port))
        self.socket.setblocking(False)
        self._heard: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._trains = Trains()

    def close(self) -> None:
        self.socket.close()

    def listen(self, timeout: float) -> None:
        """Serves what comes within `timeout`."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                return
            with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
                data, sender = self.socket.recvfrom(LARGEST)
                if self._trains.take(data):
                    continue
                answer = self.answer(json.loads(data))
                if answer is not None:
                    self.socket.sendto(json.dumps(answer).encode(), sender)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a datagram is answered with; None for one that only wants to be heard."""
        if "echo" in message:
            return {"echo": message["echo"]}
        if "heard" in message:
            return {"heard": self._heard.get(message["heard"], {}), "nonce": message["heard"]}
        if "caught" in message:
            return {"caught": self._trains.told(str(message["caught"]))}
        counts = self._heard.setdefault(str(message["nonce"]), {})
        sender = str(message["from"])
        counts[sender] = counts.get(sender, 0) + 1
        while len(self._heard) > KEPT_NONCES:
            self._heard.popitem(last=False)
        return None


class Prober:
    """The agent's side."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port

    def _own_keeper(self) -> tuple[str, int]:
        anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        return anywhere.get(self._address, self._address), self._port

    def send(self, targets: Mapping[str, str], nonce: str, source: str) -> dict[str, Any]:
        """Datagrams to every target; an address our own host refuses to send to is told, not raised."""
        datagram = json.dumps({"from": source, "nonce": nonce}).encode()
        refused: dict[str, str] = {}
        for copy in range(COPIES):
            if copy:
                time.sleep(COPY_GAP)
            for name, address in targets.items():
                try:
                    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sender:
                        sender.sendto(datagram, (address, self._port))
                except OSError as trouble:
                    refused[name] = str(trouble)
        return {"sent": COPIES * len(targets), "refused": refused}

    def heard(self, nonce: str, timeout: float, expect: list[str]) -> dict[str, int]:
        """Who was heard; waits until all of `expect` were, but not longer than `timeout`."""
        deadline = time.monotonic() + timeout
        while True:
            counts = self._ask_keeper(nonce)
            if time.monotonic() >= deadline or (expect and all(name in counts for name in expect)):
                return counts
            time.sleep(min(0.02, max(0.0, deadline - time.monotonic())))

    def _ask_keeper(self, nonce: str) -> dict[str, int]:
        with socket.socket(family_of(self._address), socket.SOCK_DGRAM) as asker:
            asker.settimeout(1.0)
            asker.connect(self._own_keeper())
            try:
                asker.send(json.dumps({"heard": nonce}).encode())
                counts: dict[str, int] = json.loads(asker.recv(LARGEST * 32))["heard"]
            except OSError as trouble:
                raise Trouble(
                    "failed", f"nobody listens for probes on UDP port {self._port} of this host: {trouble}"
                ) from None
            return counts

    def reach(self, targets: Mapping[str, str], timeout: float) -> dict[str, bool]:
        """Whose echo comes back within `timeout`; asks again in between, since datagrams get lost."""
        reached = dict.fromkeys(targets, False)
        deadline = time.monotonic() + timeout
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
                        one.send(json.dumps({"echo": sockets[one]}).encode())
                for one in select.select(list(sockets), [], [], min(left, ECHO_AGAIN))[0]:
                    with contextlib.suppress(OSError):
                        one.recv(LARGEST)
                        reached[sockets.pop(one)] = True
        return reached


def knock(targets: Mapping[str, str], timeout: float) -> dict[str, str]:
    """For each `address:port`: `open`, `refused`, or `silent` when nothing came back within `timeout`."""
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
