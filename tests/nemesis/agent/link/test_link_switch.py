"""The links between racks: their rules by text, and what becomes of a packet; real racks are in tests/harness/hosts."""

from __future__ import annotations

import ipaddress

import pytest

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.link import link_switch
from squall.nemesis.agent.link.link_switch import Crossing, iptables_script, nft_script, ways_from
from squall.nemesis.agent.link.nfqueue import ACCEPT, DROP, Packet

ONE, OTHER = "10.77.1.0/24", "10.77.2.0/24"


def ways(**shape: object) -> list[link_switch.Way]:
    return ways_from([{"from": ONE, "to": OTHER, "shape": {"delay_s": 0.01, **shape}}])


def packet(number: int, source: str = "10.77.1.11", target: str = "10.77.2.12", length: int = 1500) -> Packet:
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(target).packed
    return Packet(number, 2, length, bytes(12) + addresses + bytes(44))


class FakeQueue:
    """Packets to be had, and the verdicts on them."""

    number = 7

    def __init__(self, *_: object, **__: object) -> None:
        self.verdicts: list[tuple[int, int]] = []

    def give(self, packet: Packet, verdict: int) -> None:
        self.verdicts.append((packet.id, verdict))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until it is set."""
    at = [100.0]
    monkeypatch.setattr(link_switch, "Queue", FakeQueue)
    monkeypatch.setattr(link_switch.time, "monotonic", lambda: at[0])
    return at


def test_rules_queue_one_direction_and_never_bypass() -> None:
    """Were they to bypass, racks would be near without anybody noticing when the emulator is dead."""
    for script in (nft_script(ways(), 11), iptables_script(ways(), 11)):
        (rule,) = [line for line in script.splitlines() if ONE in line]
        assert rule.index(ONE) < rule.index(OTHER) and "11" in rule
        assert "bypass" not in script


def test_a_packet_waits_its_time_and_goes_on(now: list[float]) -> None:
    crossing = Crossing(ways())
    crossing._take(packet(1))
    now[0] += 0.0099
    crossing._release(now[0])
    assert crossing.queue.verdicts == []
    now[0] += 0.0002
    crossing._release(now[0])
    assert crossing.queue.verdicts == [(1, ACCEPT)]


def test_what_no_way_concerns_goes_on_at_once(now: list[float]) -> None:
    crossing = Crossing(ways())
    crossing._take(packet(1, source="10.77.3.11"))
    crossing._take(packet(2, source="10.77.2.12", target="10.77.1.11"))
    crossing._release(now[0])
    assert crossing.queue.verdicts == [(1, ACCEPT), (2, ACCEPT)]


def test_what_is_lost_is_dropped(now: list[float]) -> None:
    crossing = Crossing(ways(loss=0.5))
    for number in range(1000):
        crossing._take(packet(number))
    lost = [verdict for _, verdict in crossing.queue.verdicts if verdict == DROP]
    assert 400 < len(lost) < 600


def test_all_hosts_of_two_racks_share_the_bandwidth(now: list[float]) -> None:
    crossing = Crossing(ways(delay_s=0, rate=150_000))
    for number in range(20):
        crossing._take(packet(number, source=f"10.77.1.{11 + number % 4}"))
    now[0] += 0.1005
    crossing._release(now[0])
    assert len(crossing.queue.verdicts) == 10


def test_packets_stay_in_order_however_much_jitter_they_draw(now: list[float]) -> None:
    crossing = Crossing(ways(jitter_s=0.5))
    for number in range(100):
        crossing._take(packet(number, source=f"10.77.1.{11 + number % 4}"))
    now[0] += 1
    crossing._release(now[0])
    assert [number for number, _ in crossing.queue.verdicts] == list(range(100))


def test_a_way_that_does_nothing_is_refused() -> None:
    with pytest.raises(VerbError, match="give at least one"):
        ways_from([{"from": ONE, "to": OTHER, "shape": {"delay_s": 0}}])
