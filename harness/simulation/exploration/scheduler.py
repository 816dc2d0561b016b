"""Decide which run comes next: a plain seed of a scenario, or the continuation of a kept recipe.

Two rules, both pure functions of the seed and of what was reported:

* **A bandit over what can be chosen** (`Bandit`): Thompson sampling over Gamma-distributed rates of new features per
  processor second, one arm for each scenario, each kind of fault, and each way to begin (a plain seed, a continuation).
  Old rewards fade, since every arm runs dry in time.
* **Energy** (`energy`): a recipe is continued the more, the rarer its rarest features are and the less often it has
  been continued before (AFLFast's power schedule).

A continuation begins a little before one of the recipe's rare features first showed, or at an instant drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from squall.harness.simulation.run.recipe import Recipe
from squall.harness.simulation.swarm.kinds import KINDS

PLAIN, CONTINUED = "a plain seed", "a continuation"
FADE = 0.98
BEFORE_S = (0.0005, 3.0)
"""How long before a rare feature a continuation begins, log-uniformly."""
UNIFORM = 0.3
"""The share of continuations that begin at an instant drawn uniformly."""
FOCUSED = 0.5
"""The share of runs whose kinds of fault the bandit chooses; the others draw their own."""
EARLY = 0.5
"""Continuations begin in this first share of a run: in the last part no fault would follow, only final reads."""
RARE = 5
"""So many of a recipe's rarest features say how much it is continued, and where."""


@dataclass
class Bandit:
    """Thompson sampling: `reward` per `cost`, with a weak prior that an arm is as good as one feature a second."""

    rewards: dict[str, float] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    def drawn(self, arm: str, rng: Random) -> float:
        """Return a plausible rate of the arm."""
        return rng.gammavariate(1.0 + self.rewards.get(arm, 0.0), 1.0 / (1.0 + self.costs.get(arm, 0.0)))

    def choose(self, arms: Sequence[str], rng: Random) -> str:
        """Return the arm whose plausible rate is the highest."""
        return max(((self.drawn(arm, rng), arm) for arm in arms), key=lambda drawn: drawn[0])[1]

    def report(self, arms: Sequence[str], reward: float, cost: float) -> None:
        """Credit a run to each arm that it used; what was learned before fades a little."""
        for arm in arms:
            self.rewards[arm] = FADE * self.rewards.get(arm, 0.0) + reward
            self.costs[arm] = FADE * self.costs.get(arm, 0.0) + cost


@dataclass
class Kept:
    """A recipe that showed something new, with the instant at which each feature first showed."""

    recipe: Recipe
    first: Mapping[str, int]
    continued: int = 0


def energy(kept: Kept, seen: Mapping[str, int]) -> float:
    """Return how much a recipe deserves another continuation; `seen` is the number of runs that showed a feature."""
    rarest = sorted(seen.get(feature, 1) for feature in kept.first)[:RARE]
    return sum(1.0 / number for number in rarest) / (1.0 + kept.continued)


@dataclass(frozen=True)
class Choice:
    """A run to do next, and the arms of the bandit that chose it."""

    recipe: Recipe
    arms: tuple[str, ...]
    parent: int | None = None


class Scheduler:
    """Chooses runs. `guided` False takes plain seeds only, the scenarios in turn."""

    def __init__(self, scenarios: Sequence[str], seed: int, *, guided: bool = True) -> None:
        self.bandit = Bandit()
        self._scenarios = tuple(scenarios)
        self._guided = guided
        self._rng = Random(f"{seed}/explore")
        self._next = seed
        self._turn = 0

    def choose(self, corpus: Sequence[Kept], seen: Mapping[str, int]) -> Choice:
        """Return the next run."""
        seed, self._next = self._next, self._next + 1
        if not self._guided:
            scenario = self._scenarios[self._turn % len(self._scenarios)]
            self._turn += 1
            return Choice(Recipe(scenario, seed), ())
        own = [(number, kept) for number, kept in enumerate(corpus) if kept.recipe.scenario in self._scenarios]
        way = self.bandit.choose((PLAIN, CONTINUED), self._rng) if own else PLAIN
        kinds = self._kinds()
        if way == PLAIN:
            scenario = self.bandit.choose(self._scenarios, self._rng)
            return Choice(Recipe(scenario, seed, kinds), (PLAIN, scenario, *kinds))
        weights = [energy(kept, seen) for _, kept in own]
        number, kept = self._rng.choices(own, weights)[0]
        recipe = kept.recipe.continued(self._instant(kept, seen), seed, kinds)
        return Choice(recipe, (CONTINUED, recipe.scenario, *kinds), number)

    def _kinds(self) -> tuple[str, ...]:
        if self._rng.random() >= FOCUSED:
            return ()
        wanted = self._rng.randint(2, 6)
        drawn = sorted(((self.bandit.drawn(kind, self._rng), kind) for kind in KINDS), reverse=True)
        return tuple(sorted(kind for _, kind in drawn[:wanted]))

    def _instant(self, kept: Kept, seen: Mapping[str, int]) -> int:
        """Choose the instant: before one of the rarest features, or anywhere."""
        latest = max(1, round(EARLY * max(kept.first.values(), default=1)))
        early = [feature for feature, at in kept.first.items() if at <= latest]
        if not early or self._rng.random() < UNIFORM:
            return self._rng.randint(1, latest)
        rarest = sorted(early, key=lambda feature: (seen.get(feature, 1), feature))[: 4 * RARE]
        low, high = BEFORE_S
        before = low * (high / low) ** self._rng.random()
        return max(1, kept.first[self._rng.choice(rarest)] - round(before * 1_000_000))
