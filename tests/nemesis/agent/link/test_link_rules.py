"""Which packets are queued, by the text of the rules; that a kernel takes them is seen in `test_link_shaping.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from squall.nemesis.agent.link.link_rules import MARK, Numbers, iptables_script, nft_script
from squall.nemesis.agent.link.link_shapes import Shape, checked_shape

NUMBERS = Numbers(inward=11, outward=12)
Script = Callable[..., str]


def shapes(**told: Any) -> list[Shape]:
    return [checked_shape("f1", {"delay_s": 1, **told})]


def iptables(shapes: list[Shape]) -> str:
    return iptables_script(shapes, NUMBERS, 2222, "ip")


def nft(shapes: list[Shape]) -> str:
    return nft_script(shapes, NUMBERS, 2222, 3.5)


def queueing(text: str) -> list[str]:
    return [line for line in text.splitlines() if "queue" in line.lower()]


@pytest.mark.parametrize("script", [iptables, nft])
class TestBoth:
    def test_exemptions_stand_before_what_is_queued(self, script: Script) -> None:
        lines = script(shapes(peers=["*"])).splitlines()
        queued = [number for number, line in enumerate(lines) if "queue" in line.lower()]
        assert len(queued) == 2
        for port in ("dport 2222", "sport 2222"):
            assert any(port in line and number < queued[port == "sport 2222"] for number, line in enumerate(lines))
        marks = [line for line in lines if "mark" in line]
        assert len(marks) == 2 and all(str(MARK) in line or hex(MARK) in line for line in marks)
        assert sum('"lo"' in line or " lo " in line for line in lines) == 2

    def test_every_queue_is_bypassed_when_nobody_serves_it(self, script: Script) -> None:
        lines = queueing(script(shapes(peers=["10.0.0.2", "10.0.0.9"])))
        assert len(lines) == 4 and all("bypass" in line for line in lines)

    @pytest.mark.parametrize(("direction", "numbers"), [("in", [11]), ("out", [12]), ("both", [11, 12])])
    def test_each_direction_has_a_queue_of_its_own(self, script: Script, direction: str, numbers: list[int]) -> None:
        text = script(shapes(peers=["10.0.0.2"], direction=direction))
        assert [number for number in (11, 12) if f"num {number} " in text] == numbers

    def test_everyone_covers_the_others(self, script: Script) -> None:
        text = script(shapes(peers=["*"]) + shapes(peers=["10.0.0.2"]))
        assert "10.0.0.2" not in text and len(queueing(text)) == 2


def test_the_rules_of_one_family_leave_the_other_alone() -> None:
    both = shapes(peers=["10.0.0.2", "fd00::2"])
    assert "fd00" not in iptables(both)
    six = iptables_script(both, NUMBERS, 2222, "ip6")
    assert "10.0.0.2" not in six and "-s fd00::2/128" in six and "neighbour-solicitation -j RETURN" in six
    assert "ip6 saddr fd00::2/128" in nft(both) and "ip saddr 10.0.0.2/32" in nft(both)


def test_what_is_queued_ends_by_the_kernels_clock_where_it_has_one() -> None:
    text = nft(shapes(peers=["10.0.0.2"]))
    assert (
        "set open { typeof meta nfproto; flags timeout; elements = { ipv4 timeout 3500ms, ipv6 timeout 3500ms }; }"
        in text
    )
    assert all(line.strip().startswith("meta nfproto @open ") for line in queueing(text))
