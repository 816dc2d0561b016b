"""Parameters of `squall simulate`, shrink, why and explore; each imports what carries it out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.harness.terminal.options import ClusterOption, OnlyOption

MutantsOption = Annotated[list[str] | None, typer.Option(help="a seeded bug to switch on; see squall mutants")]
SwarmOption = Annotated[bool, typer.Option("--swarm", help="draw the faults from the seed, not from the scenario")]
ScenarioOption = Annotated[str, typer.Option(metavar="SCENARIO", help="a suite file or the name of a scenario")]

SIMULATE_EXAMPLES = (
    "Examples: squall simulate swarm --seeds 200 · squall simulate swarm --seed 4711 · "
    "squall simulate swarm --recipe 7@12.5s:99 · squall simulate swarm --seeds 20 --buggify · "
    "squall simulate worlds --seeds 100000 --spark-master spark://HOST:7077 --shrink · "
    "squall simulate swarm --seeds 20 --traces before.txt · squall simulate swarm --seeds 20 --same-as before.txt · "
    "squall simulate swarm --buggify fetch-empty,turn-late · squall simulate leader-kill-loop --metadata memory"
)


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="a suite file or the name of a scenario")
    ] = None,
    only: OnlyOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds")] = 1,
    seed: Annotated[int | None, typer.Option(help="the first seed; by default the scenario's own, or 1")] = None,
    mutant: MutantsOption = None,
    swarm: SwarmOption = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many seeds at once; by default one for each core")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="keep the history of each seed in this directory")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw one seed's events on the log that broke, as an SVG")
    ] = None,
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="stop at the first seed that is not valid")
    ] = False,
    observer: Annotated[
        bool,
        typer.Option(
            "--observer/--no-observer", help="judge each event, or only the history and the nodes' logs, as on hosts"
        ),
    ] = True,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="RECIPE", help="a seed continued by others, such as 7@12.5s:99"),
    ] = None,
    buggify_places: Annotated[
        str,
        typer.Option(
            "--buggify",
            metavar="[NAME,NAME]",
            help="let rare but legal things happen: where each seed draws, at these places, or none",
        ),
    ] = "",
    metadata: Annotated[
        str,
        typer.Option(
            "--metadata",
            metavar="KIND",
            help="another kind of controller than the scenario's: zookeeper, memory, quorum",
        ),
    ] = "",
    shrink_failures: Annotated[
        bool, typer.Option("--shrink", help="shrink the first failing seed of each kind afterwards")
    ] = False,
    spark_master: ClusterOption = None,
    traces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the verdict and the trace hash of each seed")
    ] = None,
    same_as: Annotated[
        Path | None, typer.Option(metavar="FILE", help="compare with what --traces wrote, here or elsewhere")
    ] = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Run a scenario in simulation: the same nodes and faults in virtual time; a seed repeats bit for bit."""
    from squall.harness.cli.simulation.simulate import simulate as simulate_scenario
    from squall.harness.cli.simulation.simulate import simulate_recipe

    if scenario is None:
        raise UsageError("no scenario is named", remedy="squall simulate SCENARIO")
    if recipe is not None:
        if seed is not None or seeds != 1:
            raise UsageError("--recipe names its seeds", remedy="leave out --seed and --seeds")
        if spark_master is not None or shrink_failures:
            raise UsageError("--recipe is one run, here", remedy="leave out --spark-master and --shrink")
        if metadata:
            raise UsageError("--recipe takes the scenario's kind of controller", remedy="leave out --metadata")
        if traces is not None or same_as is not None:
            raise UsageError("--recipe is no seed of its own", remedy="leave out --traces and --same-as")
        return simulate_recipe(
            recipe, scenario, console(),
            mutants=tuple(mutant or ()), swarm=swarm, keep=keep, observed=observer, buggify=buggify_places,
        )  # fmt: skip
    return simulate_scenario(
        scenario,
        seeds=seeds,
        first_seed=seed,
        console=console(),
        mutants=tuple(mutant or ()),
        swarm=swarm,
        processes=processes,
        keep=keep,
        picture=picture,
        until_failure=until_failure,
        only=only,
        observed=observer,
        buggify=buggify_places,
        metadata=metadata,
        spark_master=spark_master,
        shrink=shrink_failures,
        lake=lake_for_rows(lake, no_lake),
        traces=traces,
        same_as=same_as,
    )


SHRINK_EXAMPLES = (
    "Examples: squall shrink 4711 · squall shrink 2 --suite suites/two-hop-failover.yaml "
    "--mutant truncate-to-hw --out lost.yaml · squall simulate lost.yaml"
)


def shrink(
    seed: Annotated[int, typer.Argument(metavar="SEED", help="a seed that fails in simulation")],
    suite: ScenarioOption = "swarm",
    mutant: MutantsOption = None,
    swarm: SwarmOption = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the schedule here; account (.txt) and picture (.svg) beside it"),
    ] = None,
    budget: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="stop shrinking after this time")] = 300.0,
    runs: Annotated[int, typer.Option(min=1, help="stop shrinking after this many runs")] = 100_000,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many runs at once; by default one for each core")
    ] = None,
    any_failure: Annotated[
        bool, typer.Option("--any", help="accept any failure, not only one of the same name")
    ] = False,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Find the shortest schedule with the same failure as a seed; explain the failure in words and as a picture.

    Exit status: 0 shrunk, and every replay fails; 1 shrunk, but a replay does not fail; 2 nothing to shrink.
    """
    from squall.harness.cli.simulation.shrink import ShrinkOptions
    from squall.harness.cli.simulation.shrink import shrink as shrink_seed

    asked = ShrinkOptions(
        seed=seed,
        suite=suite,
        mutants=tuple(mutant or ()),
        swarm=swarm,
        out=out,
        seconds=budget,
        runs=runs,
        processes=processes or os.cpu_count() or 1,
        any_failure=any_failure,
        lake=lake_for_rows(lake, no_lake),
    )
    return shrink_seed(asked, console())


WHY_EXAMPLES = (
    "Examples: squall why 7 · squall why 2 --suite two-hop-failover --mutant truncate-to-hw · "
    "squall why 1 --suite suites/schedules/one-kill.yaml --continuations 20 --instants 12 --budget 2m --out why.svg"
)


def why(
    seed: Annotated[str, typer.Argument(metavar="SEED", help="a seed that fails in simulation, or a recipe")],
    suite: ScenarioOption = "swarm",
    mutant: MutantsOption = None,
    swarm: SwarmOption = False,
    buggify: Annotated[str, typer.Option(metavar="NAMES", help="rare things that may happen; see squall buggify")] = "",
    continuations: Annotated[int, typer.Option(min=5, help="at most so many continuations of an instant")] = 50,
    instants: Annotated[int, typer.Option(min=6, help="continue from at most so many instants")] = 20,
    budget: Annotated[str, typer.Option(metavar="TIME", help="stop then, with what is known")] = "10m",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the picture (.svg) here, and the table (.txt) beside it")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many runs at once; by default one for each core")
    ] = None,
    any_failure: Annotated[
        bool, typer.Option("--any", help="count any failure, not only one of the same name")
    ] = False,
) -> int:
    """Find where in its run a failure was decided: its probability over time, by continuations with other seeds.

    Exit status: 0 explained; 1 explained, but the seed did not fail again; 2 nothing to explain.
    """
    from squall.harness.cli.simulation.why import WhyOptions
    from squall.harness.cli.simulation.why import why as explain_seed

    asked = WhyOptions(
        seed=seed,
        suite=suite,
        mutants=tuple(mutant or ()),
        swarm=swarm,
        buggify=buggify,
        continuations=continuations,
        instants=instants,
        budget=budget,
        out=out,
        processes=processes or os.cpu_count() or 1,
        any_failure=any_failure,
    )
    return explain_seed(asked, console())


EXPLORE_EXAMPLES = (
    "Examples: squall explore --for 10m · squall explore worlds kitchen-sink --for 1h --corpus corpus · "
    "squall explore swarm --seed 5000 --until-failure"
)


def explore(
    scenarios: Annotated[list[str] | None, typer.Argument(metavar="[SCENARIO…]", help="by default worlds")] = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="how long, such as 10m")] = "10m",
    seed: Annotated[
        int | None, typer.Option(help="the first seed; by default 1, or the one after the highest in the corpus")
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="what its seeds showed is not new; keep seeds with something new there"),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many runs at once; by default one for each core")
    ] = None,
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="stop at the first run that is not valid")
    ] = False,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Run seeds for a time, and estimate how much behaviour of the nodes no seed has shown yet."""
    from squall.harness.cli.simulation.explore import ExploreOptions
    from squall.harness.cli.simulation.explore import explore as explore_scenarios

    asked = ExploreOptions(
        scenarios=tuple(scenarios or ()),
        duration=duration,
        seed=seed,
        corpus=corpus,
        processes=processes,
        until_failure=until_failure,
        lake=lake_for_rows(lake, no_lake),
    )
    return explore_scenarios(asked, console())
