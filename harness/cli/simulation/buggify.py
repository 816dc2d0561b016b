"""`squall buggify`: list the places where rare but legal things may happen, or count how often they do.

A place that never happens is worth nothing, so `--count` shows those as well. `--buggify` of `squall simulate` stands
alone or with a value, which typer's options cannot: `CommandWithBuggify` supplies a value.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from squall.harness.scenario.buggify_places import NODE_PLACES, PLACES, WORLD_PLACES
from squall.harness.terminal.console import console
from squall.harness.terminal.help_text import CommandWithExamples

EXAMPLES = (
    "Examples: squall buggify · squall buggify --count swarm --seeds 20 · squall buggify --count worlds --seeds 40"
)
OPTION = "--buggify"
DRAWN = "drawn"


class CommandWithBuggify(CommandWithExamples):
    """A command whose `--buggify` may be given without a value."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, with_drawn(args))


def with_drawn(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a value behind an option `--buggify` that stands alone."""
    filled: list[str] = []
    for place, word in enumerate(arguments):
        filled.append(word)
        following = arguments[place + 1] if place + 1 < len(arguments) else "-"
        if word == OPTION and following.startswith("-"):
            filled.append(DRAWN)
    return filled


def buggify(
    count: Annotated[
        str | None, typer.Option(metavar="SCENARIO", help="simulate it, and count how often each place happened")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="--count: how many seeds")] = 20,
    seed: Annotated[int, typer.Option(help="--count: the first seed")] = 1,
    processes: Annotated[
        int | None, typer.Option(min=1, help="--count: how many seeds at once; by default one for each core")
    ] = None,
) -> int:
    """List the places where simulation lets rare but legal things happen, or count how often they do."""
    if count is None:
        for line in _catalogue():
            console().print(line, markup=False, highlight=False, soft_wrap=True)
        return 0
    return _count(count, range(seed, seed + seeds), processes or os.cpu_count() or 1, console())


def _catalogue() -> Iterator[str]:
    """Yield a line for each place: what happens there, why it is legal, and the requirement that says so."""
    for heading, places in (("in the nodes", NODE_PLACES), ("in the simulated world", WORLD_PLACES)):
        yield f"{heading}:"
        for place in places.values():
            yield f"  {place.name:<28}{place.happens}. Legal ({place.requirement}): {place.legal}."


def _count(scenario_name: str, seeds: range, processes: int, output: Console) -> int:
    from squall.harness.cli.simulation.simulate import EXIT, told
    from squall.harness.simulation.run.parallel import simulate_many
    from squall.harness.simulation.run.run import BUGGIFY, SimOptions
    from squall.harness.simulation.run.scenarios import find_scenario

    scenario, said = find_scenario(scenario_name)
    options = SimOptions(said=said, buggify=DRAWN)
    happened: list[dict[str, int]] = []
    statuses = [0]
    with contextlib.closing(simulate_many(scenario, seeds, options, processes=processes)) as running:
        for result in running:
            counts = {key.removeprefix(BUGGIFY): number for key, number in result.counts.items() if BUGGIFY in key}
            happened.append(counts)
            statuses.append(EXIT[result.verdict])
            if result.verdict != "valid":
                output.print(told(result, said, options, listable=False), markup=False, highlight=False)
    output.print(counted(happened))
    return max(statuses, key=lambda status: (status == 1, status))


def counted(runs: Iterable[dict[str, int]]) -> Table:
    """Return a table of all places: in how many runs each was active and happened, and how often in all."""
    active: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for counts in runs:
        active.update(counts.keys())
        happened.update(name for name, number in counts.items() if number)
        times.update(counts)
    table = Table(box=None, pad_edge=False)
    table.add_column("place", no_wrap=True)
    for heading in ("active in", "happened in", "times"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for name in PLACES:
        remark = "" if times[name] else "never happened" if active[name] else "never active"
        table.add_row(name, f"{active[name]}", f"{happened[name]}", f"{times[name]:,}", remark)
    return table
