"""`probe.latency`: round trips of datagrams to other hosts' keepers, with a given number of bytes.

The keepers echo what they receive, so only the network and two running processes take part. A round trip carries the
bytes each way, in as many datagrams as needed; it lasts from the first one sent to the last one received back. A
datagram that does not return is sent again after a timeout that doubles, as in TCP, and the waiting counts: loss shows
as time.

Of several round trips it reports the *median*, so that a process that was briefly busy does not look like latency; or
the *worst*, to see whether anything gets lost. A round trip that is not over when the time is up counts with its time
so far; a target from which no datagram came back has no round trip. All targets are measured at the same time.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import select
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from squall.nemesis.agent.core.arguments import number, required
from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.probe.probe_auth import ECHO, HEADER, LARGEST, Key
from squall.nemesis.agent.probe.probes import Prober, family_of, reply_in

DATAGRAM = 1200
OVERHEAD = HEADER + 12
"""Bytes of a datagram besides its padding."""
AT_ONCE = 32
BETWEEN_ROUNDS = 0.005
FIRST_TIMEOUT = 0.2
TIMEOUT_OF_MANY = 1.0
"""For a round trip of several datagrams: on a narrow link they queue up, and nothing is lost yet."""

LONGEST_TIMEOUT = 3.2
MOST_BYTES = 64 << 20
MOST_ROUNDS = 1000
STATISTICS = ("median", "worst")

Name = tuple[int, int]
"""Identifies a datagram: which round trip, which part of it."""


@dataclass
class _Trips:
    """All round trips with one target."""

    socket: socket.socket
    key: Key
    parts: int
    padding: int
    unsent: list[tuple[float, Name]]
    timeouts: list[tuple[float, float, Name]] = field(default_factory=list)
    begun: dict[int, float] = field(default_factory=dict)
    missing: dict[int, set[int]] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    waiting: int = 0
    answered: bool = False

    def done(self) -> bool:
        return not self.unsent and not self.missing

    def next_event(self) -> float:
        """When the next datagram must be sent."""
        due = [self.timeouts[0][0]] if self.timeouts else []
        if self.unsent and self.waiting < AT_ONCE:
            due.append(self.unsent[0][0])
        return min(due, default=float("inf"))

    def send_due(self, now: float) -> None:
        while self.unsent and self.waiting < AT_ONCE and self.unsent[0][0] <= now:
            _, (trip, part) = heapq.heappop(self.unsent)
            self.begun.setdefault(trip, now)
            self.missing.setdefault(trip, set(range(self.parts)))
            self.waiting += 1
            self._send((trip, part), now, FIRST_TIMEOUT if self.parts == 1 else TIMEOUT_OF_MANY)
        while self.timeouts and self.timeouts[0][0] <= now:
            _, timeout, (trip, part) = heapq.heappop(self.timeouts)
            if part in self.missing.get(trip, ()):
                self._send((trip, part), now, min(2 * timeout, LONGEST_TIMEOUT))

    def _send(self, name: Name, now: float, timeout: float) -> None:
        with contextlib.suppress(OSError):  # refused or full: it will be sent again
            self.socket.send(self.key.seal(ECHO, json.dumps([*name, "x" * self.padding]).encode()))
        heapq.heappush(self.timeouts, (now + timeout, timeout, name))

    def told(self, now: float, statistic: str) -> float | None:
        """The statistic over finished and unfinished round trips."""
        if not self.answered:
            return None
        seconds = [*self.ended.values(), *(now - self.begun[trip] for trip in self.missing)]
        return max(seconds) if statistic == "worst" else statistics.median(seconds)

    def take(self) -> None:
        """Receive all echoes that have arrived."""
        with contextlib.suppress(OSError):
            while True:
                body = reply_in(self.key, self.socket.recv(LARGEST))
                if body is None:
                    continue
                trip, part, _ = json.loads(body)
                self.answered = True
                if part in self.missing.get(trip, ()):
                    self.waiting -= 1
                    self.missing[trip].remove(part)
                    if not self.missing[trip]:
                        self.ended[trip] = time.monotonic() - self.begun[trip]
                        del self.missing[trip]


class LatencyProbe:
    """The verb."""

    def __init__(self, prober: Prober, port: int) -> None:
        self._prober = prober
        self._port = port

    def answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        targets = required(arguments, "targets", dict, "a mapping of names to addresses")
        told = {"size": 64, "rounds": 5, "timeout": 5.0, "statistic": "median", **arguments}
        for name, most in (("size", MOST_BYTES), ("rounds", MOST_ROUNDS)):
            if not 0 < required(told, name, int, "a whole number") <= most:
                raise VerbError("bad_argument", f"{name}: {told[name]} must be from 1 to {most}")
        if told["statistic"] not in STATISTICS:
            raise VerbError("bad_argument", f"statistic: {told['statistic']!r} must be one of {', '.join(STATISTICS)}")
        return dict(
            round_trips(
                targets,
                self._port,
                self._prober.key(),
                size=told["size"],
                rounds=told["rounds"],
                statistic=told["statistic"],
                timeout=number(told, "timeout"),
            )
        )


def round_trips(
    targets: Mapping[str, str], port: int, key: Key, *, size: int, rounds: int, statistic: str, timeout: float
) -> dict[str, float | None]:
    """Seconds by name. Many bytes make only one round trip, for any `rounds`: several would share the link."""
    rounds = rounds if size <= DATAGRAM else 1
    with contextlib.ExitStack() as stack:
        trips = {name: _begin(stack, address, port, key, size, rounds) for name, address in targets.items()}
        _exchange(list(trips.values()), time.monotonic() + timeout)
        return {name: one.told(time.monotonic(), statistic) for name, one in trips.items()}


def _begin(stack: contextlib.ExitStack, address: str, port: int, key: Key, size: int, rounds: int) -> _Trips:
    one = stack.enter_context(socket.socket(family_of(address), socket.SOCK_DGRAM))
    one.setblocking(False)
    with contextlib.suppress(OSError):  # no route: no echo will return, which is the result
        one.connect((address, port))
    parts = -(-size // DATAGRAM)
    now = time.monotonic()
    names = itertools.product(range(rounds), range(parts))
    unsent = [(now + trip * BETWEEN_ROUNDS, (trip, part)) for trip, part in names]
    return _Trips(one, key, parts, max(1, min(size, DATAGRAM) - OVERHEAD), unsent)


def _exchange(trips: Sequence[_Trips], deadline: float) -> None:
    while open_trips := [one for one in trips if not one.done()]:
        now = time.monotonic()
        if now >= deadline:
            return
        for one in open_trips:
            one.send_due(now)
        until = min(deadline, *(one.next_event() for one in open_trips))
        by_socket = {one.socket: one for one in open_trips}
        for ready in select.select(list(by_socket), [], [], max(0.0, until - time.monotonic()))[0]:
            by_socket[ready].take()
