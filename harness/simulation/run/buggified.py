"""Say which rare but legal things may happen in a run: `--buggify`, or what the scenario says.

    (nothing)       what the scenario says: `cluster.buggify`, or what a seed of `swarm: worlds` draws
    drawn           each seed draws its places, in any scenario; `--buggify` without a value
    none            nothing, in any scenario
    NAME,NAME       these places

The places end up in the scenario's `cluster.buggify`, so that a schedule recorded from the run names them.
"""

from __future__ import annotations

from squall.harness.errors import UsageError
from squall.harness.scenario.buggify_places import PLACES
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.world.buggify import draw_places
from squall.harness.yaml_source import suggestion

DRAWN, NONE = "drawn", "none"


def buggified(scenario: Scenario, seed: int, wanted: str = "") -> Scenario:
    """Return the scenario with the places that are active in this seed's run."""
    if not wanted:
        return scenario
    places = draw_places(seed) if wanted == DRAWN else named_places(wanted)
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"buggify": places})})


def named_places(wanted: str) -> tuple[str, ...]:
    """Return the places of `NAME,NAME`; none for `none`. Raises UsageError for a name that no place has."""
    if wanted in ("", DRAWN, NONE):
        return ()
    names = tuple(dict.fromkeys(wanted.split(",")))
    for name in names:
        if name not in PLACES:
            raise UsageError(
                f"--buggify {name}: there is no place of that name{suggestion(name, PLACES)}",
                remedy="squall buggify lists them",
            )
    return names


def buggify_words(wanted: str) -> str:
    """Return the option of the command line that says the same, with a space before it."""
    if not wanted:
        return ""
    return " --buggify" if wanted == DRAWN else f" --buggify {wanted}"
