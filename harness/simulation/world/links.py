"""Model what links of the simulated network do to messages, naturally and by faults: plain data and sums over it.

`NetworkSpeed` is the network without faults. A `Shape` makes one direction of a link late, lossy or narrow. An
`RpcRule` selects the requests of one API from some sources to one server, or their responses, and holds them or cuts
their connection. Shapes and rules count their effects, so that a fault without any effect is visible.
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
"""The longest heavy-tailed jitter, in multiples of the configured jitter."""


@dataclass(frozen=True, slots=True)
class NetworkSpeed:
    """Latencies in microseconds, one way: `latency` and an exponential tail of mean `jitter`.

    A rare one is a `spike`, at least that long, with a heavy (Pareto) tail.
    """

    latency: int = 150
    jitter: int = 125
    spike: int = 3_000
    spike_probability: float = 0.001
    bytes_per_microsecond: int = 1_000
    user_timeout: int = 10_000 * MILLISECOND
    connect_timeout: int = 3_000 * MILLISECOND

    def draw(self, rng: Random) -> int:
        """Return how long one message takes."""
        drawn = rng.random()
        if drawn >= self.spike_probability:
            return self.latency + int(-self.jitter * log(1.0 - drawn))
        times = min(LONGEST_SPIKE, (self.spike_probability / (drawn + 1e-12)) ** 0.7)
        return self.latency + int(self.spike * times)


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a link.

    Microseconds of delay, jitter up to that much more, the share of segments that are lost and sent again, and bytes
    per second (None: as many as the link takes).
    """

    delay: int = 0
    jitter: int = 0
    loss: float = 0.0
    rate: int | None = None
    distribution: str = field(default="uniform", repr=False)
    """The distribution of the jitter. Not in the repr, which is folded into digests that are stored."""


def jitter_of(distribution: str, width: int, rng: Random) -> int:
    """Draw a message's jitter, as on hosts (nemesis/agent/link/link_shapes.py): half of `width` in the mean."""
    if distribution == "normal":
        return max(0, int(rng.gauss(width / 2, width / 4)))
    if distribution == "pareto":
        return int(min(LONGEST_TAIL, rng.paretovariate(2.0) - 1.0) * width / 2)
    return int(rng.random() * width)


class ShapedLink:
    """The sum of all shapes of one direction of a link, and how far its queue reaches."""

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
        """Remove a shape. Return whether it was there. A link without shapes behaves naturally."""
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
        """Return how much later a message of this size arrives because of the shapes."""
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
        """Return the time lost until every segment came through.

        The timeout doubles while the same message is lost again.
        """
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
        """Return whether a connection between these two may carry such messages."""
        return server == self.server and (self.sources is None or client in self.sources)

    @property
    def holds(self) -> bool:
        return self.messages is None

    def cuts_before(self) -> bool:
        """For a cut, as the next matching message arrives: return whether it is lost with its connection."""
        return self.messages == 0

    def cuts_after(self) -> bool:
        """For a cut, when a matching message has arrived: return whether its connection ends now."""
        self.passed += 1
        if self.messages and self.passed >= self.messages:
            self.passed = 0
            return True
        return False


def api_key_of(request: bytes) -> int:
    """Return the API key in a request's header."""
    return request[0] << 8 | request[1]


def correlation_of_request(request: bytes) -> bytes:
    return bytes(request[4:8])


def correlation_of_response(response: bytes) -> bytes:
    return bytes(response[:4])


def first_concerning(rules: Iterable[RpcRule], client: str, server: str, key: int, responses: bool) -> RpcRule | None:
    """Return the rule that applies to such a message. A rule that holds has precedence over a rule that cuts."""
    met = [one for one in rules if one.api_key == key and one.responses == responses and one.concerns(client, server)]
    return min(met, key=lambda rule: not rule.holds, default=None)
