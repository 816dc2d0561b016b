"""Two systems in alternation: warm when the cost is steady, by turns in changing order, spread by the quartiles."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from squall.benchmarks.parts.alternation import Side, alternated, is_steady, spread, warm


class Scripted:
    """A system whose samples have these costs, the last one for ever; `log` has every sample taken."""

    def __init__(self, name: str, costs: Sequence[float], log: list[str]) -> None:
        self._name = name
        self._costs = list(costs)
        self._log = log

    def take(self) -> float:
        self._log.append(self._name)
        return self._costs.pop(0) if len(self._costs) > 1 else self._costs[0]

    def side(self) -> Side[float]:
        return Side(self.take, lambda cost: cost)


@pytest.mark.parametrize(
    ("costs", "steady"),
    [
        ([10.0, 10.0], False),
        ([10.0, 10.5, 9.5], True),
        ([10.0, 11.1, 10.0], False),
        ([30.0, 20.0, 10.0, 10.1, 10.2], True),
        ([10.0, 10.1, 10.2, 13.0], False),
    ],
)
def test_a_cost_is_steady_when_the_last_three_lie_within_a_tenth_of_their_median(
    costs: list[float], steady: bool
) -> None:
    assert is_steady(costs) is steady


def test_a_system_is_sampled_until_its_cost_is_steady() -> None:
    log: list[str] = []
    assert warm(Scripted("A", [90, 50, 30, 20, 20.5, 20.1, 1], log).side()) == (6, True)
    assert len(log) == 6


def test_a_system_that_never_becomes_steady_is_said_to_be_so() -> None:
    costs = [float(2**number) for number in range(20)]
    assert warm(Scripted("A", costs, []).side(), most=5) == (5, False)


def test_systems_take_turns_and_the_first_of_a_pair_changes() -> None:
    log: list[str] = []
    first, second = alternated(Scripted("A", [1.0], log).side(), Scripted("B", [2.0], log).side(), pairs=3)
    assert "".join(log) == "AAABBBABBAAB"
    assert (first.samples, second.samples) == ((1.0,) * 3, (2.0,) * 3)
    assert (first.warm_ups, first.steady) == (3, True)


def test_warm_ups_do_not_count() -> None:
    first, _ = alternated(Scripted("A", [9, 5, 1, 1, 1, 2], []).side(), Scripted("B", [1.0], []).side(), pairs=2)
    assert (first.warm_ups, first.samples) == (5, (2, 2))


def test_the_spread_is_the_distance_of_the_quartiles_over_the_median() -> None:
    assert spread([10.0, 10.0, 10.0]) == 0
    assert spread([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(0.2)
