"""Request times and idleness of a plane: ring buffers of the last measurements, and sums since the start.

Kafka keeps a reservoir of about a thousand samples of each time and reports its quantiles. Here the last `KEPT` of each
API are kept unsorted: adding one is a store into a list, and only a reader pays for quantiles.

    received ─ queue ─▶ handler begins ─ local ─▶ handler returns ─ remote ─▶ answered        total = all of it

*Queue* is the time in the request channel, *local* that of the handler, *remote* the time that a parked request waits
for others: followers that fetch, a majority that commits.

Not hdrhistogram: quantiles of the last samples are exact, as Kafka's are, and a node needs no package for them.

The times come from a stopwatch of the host (`ports.Stopwatch`), or from `now` where the host has none; then a handler
takes no time. They are for reports and decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from squall.nodes.node.channels import Inbound
from squall.nodes.ports import Stopwatch
from squall.nodes.protocol.messages import ApiKey

KEPT = 1024
"""Samples kept of each API; a power of two."""
_MASK = KEPT - 1
IDLE_WINDOW = 60_000_000
"""Idleness covers about the last minute, as Kafka's one-minute rates do."""


class Recent:
    """The last `KEPT` values of one time, in microseconds, with their number and sum since the start."""

    __slots__ = ("_ring", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._ring = [0] * KEPT

    def add(self, value: int) -> None:
        self._ring[self.count & _MASK] = value
        self.count += 1
        self.total += value

    def values(self) -> list[int]:
        """The kept values, in ascending order."""
        return sorted(self._ring[: self.count])


def quantile(ascending: Sequence[int], of: float) -> float:
    """The smallest value that at least this share of the values does not exceed; NaN if there are none."""
    if not ascending:
        return float("nan")
    return ascending[max(0, -int(-of * len(ascending) // 1) - 1)]


class ApiTimes:
    """The times of one API: queue, local, remote and total of its last requests, and the sums of all."""

    __slots__ = ("_ring", "count", "local", "queue", "remote", "total")

    def __init__(self) -> None:
        self.count = 0
        self.queue = self.local = self.remote = self.total = 0
        self._ring = [(0, 0, 0, 0)] * KEPT

    def add(self, queue: int, local: int, remote: int, total: int) -> None:
        self._ring[self.count & _MASK] = (queue, local, remote, total)
        self.count += 1
        self.queue += queue
        self.local += local
        self.remote += remote
        self.total += total

    def values(self) -> tuple[list[int], ...]:
        """The kept queue, local, remote and total times, each in ascending order."""
        kept = self._ring[: self.count]
        return tuple(sorted(one[place] for one in kept) for place in range(4))


class PlaneTimes:
    """The requests of one plane: times by API key, and the total working time of its handlers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.busy = 0
        self.by_api: dict[int, ApiTimes] = {}

    def served(self, inbound: Inbound, began: int, ended: int) -> None:
        """Record that a handler has returned; the request is answered, or parked."""
        self.busy += ended - began
        inbound.began_at = began
        inbound.handled_at = ended
        if inbound.answered:
            self.answered(inbound, ended)

    def answered(self, inbound: Inbound, at: int) -> None:
        """Record that a handled request was answered."""
        assert inbound.request is not None
        api = self.by_api.get(inbound.request.api_key)
        if api is None:
            api = self.by_api[inbound.request.api_key] = ApiTimes()
        received, began, handled = inbound.received_at, inbound.began_at, inbound.handled_at
        api.add(began - received, handled - began, at - handled, at - received)


class TurnClock:
    """The host's stopwatch, or the time of the turn where there is none."""

    def __init__(self, stopwatch: Stopwatch | None) -> None:
        self.turn = 0
        self.read: Stopwatch = stopwatch if stopwatch is not None else self._turn

    def _turn(self) -> int:
        return self.turn


class IdleMeter:
    """The idle share of about the last minute, from readings of a counter of busy microseconds.

    It is read on request, and compared with the oldest reading of that minute; at first with the start.
    """

    def __init__(self, now: int, busy: int) -> None:
        self._readings = [(now, busy)]

    def read(self, now: int, busy: int) -> float:
        readings = self._readings
        while len(readings) > 1 and readings[1][0] <= now - IDLE_WINDOW:
            del readings[0]
        since, busy_then = readings[0]
        share = 1 - (busy - busy_then) / (now - since) if now > since else 1.0
        if now > readings[-1][0] + IDLE_WINDOW // 60:
            readings.append((now, busy))
        return min(1.0, max(0.0, share))


def api_name(api_key: int) -> str:
    """An API's name in Kafka's metrics: BrokerHeartbeat, Produce."""
    return "".join(part.capitalize() for part in ApiKey(api_key).name.split("_"))
