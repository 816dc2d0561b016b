"""What a link does to packets: late, lost, narrow. Plain data and the sums over it; nothing here touches a network.

A `Shape` is one fault's: which peers, which direction, and what happens. A `Link` is one direction between this host
and one peer under all shapes that concern it: delays add up, losses are independent, the narrowest rate rules. The
numbers mean what they mean to the simulation's links, packet by packet instead of message by message.

Nothing overtakes on a link, as on a real one: whoever comes behind a packet that drew much jitter waits for it, so TCP
sees late packets and not a disorder that it would take for loss. A narrow link has a buffer; what does not fit is lost.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from network import EVERYONE, checked_sources
from trouble import Trouble

DIRECTIONS = ("both", "in", "out")
LONGEST_DELAY = 600.0
LEAST_BUFFER = 64 << 10
BUFFER_SECONDS = 1.0


@dataclass(frozen=True)
class Shape:
    """One fault: seconds of delay, jitter up to that much more, the share of packets lost, bytes per second."""

    id: str
    peers: tuple[str, ...]
    direction: str
    delay: float
    jitter: float
    loss: float
    rate: float | None

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
        raise Trouble("bad_argument", f"{name}: {value!r} must be a number from 0 to {most:g}")
    return float(value)


def checked_shape(id: str, arguments: dict[str, Any]) -> Shape:
    """The arguments of the verb as a shape. Raises Trouble."""
    direction = arguments.get("direction", "both")
    if direction not in DIRECTIONS:
        raise Trouble("bad_argument", f"direction: {direction!r} must be one of {', '.join(DIRECTIONS)}")
    rate = _amount(arguments, "rate", math.inf)
    shape = Shape(
        id=id,
        peers=tuple(_checked_peers(arguments.get("peers"))),
        direction=direction,
        delay=_amount(arguments, "delay_s", LONGEST_DELAY),
        jitter=_amount(arguments, "jitter_s", LONGEST_DELAY),
        loss=_amount(arguments, "loss", 1.0),
        rate=rate if 0 < rate < math.inf else None,
    )
    if not (shape.delay or shape.jitter or shape.loss or shape.rate):
        raise Trouble("bad_argument", "none of delay_s, jitter_s, loss and rate is given: the link stays as it is")
    return shape


def _checked_peers(peers: object) -> list[str]:
    try:
        return checked_sources(peers)
    except Trouble as trouble:
        raise Trouble(trouble.kind, trouble.error.replace("sources:", "peers:", 1)) from None


class Link:
    """One direction of one link."""

    def __init__(self, shapes: Sequence[Shape], rng: Random) -> None:
        self._delay = sum(shape.delay for shape in shapes)
        self._jitter = sum(shape.jitter for shape in shapes)
        self._loss = 1.0 - math.prod(1.0 - shape.loss for shape in shapes)
        self._rate = min((shape.rate for shape in shapes if shape.rate is not None), default=None)
        self._rng = rng
        self._free_at = 0.0
        self._last = 0.0

    def passes_at(self, now: float, size: int) -> float | None:
        """When a packet of this size that comes now goes on; None if it is lost."""
        if self._loss and self._rng.random() < self._loss:
            return None
        through = now if self._rate is None else self._through(now, size, self._rate)
        if through is None:
            return None
        self._last = max(self._last, through + self._delay + self._rng.random() * self._jitter)
        return self._last

    def _through(self, now: float, size: int, rate: float) -> float | None:
        """When the narrow place lets it through; None if its buffer is full."""
        begins = max(now, self._free_at)
        waiting = (begins - now) * rate
        if waiting and waiting + size > max(LEAST_BUFFER, BUFFER_SECONDS * rate):
            return None
        self._free_at = begins + size / rate
        return self._free_at
