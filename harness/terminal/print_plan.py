"""`squall plan`: print what every run of a suite would do, where, when, and which runs `squall run` would refuse."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from rich.console import Console

from squall.harness.errors import USAGE_EXIT_STATUS, UsageError
from squall.harness.scenario.inventory import Inventory
from squall.harness.scenario.plan import Refused, described, planned
from squall.harness.scenario.suite import Suite
from squall.harness.scenario.targets import OwnLab

RUNS = Path("runs")


def print_plan(out: Console, suite: Suite, seed: int, inventory: Inventory | None) -> int:
    """Print the first run of each scenario, and every refusal. Return the exit status: 254 if any run is refused.

    `inventory` is that of `squall run`; without one each scenario's own lab is assumed. Raises UsageError for a suite
    of one run that is refused, as `squall run` does.
    """
    out.print(f"{'seed':<11}{seed}")
    runs = planned(suite, seed, RUNS, place=OwnLab() if inventory is None else inventory)
    refused = 0
    for name, found in groupby(runs, key=lambda one: one.scenario if isinstance(one, Refused) else one.name):
        plans = []
        for one in found:
            if isinstance(one, Refused):
                if suite.single:
                    raise UsageError(one.problem)
                refused += 1
                out.print(f"\n{'refused':<11}{name}, seed {one.seed}: {one.problem}", markup=False)
            else:
                plans.append(one)
        if plans:
            out.print()
            for label, text in described(plans[0].scenario, plans[0].schedule):
                out.print(f"{label:<11}{text}", markup=False)
        if len(plans) > 1:
            seeds = ", ".join(str(plan.seed) for plan in plans)
            out.print(f"{'seeds':<11}{seeds}; what is shown is the first")
        elif plans and plans[0].seed != seed:
            out.print(f"{'seed':<11}{plans[0].seed}, the scenario's own")
    return USAGE_EXIT_STATUS if refused else 0
