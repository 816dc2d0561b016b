"""What a link does to packets, by the numbers: which are late, which are lost, which wait for each other."""

from __future__ import annotations

import ipaddress
import itertools
from random import Random
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.link.link_shapes import LEAST_BUFFER, Link, Shape, checked_shape, jitter_of, shape_from

MTU = 1500


def shape(**told: Any) -> Shape:
    return checked_shape("f1", {"peers": ["10.0.0.2"], **told})


def link(*shapes: Shape, seed: int = 1) -> Link:
    return Link(shapes, Random(seed))


def test_delays_of_several_shapes_add_up() -> None:
    both = link(shape(delay_s=0.01), shape(delay_s=0.02))
    assert both.passes_at(5.0, MTU) == pytest.approx(5.03)


def test_losses_of_several_shapes_are_independent() -> None:
    both = link(shape(loss=0.5), shape(loss=0.4))
    lost = [both.passes_at(float(at), MTU) is None for at in range(10_000)]
    assert mean(lost) == pytest.approx(0.7, abs=0.02)


def test_jitter_spreads_over_its_whole_range_and_no_further() -> None:
    late = link(shape(delay_s=0.1, jitter_s=0.05))
    extra = [(late.passes_at(float(at), MTU) or 0.0) - at for at in range(1000)]
    assert 0.1 <= min(extra) < 0.105 and 0.145 < max(extra) <= 0.15
    assert mean(extra) == pytest.approx(0.125, abs=0.003)


@given(st.lists(st.tuples(st.floats(0, 0.2), st.integers(40, MTU)), max_size=60), st.integers())
def test_nothing_overtakes(packets: list[tuple[float, int]], seed: int) -> None:
    shaky = link(shape(delay_s=0.01, jitter_s=0.5, rate=50_000), seed=seed)
    at, ends = 0.0, []
    for pause, size in packets:
        at += pause
        due = shaky.passes_at(at, size)
        if due is not None:
            assert due >= at + 0.01
            ends.append(due)
    assert ends == sorted(ends)


def test_the_narrowest_rate_rules_and_packets_wait_for_each_other() -> None:
    narrow = link(shape(rate=10_000), shape(rate=1_000_000))
    assert [narrow.passes_at(1.0, 1000) for _ in range(3)] == pytest.approx([1.1, 1.2, 1.3])
    assert narrow.passes_at(9.0, 1000) == pytest.approx(9.1), "an idle link has saved up nothing"


def test_a_narrow_links_buffer_is_as_large_as_a_second_or_64_kib_and_then_full() -> None:
    for rate, buffer in ((1_000, LEAST_BUFFER), (1_000_000, 1_000_000)):
        narrow = link(shape(rate=rate))
        passed = [narrow.passes_at(0.0, 1000) is not None for _ in range(2 * buffer // 1000)]
        assert sum(passed) * 1000 == pytest.approx(buffer, abs=1000)
        assert passed == sorted(passed, reverse=True), "the last ones are lost"


def test_a_single_packet_passes_however_narrow_the_link() -> None:
    assert link(shape(rate=1)).passes_at(0.0, MTU) == MTU


@pytest.mark.parametrize(
    ("peers", "direction", "asked", "concerned"),
    [
        (["10.0.0.2"], "both", ("in", "10.0.0.2"), True),
        (["10.0.0.2"], "both", ("out", "10.0.0.2"), True),
        (["10.0.0.2"], "in", ("out", "10.0.0.2"), False),
        (["10.0.0.2"], "out", ("out", "10.0.0.3"), False),
        (["10.0.0.0/24"], "out", ("out", "10.0.0.3"), True),
        (["10.0.0.0/24"], "out", ("out", "fd00::3"), False),
        (["*"], "in", ("in", "fd00::3"), True),
    ],
)
def test_a_shape_concerns_its_peers_in_its_direction(
    peers: list[str], direction: str, asked: tuple[str, str], concerned: bool
) -> None:
    one = shape(peers=peers, direction=direction, delay_s=1)
    assert one.concerns(asked[0], ipaddress.ip_address(asked[1])) == concerned


def test_a_shape_survives_the_journal() -> None:
    one = shape(peers=["10.0.0.2", "fd00::/64"], direction="in", delay_s=1, jitter_s=2, loss=0.5, rate=7)
    assert shape_from(one.as_json()) == one


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"peers": []}, "peers: [] must be"),
        ({"peers": ["b1"]}, "peers: 'b1' is not an IP address"),
        ({"direction": "up"}, "direction: 'up' must be one of both, in, out"),
        ({"delay_s": -1}, "delay_s: -1 must be a number from 0 to 600"),
        ({"loss": 1.5}, "loss: 1.5 must be"),
        ({"loss": True}, "loss: True must be"),
        ({"rate": "fast"}, "rate: 'fast' must be"),
        ({"delay_s": 0}, "give at least one"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(VerbError) as trouble:
        shape(**{"delay_s": 1, **wrong})
    assert trouble.value.kind == "bad_argument" and said in trouble.value.error


@pytest.mark.parametrize(
    ("distribution", "least", "most"), [("uniform", 0, 0.05), ("normal", 0, 0.15), ("pareto", 0, 0.5)]
)
def test_jitter_is_half_of_it_in_the_mean_whatever_its_distribution(
    distribution: str, least: float, most: float
) -> None:
    rng = Random(1)
    drawn = [jitter_of(distribution, 0.05, rng) for _ in range(20_000)]
    assert mean(drawn) == pytest.approx(0.025, rel=0.15)
    assert least <= min(drawn) and max(drawn) <= most


def test_a_heavy_tail_is_mostly_small_and_rarely_very_large() -> None:
    rng = Random(1)
    drawn = sorted(jitter_of("pareto", 0.05, rng) for _ in range(20_000))
    assert drawn[10_000] < 0.012 and drawn[-1] > 0.25


def test_losses_come_in_bursts_as_long_and_as_many_as_they_should() -> None:
    bad = link(shape(enter=0.02, leave=0.25))
    lost = [bad.passes_at(float(at), MTU) is None for at in range(50_000)]
    bursts = sum(now and not before for before, now in itertools.pairwise(lost))
    assert mean(lost) == pytest.approx(0.02 / 0.27, rel=0.15)
    assert sum(lost) / bursts == pytest.approx(4, rel=0.15)


def test_a_packet_out_of_order_is_late_and_holds_nobody_up() -> None:
    mixed = link(shape(delay_s=0.01, reorder=0.3, late_s=0.5))
    passages = [mixed.passage(float(at), MTU) for at in range(1000)]
    late = [round(one.due - at, 6) for at, one in enumerate(passages) if one is not None]
    assert set(late) == {0.01, 0.51}
    assert late.count(0.51) == pytest.approx(300, abs=50)


def test_chances_of_several_shapes_are_independent() -> None:
    both = link(shape(duplicate=0.5, corrupt=0.2), shape(duplicate=0.4))
    passages = [one for at in range(10_000) if (one := both.passage(float(at), MTU)) is not None]
    assert mean(one.twice for one in passages) == pytest.approx(0.7, abs=0.02)
    assert mean(one.damaged for one in passages) == pytest.approx(0.2, abs=0.02)


def test_only_packet_changes_need_them_whole_only_delays_leave_them_joined() -> None:
    assert shape(delay_s=0.1).only_delays and not shape(delay_s=0.1).needs_content
    assert not shape(reorder=0.1, late_s=0.1).only_delays and not shape(reorder=0.1, late_s=0.1).needs_content
    assert shape(duplicate=0.1).needs_content and shape(corrupt=0.1).needs_content
