"""Computes what a link does to packets: delay, loss, rate limit, damage.

Plain data and calculation; it touches no network. A `Shape` belongs to one fault: which peers, which direction, and
what happens. A `Link` is one direction between this host and one peer under all shapes that concern it: delays add up,
losses are independent, the lowest rate applies. The numbers mean the same as for the simulation's links, by packet
instead of by message.

No packet overtakes another on a link, as on a real one: packets behind one with a large jitter wait for it, so TCP sees
late packets and not a reordering that it would take for loss. A packet that must be out of order is held back alone,
and the others pass it. A narrow link has a buffer; what does not fit is lost.

Losses in bursts follow Gilbert and Elliott: a link is good or bad, and a bad one loses every packet. At each packet a
good link turns bad with the probability `enter`, and a bad one turns good with the probability `leave`. So a burst is
1/`leave` packets long, and `enter / (enter + leave)` of all packets are lost.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.network import EVERYONE, checked_sources

DIRECTIONS = ("both", "in", "out")
DISTRIBUTIONS = ("uniform", "normal", "pareto")
LONGEST_TAIL = 20.0
"""Limit of a heavy-tailed jitter, in multiples of the requested one: one packet must not block a link for ever."""
LONGEST_DELAY = 600.0
LEAST_BUFFER = 64 << 10
BUFFER_SECONDS = 1.0


@dataclass(frozen=True)
class Shape:
    """One fault: seconds of delay, jitter of about that much more, the share of packets lost, bytes per second; the
    probabilities that a burst of losses begins and ends; the shares of packets that are duplicated, damaged, or delayed
    by `late` seconds behind those sent after them.
    """

    id: str
    peers: tuple[str, ...]
    direction: str
    delay: float
    jitter: float
    loss: float
    rate: float | None
    distribution: str = "uniform"
    enter: float = 0.0
    leave: float = 1.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    reorder: float = 0.0
    late: float = 0.0

    @property
    def only_delays(self) -> bool:
        """Whether packets are only delayed."""
        return not (self.loss or self.rate or self.enter or self.duplicate or self.corrupt or self.reorder)

    @property
    def needs_content(self) -> bool:
        """Whether the whole packet is needed: to send it twice or to damage it."""
        return bool(self.duplicate or self.corrupt)

    def concerns(self, direction: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        if self.direction not in ("both", direction):
            return False
        return EVERYONE in self.peers or any(
            address in ipaddress.ip_network(peer) for peer in self.peers if peer != EVERYONE
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "peers": list(self.peers)}


def shape_from(told: dict[str, Any]) -> Shape:
    """The inverse of `Shape.as_json`."""
    return Shape(**{**told, "peers": tuple(told["peers"])})


def _amount(arguments: dict[str, Any], name: str, most: float) -> float:
    value = arguments.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise VerbError("bad_argument", f"{name}: {value!r} must be a number from 0 to {most:g}")
    return float(value)


def checked_shape(id: str, arguments: dict[str, Any]) -> Shape:
    """The arguments of the verb as a shape. Raises VerbError."""
    direction = arguments.get("direction", "both")
    if direction not in DIRECTIONS:
        raise VerbError("bad_argument", f"direction: {direction!r} must be one of {', '.join(DIRECTIONS)}")
    distribution = arguments.get("distribution", "uniform")
    if distribution not in DISTRIBUTIONS:
        raise VerbError("bad_argument", f"distribution: {distribution!r} must be one of {', '.join(DISTRIBUTIONS)}")
    rate = _amount(arguments, "rate", math.inf)
    shape = Shape(
        id=id,
        peers=tuple(_checked_peers(arguments.get("peers"))),
        direction=direction,
        delay=_amount(arguments, "delay_s", LONGEST_DELAY),
        jitter=_amount(arguments, "jitter_s", LONGEST_DELAY),
        loss=_amount(arguments, "loss", 1.0),
        rate=rate if 0 < rate < math.inf else None,
        distribution=distribution,
        enter=_amount(arguments, "enter", 1.0),
        leave=_amount({"leave": 1.0, **arguments}, "leave", 1.0),
        duplicate=_amount(arguments, "duplicate", 1.0),
        corrupt=_amount(arguments, "corrupt", 1.0),
        reorder=_amount(arguments, "reorder", 1.0),
        late=_amount(arguments, "late_s", LONGEST_DELAY),
    )
    _refuse_nonsense(shape)
    return shape


def _refuse_nonsense(shape: Shape) -> None:
    """Raise VerbError for a shape that has no effect or no end."""
    if shape.only_delays and not (shape.delay or shape.jitter):
        raise VerbError(
            "bad_argument",
            "none of delay_s, jitter_s, loss, rate, enter, duplicate, corrupt and reorder is given; give at least one",
        )
    if shape.reorder and not shape.late:
        raise VerbError("bad_argument", "late_s: must be more than 0 where packets are to be out of order")
    if shape.enter and not shape.leave:
        raise VerbError("bad_argument", "leave: must be more than 0, or the first burst of losses never ends")


def _checked_peers(peers: object) -> list[str]:
    try:
        return checked_sources(peers)
    except VerbError as trouble:
        raise VerbError(trouble.kind, trouble.error.replace("sources:", "peers:", 1)) from None


def jitter_of(distribution: str, width: float, rng: Random) -> float:
    """The random delay of a packet: half of `width` on average for every distribution.

    *uniform* lies between 0 and `width`; *normal* has a standard deviation of a quarter of it; *pareto* is mostly small
    and rarely very large.
    """
    if distribution == "normal":
        return max(0.0, rng.gauss(width / 2, width / 4))
    if distribution == "pareto":
        return min(LONGEST_TAIL, rng.paretovariate(2.0) - 1.0) * width / 2
    return rng.random() * width


def _either(chances: Sequence[float]) -> float:
    """The probability that at least one of several events happens."""
    return 1.0 - math.prod(1.0 - chance for chance in chances)


class Bursts:
    """Losses in bursts, of one shape on one link."""

    def __init__(self, shape: Shape, rng: Random) -> None:
        self._enter = shape.enter
        self._leave = shape.leave
        self._rng = rng
        self._bad = False

    def strikes(self) -> bool:
        """Whether the present packet is lost."""
        turns = self._rng.random() < (self._leave if self._bad else self._enter)
        self._bad ^= turns
        return self._bad


@dataclass(frozen=True)
class Passage:
    """When a packet is passed on, and what happens to it."""

    due: float
    twice: bool = False
    damaged: bool = False


class Link:
    """One direction of one link."""

    def __init__(self, shapes: Sequence[Shape], rng: Random) -> None:
        self._delay = sum(shape.delay for shape in shapes)
        self._jitters = [(shape.distribution, shape.jitter) for shape in shapes if shape.jitter]
        self._loss = _either([shape.loss for shape in shapes])
        self._bursts = [Bursts(shape, rng) for shape in shapes if shape.enter]
        self._rate = min((shape.rate for shape in shapes if shape.rate is not None), default=None)
        self._duplicate = _either([shape.duplicate for shape in shapes])
        self._corrupt = _either([shape.corrupt for shape in shapes])
        self._reorder = _either([shape.reorder for shape in shapes])
        self._late = max((shape.late for shape in shapes if shape.reorder), default=0.0)
        self._rng = rng
        self._free_at = 0.0
        self._last = 0.0

    def passage(self, now: float, size: int) -> Passage | None:
        """What happens to a packet of this size that arrives now; None if it is lost."""
        due = self.passes_at(now, size)
        if due is None:
            return None
        twice, damaged = self._happens(self._duplicate), self._happens(self._corrupt)
        if self._happens(self._reorder):
            due += self._late
        return Passage(due, twice, damaged)

    def passes_at(self, now: float, size: int) -> float | None:
        """When a packet of this size that arrives now is passed on in order; None if it is lost."""
        strikes = [one.strikes() for one in self._bursts]  # every burst process must see every packet
        if any(strikes) or self._happens(self._loss):
            return None
        through = now if self._rate is None else self._through(now, size, self._rate)
        if through is None:
            return None
        jitter = sum(jitter_of(distribution, width, self._rng) for distribution, width in self._jitters)
        self._last = max(self._last, through + self._delay + jitter)
        return self._last

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._rng.random() < chance

    def _through(self, now: float, size: int, rate: float) -> float | None:
        """When the rate limit lets the packet through; None if its buffer is full."""
        begins = max(now, self._free_at)
        waiting = (begins - now) * rate
        if waiting and waiting + size > max(LEAST_BUFFER, BUFFER_SECONDS * rate):
            return None
        self._free_at = begins + size / rate
        return self._free_at
