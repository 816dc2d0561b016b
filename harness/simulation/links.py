"""What links of the simulated network do to messages, by nature and by faults: plain data and the sums over it.

`NetworkSpeed` is the network as it is. A `Shape` makes one direction of a link late, lossy or narrow. An `RpcRule`
picks out the requests of one API from some sources to one server, or the answers to them, to hold them or to cut their
connection. Both count what they did, so that a fault without any effect shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log
from random import Random

MILLISECOND = 1_000
LONGEST_SPIKE = 50
RETRANSMISSION_TIMEOUT = 200_000
LONGEST_RETRANSMISSION_TIMEOUT = 3_200_000
SEGMENT = 1_448
LONGEST_TAIL = 20.0
"""Of a heavy-tailed jitter, in multiples of what was asked for."""


@dataclass(frozen=True, slots=True)
class NetworkSpeed:
    """Latencies in microseconds, one way: `latency` and an exponential tail of mean `jitter`. A rare one is a `spike`,
    at least that long, with a heavy (Pareto) tail."""

    latency: int = 150
    jitter: int = 125
    spike: int = 3_000
    spike_probability: float = 0.001
    bytes_per_microsecond: int = 1_000
    user_timeout: int = 10_000 * MILLISECOND
    connect_timeout: int = 3_000 * MILLISECOND

    def draw(self, rng: Random) -> int:
        """How long one message takes."""
        drawn = rng.random()
        if drawn >= self.spike_probability:
            return self.latency + int(-self.jitter * log(1.0 - drawn))
        times = min(LONGEST_SPIKE, (self.spike_probability / (drawn + 1e-12)) ** 0.7)
        return self.latency + int(self.spike * times)


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a link: microseconds of delay, jitter up to that much more, the share of segments that are
    lost and sent again, and bytes per second (None: as many as the link takes)."""

    delay: int = 0
    jitter: int = 0
    loss: float = 0.0
    rate: int | None = None
    distribution: str = field(default="uniform", repr=False)
    """Of the jitter. Not printed: what is printed of a shape is folded into digests that are kept."""


def jitter_of(distribution: str, width: int, rng: Random) -> int:
    """What a message is late by chance, as on hosts (nemesis/agent/link_shapes.py): half of `width` in the mean."""
    if distribution == "normal":
        return max(0, int(rng.gauss(width / 2, width / 4)))
    if distribution == "pareto":
        return int(min(LONGEST_TAIL, rng.paretovariate(2.0) - 1.0) * width / 2)
    return int(rng.random() * width)


class ShapedLink:
    """All shapes of one direction of a link together, and how far its queue reaches."""

    __slots__ = ("_shapes", "delay", "free_at", "jitter", "loss", "messages", "rate", "retransmissions", "tails")

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self.free_at = 0
        self.messages = 0
        self.retransmissions = 0
        self._sum_up()

    def add(self, cause: str, shape: Shape) -> None:
        self._shapes[cause] = shape
        self._sum_up()

    def remove(self, cause: str) -> bool:
        """Whether it was there; an empty link is as nature made it."""
        found = self._shapes.pop(cause, None) is not None
        self._sum_up()
        return found

    @property
    def empty(self) -> bool:
        return not self._shapes

    def _sum_up(self) -> None:
        shapes = self._shapes.values()
        self.delay = sum(shape.delay for shape in shapes)
        self.jitter = sum(shape.jitter for shape in shapes if shape.distribution == "uniform")
        self.tails = [(shape.distribution, shape.jitter) for shape in shapes if shape.distribution != "uniform"]
        kept = 1.0
        for shape in shapes:
            kept *= 1.0 - shape.loss
        self.loss = 1.0 - kept
        self.rate = min((shape.rate for shape in shapes if shape.rate is not None), default=None)

    def passing(self, now: int, size: int, rng: Random) -> int:
        """How much later a message of this size arrives because of the shapes."""
        self.messages += 1
        extra = self.delay
        if self.jitter:
            extra += jitter_of("uniform", self.jitter, rng)
        for distribution, width in self.tails:
            extra += jitter_of(distribution, width, rng)
        if self.loss:
            extra += self._retransmitted(size, rng)
        if self.rate is not None:
            self.free_at = max(self.free_at, now) + size * 1_000_000 // self.rate
            extra += self.free_at - now
        return extra

    def _retransmitted(self, size: int, rng: Random) -> int:
        """Time lost until every segment came through: the timeout doubles while the same message is lost again."""
        lost = 1.0 - (1.0 - self.loss) ** (1 + size // SEGMENT)
        waited, timeout = 0, RETRANSMISSION_TIMEOUT
        while rng.random() < lost:
            waited += timeout
            timeout = min(2 * timeout, LONGEST_RETRANSMISSION_TIMEOUT)
            lost = self.loss
            self.retransmissions += 1
        return waited


@dataclass(slots=True, eq=False)
class RpcRule:
    """Messages of one API at one server. `messages` is None for a hold; for a cut, how many arrive before each cut."""

    server: str
    api_key: int
    responses: bool
    sources: frozenset[str] | None
    messages: int | None = None
    met: int = 0
    passed: int = 0

    def concerns(self, client: str, server: str) -> bool:
        """Whether a connection between these two may carry such messages."""
        return server == self.server and (self.sources is None or client in self.sources)

    @property
    def holds(self) -> bool:
        return self.messages is None

    def cuts_before(self) -> bool:
        """For a cut, as the next such message arrives: whether it is lost with its connection."""
        return self.messages == 0

    def cuts_after(self) -> bool:
        """For a cut, when such a message has arrived: whether its connection ends now."""
        self.passed += 1
        if self.messages and self.passed >= self.messages:
            self.passed = 0
            return True
        return False


def api_key_of(request: bytes) -> int:
    """The API key in a request's header."""
    return request[0] << 8 | request[1]


def correlation_of_request(request: bytes) -> bytes:
    return bytes(request[4:8])


def correlation_of_response(response: bytes) -> bytes:
    return bytes(response[:4])


def first_concerning(rules: Iterable[RpcRule], client: str, server: str, key: int, responses: bool) -> RpcRule | None:
    """The rule that such a message meets. One that holds goes before one that cuts."""
    met = [one for one in rules if one.api_key == key and one.responses == responses and one.concerns(client, server)]
    return min(met, key=lambda rule: not rule.holds, default=None)
