"""`probe.throw`, `probe.caught`: sends trains of numbered datagrams, and reports what arrived.

`link_trains.py` defines a train and what is counted of it.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Any

from squall.nemesis.agent.core.arguments import number, required, text
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.probe.link_trains import MOST_CARS, car
from squall.nemesis.agent.probe.probes import Prober, family_of

SO_NO_CHECK = 11
LONGEST_SECONDS = 10.0
ANSWER_SECONDS = 5.0
"""The keeper reads earlier datagrams before the request."""


class TrainProbe:
    """The verbs `probe.throw` and `probe.caught`."""

    def __init__(self, prober: Prober, port: int) -> None:
        self._prober = prober
        self._port = port

    def throw(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Send a train to each target, all at the same time, one datagram each `gap_s`."""
        told = {"count": 200, "gap_s": 0.001, **arguments}
        targets = required(told, "targets", dict, "a mapping of names to addresses")
        count, gap = required(told, "count", int, "a whole number"), number(told, "gap_s")
        if not 0 < count <= MOST_CARS or not 0 <= gap * count <= LONGEST_SECONDS:
            raise VerbError(
                "bad_argument",
                f"count: {count}: a train has up to {MOST_CARS} datagrams and takes up to {LONGEST_SECONDS:g} s",
            )
        nonce, source = text(told, "nonce"), text(told, "source")
        began, refused, key = time.monotonic(), 0, self._prober.key()
        with contextlib.ExitStack() as stack:
            tracks = [self._track(stack, address) for address in targets.values()]
            for index in range(count):
                time.sleep(max(0.0, began + index * gap - time.monotonic()))
                datagram = car(key, nonce, source, index, count)
                for track in tracks:
                    try:
                        track.send(datagram)
                    except OSError:
                        refused += 1
        return {"thrown": count * len(targets), "refused": refused}

    def _track(self, stack: contextlib.ExitStack, address: str) -> socket.socket:
        one = stack.enter_context(socket.socket(family_of(address), socket.SOCK_DGRAM))
        if one.family == socket.AF_INET:
            one.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        with contextlib.suppress(OSError):  # no route: every datagram will be refused, which is reported
            one.connect((address, self._port))
        return one

    def caught(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What arrived of the trains with that nonce, by source. Waits for late datagrams until none has arrived for
        `quiet` seconds, but not longer than `timeout`.
        """
        told = {"quiet": 0.1, "timeout": 2.0, **arguments}
        nonce, quiet = text(told, "nonce"), number(told, "quiet")
        deadline = time.monotonic() + number(told, "timeout")
        caught = self._ask_keeper(nonce)
        while time.monotonic() < deadline:
            time.sleep(quiet)
            before, caught = caught, self._ask_keeper(nonce)
            if caught == before:
                break
        return {"caught": caught}

    def _ask_keeper(self, nonce: str) -> dict[str, Any]:
        return self._prober.ask_keeper("caught", nonce, ANSWER_SECONDS)
