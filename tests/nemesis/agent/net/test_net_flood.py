"""A flood of datagrams, for real: two hosts joined by a virtual cable, one of which throws them at the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from squall.nemesis.agent.net.net_flood import received_and_sent
from tests.nemesis.agent.conftest import ADDRESSES

RATE = 4_000_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces, which needs root")
TABLE = """Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0
  eth0:    5000      10    0    0    0     0          0         0      700       7    0    0    0     0       0
"""


class Cable:
    """h1, which throws, and h2, which is thrown at."""

    def __init__(self, agents: dict[str, Any]) -> None:
        self.h1 = agents["h1"]
        self.h2 = agents["h2"]

    def flood(self, *, id: str = "f1", ttl: float = 60) -> None:
        self.h1.call("net.flood", id=id, ttl=ttl, address=ADDRESSES["h2"], rate=RATE)

    def arriving(self) -> float:
        """Bytes a second that come in at h2."""
        first = self.h2.call("probe.traffic", address=ADDRESSES["h2"])
        # The rate is measured over this time.
        time.sleep(0.5)
        second = self.h2.call("probe.traffic", address=ADDRESSES["h2"])
        return float(second["received"] - first["received"]) / float(second["at_s"] - first["at_s"])


@pytest.fixture
def cable(inside: dict[str, list[str]], start_agent: Callable[..., Any]) -> Iterator[Cable]:
    yield Cable({name: start_agent(address=ADDRESSES[name], name=name, prefix=inside[name]) for name in ADDRESSES})


@pytest.mark.lab
@needs_root
def test_a_flood_arrives_and_ends(cable: Cable, wait_until: Callable[..., float]) -> None:
    assert cable.arriving() < RATE / 10
    cable.flood()
    wait_until(lambda: RATE / 2 < cable.arriving() < RATE * 1.5, "the flood is there")
    cable.h1.call("heal", id="f1")
    assert cable.arriving() < RATE / 10


@pytest.mark.lab
@needs_root
def test_a_flood_ends_by_its_time_to_live(cable: Cable, wait_until: Callable[..., float]) -> None:
    cable.flood(ttl=1.0)
    cable.h1.kill()
    wait_until(lambda: cable.arriving() < RATE / 10, "the flood is over")


def test_traffic_is_read_by_interface() -> None:
    assert received_and_sent(TABLE, "eth0") == (5000, 700)


@pytest.mark.parametrize(
    ("how", "said"),
    [({"address": "b1", "rate": 5}, "not an IP address"), ({"address": "10.0.0.1", "rate": 0}, "rate: 0 must be")],
)
def test_nonsense_is_refused(agent: Any, refused: type[Exception], how: dict[str, Any], said: str) -> None:
    with pytest.raises(refused, match=said):
        agent.call("net.flood", id="f1", ttl=5, **how)
