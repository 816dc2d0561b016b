"""The command line: `squall run`, `squall check` and the rest (HX-10).

This module only turns arguments into calls and failures into exit statuses:

    0    valid; of a suite: every scenario turned out as expected
    1    invalid; of a suite: an unexpected violation, or an expected one that was missed
    2    unknown; of a suite: an unexpected unknown
    130  interrupted (Ctrl-C or SIGTERM): faults healed, the history kept, finished runs, seeds and figures summed up
    254  bad usage or configuration: one message says what is wrong, where, and what would be right
    255  a crash of Squall itself
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer.core import TyperGroup

from squall.harness.capabilities.command import EXAMPLES as CAPABILITIES_EXAMPLES
from squall.harness.capabilities.command import capabilities
from squall.harness.cli.hosts.cluster import cluster_app
from squall.harness.cli.hosts.faults import OptionalValues, faults
from squall.harness.cli.hosts.lab import lab_app
from squall.harness.cli.nights.bundle import EXAMPLES as BUNDLE_EXAMPLES
from squall.harness.cli.nights.bundle import bundle
from squall.harness.cli.nights.nightly import EXAMPLES as NIGHTLY_EXAMPLES
from squall.harness.cli.nights.nightly import CommandOfNights, JunitOption, nightly
from squall.harness.cli.regression.compare import EXAMPLES as COMPARE_EXAMPLES
from squall.harness.cli.regression.compare import compare
from squall.harness.cli.regression.flakes import EXAMPLES as FLAKES_EXAMPLES
from squall.harness.cli.regression.flakes import flakes
from squall.harness.cli.regression.lake import DEFAULT_LAKE, LakeOption, lake_app, list_runs, sql
from squall.harness.cli.regression.trends import trends_app
from squall.harness.cli.simulation.buggify import EXAMPLES as BUGGIFY_EXAMPLES
from squall.harness.cli.simulation.buggify import CommandWithBuggify, buggify
from squall.harness.cli.simulation.mutants import EXAMPLES as MUTANTS_EXAMPLES
from squall.harness.cli.simulation.mutants import mutants
from squall.harness.dashboard.command import dashboard_app
from squall.harness.errors import INTERRUPTED_EXIT_STATUS, USAGE_EXIT_STATUS, UsageError, file_problem
from squall.harness.gallery.command import EXAMPLES as GALLERY_EXAMPLES
from squall.harness.gallery.command import gallery
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document
from squall.harness.terminal.help_text import with_examples
from squall.harness.terminal.lock_options import WaitOption, WithWait, seconds_to_wait
from squall.harness.terminal.terminal import finish, install
from squall.harness.terminal.verbosity import verbosely, without_verbose

if TYPE_CHECKING:
    from squall.harness.run.run import Hosts

CRASH_EXIT_STATUS = 255

# The error of a wrong command line, found by ancestry: typer depends on click or vendors it, depending on its version.
CommandLineError = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="squall",
    help="A chaos and benchmark testbed for replicated logs. Start with: squall run suites/quickstart.yaml",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
inventory_app = typer.Typer(help="The hosts of inventory.yaml.", epilog="Example: squall inventory check")
suite_app = typer.Typer(help="Suite files.", epilog="Example: squall suite schema")
app.add_typer(lab_app, name="lab")
app.add_typer(inventory_app, name="inventory")
app.add_typer(suite_app, name="suite")
app.add_typer(cluster_app, name="cluster")
app.add_typer(lake_app, name="lake")
app.add_typer(trends_app, name="trends")
app.add_typer(dashboard_app, name="dashboard")


@app.callback()
def squall(
    version: Annotated[bool, typer.Option("--version", help="print version, commit and Python; nothing else")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="say more on standard error; may stand behind any command")
    ] = False,
) -> None:
    """Nothing by itself: `status_of` reads these two before the command."""


def suite_names(incomplete: str) -> list[str]:
    """Return the suites whose name begins so, for completion in a shell."""
    from squall.harness.scenario.suites import suite_files

    return sorted(path.stem for path in suite_files() if path.stem.startswith(incomplete))


SuiteArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="a suite file, such as suites/quickstart.yaml, or a name: quickstart",
        autocompletion=suite_names,
    ),
]
InventoryOption = Annotated[
    Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="run on these hosts instead of a local lab")
]
LabOption = Annotated[
    str | None, typer.Option("--lab", metavar="NAME", help="run on the existing lab of this name, which stays up")
]
SeedOption = Annotated[
    int | None, typer.Option(help="the seed of the first run, or of the only run with --only; random by default")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="print every command, host by host and in order; start nothing")
]
SystemOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="test this system instead of the suite's: kafka, kafka:VERSION, or cluster:HOST:PORT,…"
    ),
]
PropertiesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TLS and SASL properties of clients, for the system `cluster`"),
]
OnlyOption = Annotated[str | None, typer.Option(metavar="NAME", help="only the scenario of this name")]
SparkOption = Annotated[str | None, typer.Option(metavar="URL", help="check on this Spark cluster instead of local[*]")]
ClusterOption = Annotated[
    str | None, typer.Option("--spark-master", metavar="URL", help="on this Spark cluster instead of this host's cores")
]
InProcessOption = Annotated[bool, typer.Option("--in-process", help="check in this process, without Spark")]


# --- running and judging -------------------------------------------------------------------------------------------


@app.command(
    cls=WithWait,
    epilog="Examples: squall run suites/quickstart.yaml · squall run suites/quickstart.yaml --seed 4711 · "
    "squall run suites/leader-kill-lagging.yaml --only leader-kill-lagging --inventory inventory.yaml · "
    "squall run suites/quickstart.yaml --system kafka · "
    "squall run suites/smoke.yaml --lab default · squall run suites/smoke.yaml --dry-run",
)
def run(
    suite: SuiteArgument,
    inventory: InventoryOption = None,
    lab: LabOption = None,
    seed: SeedOption = None,
    only: OnlyOption = None,
    system: SystemOption = None,
    client_properties: PropertiesOption = None,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("runs"),
    idle_nemesis: Annotated[
        bool, typer.Option("--idle-nemesis", help="a control: claim every fault and inject none; must end unknown")
    ] = False,
    capture: Annotated[
        bool, typer.Option("--capture", help="keep the packets of every node's host: nodes/HOST/capture.pcap")
    ] = False,
    dry_run: DryRunOption = False,
    spark_master: SparkOption = None,
    in_process: InProcessOption = False,
    wait: WaitOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    no_lake: NoLakeOption = False,
    junit: JunitOption = None,
    as_json: JsonOption = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write suite.json here instead of beside the runs")
    ] = None,
    night: Annotated[str, typer.Option(metavar="NAME", help="in the lake, the run is part of this night")] = "",
    live: Annotated[
        bool, typer.Option("--live", help="keep a page of the run under way, which refreshes itself: RUN/live.html")
    ] = False,
) -> int:
    """Run a suite: start hosts, deploy nodes, apply load under faults, heal, read all records, check the history."""
    from squall.harness.scenario.inventory import load_inventory, refuse_two_places
    from squall.harness.scenario.plan import choose_seed
    from squall.harness.scenario.suites import load_named

    refuse_two_places(inventory, lab)
    patience = seconds_to_wait(wait)
    chosen = load_named(suite).only(only, seed).on_system(system, client_properties)
    hosts = load_inventory(inventory) if inventory is not None else None
    if dry_run:
        from squall.harness.run.dry_run import print_dry_run

        if as_json:
            raise UsageError("--json: a dry run lists commands and has no results", remedy="leave out one of them")
        print_dry_run(console(), chosen, choose_seed(seed), hosts, lab)
        return 0
    from squall.harness.cli.run.campaign import (
        Campaign,  # takes a second to import; errors of a file are reported first
    )

    campaign = Campaign(
        chosen,
        inventory=hosts,
        inventory_path=inventory,
        lab=lab,
        seed=choose_seed(seed),
        runs_directory=runs_dir,
        idle_nemesis=idle_nemesis,
        capture=capture,
        spark_master=spark_master,
        in_process=in_process,
        console=console(aside=as_json),
        wait=patience,
        lake=None if no_lake and lake == DEFAULT_LAKE else lake,
        junit=junit,
        report=report,
        night=night,
        live=live,
    )
    if not as_json:
        return campaign.run()
    status = INTERRUPTED_EXIT_STATUS  # what ended before an interruption is known, too
    with contextlib.suppress(KeyboardInterrupt):
        status = campaign.run()
    document = {"suite": suite, "seed": campaign.seed, "not_run": list(chosen.left_out)}
    print_document({**document, "runs": [one.data() for one in campaign.outcomes], "exit_status": status})
    return status


app.command("nightly", cls=CommandOfNights, epilog=NIGHTLY_EXAMPLES)(nightly)
app.command("bundle", epilog=BUNDLE_EXAMPLES)(bundle)


@app.command(epilog="Examples: squall check runs/latest · squall check runs/quickstart/* --in-process")
def check(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="directories of runs")],
    spark_master: SparkOption = None,
    in_process: InProcessOption = False,
    budget: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="begin no check after this time; the rest is unknown")
    ] = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="count some anomalies again, by queries; the counts must agree")
    ] = False,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
    as_json: JsonOption = False,
) -> int:
    """Check stored runs again. Needs no cluster; also checks runs that were killed half-way."""
    from squall.harness.cli.run.check import judge_stored

    return judge_stored(
        runs,
        spark_master=spark_master,
        in_process=in_process,
        console=console(aside=as_json),
        budget=budget,
        second_opinion=second_opinion,
        lake=lake_for_rows(lake, no_lake),
        as_json=as_json,
    )


@app.command(epilog="Examples: squall show runs/latest · squall show runs/latest events-3@20410..20425")
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the directory of a run")],
    rows: Annotated[str | None, typer.Argument(metavar="[ROWS]", help="TOPIC-PARTITION[@OFFSET[..OFFSET]]")] = None,
    as_json: JsonOption = False,
) -> int:
    """Print a run's verdict in words, or the operations at some offsets."""
    from squall.harness.cli.run.check import show_run

    return show_run(run, rows, console(aside=as_json), as_json=as_json)


@app.command(
    epilog="Examples: squall timeline runs/latest · squall timeline runs/latest --from 10s --to 20s --host b1 · "
    "squall timeline runs/latest --grep 'leads|proven'"
)
def timeline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the directory of a run")],
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="from this time of the load, such as 10s")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="up to this time of the load, such as 20s")
    ] = None,
    host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="only this host; may be given again")] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="only lines that match this regular expression")
    ] = None,
) -> int:
    """Print log lines of nodes, phases of faults and failures of clients in order of time."""
    from squall.harness.cli.run.timeline import show_timeline

    return show_timeline(run, since=since, until=until, hosts=tuple(host or ()), grep=grep)


@app.command(
    epilog="Examples: squall plan suites/quickstart.yaml --seed 4711 · squall plan suites/smoke.yaml --dry-run"
)
def plan(
    suite: SuiteArgument,
    seed: SeedOption = None,
    only: OnlyOption = None,
    system: SystemOption = None,
    dry_run: DryRunOption = False,
    inventory: InventoryOption = None,
) -> int:
    """Print a suite's runs, faults, targets and times; start nothing. Exit status 254 if `run` would refuse any."""
    from squall.harness.scenario.inventory import load_inventory
    from squall.harness.scenario.plan import choose_seed
    from squall.harness.scenario.suites import load_named
    from squall.harness.terminal.print_plan import print_plan

    chosen = load_named(suite).only(only, seed).on_system(system)
    hosts = load_inventory(inventory) if inventory is not None else None
    if dry_run:
        from squall.harness.run.dry_run import print_dry_run

        print_dry_run(console(), chosen, choose_seed(seed), hosts)
        return 0
    return print_plan(console(), chosen, choose_seed(seed), hosts)


@app.command(
    cls=CommandWithBuggify,
    epilog="Examples: squall simulate swarm --seeds 200 · squall simulate swarm --seed 4711 · "
    "squall simulate swarm --recipe 7@12.5s:99 · squall simulate swarm --seeds 20 --buggify · "
    "squall simulate worlds --seeds 100000 --spark-master spark://HOST:7077 --shrink · "
    "squall simulate swarm --seeds 20 --traces before.txt · squall simulate swarm --seeds 20 --same-as before.txt · "
    "squall simulate swarm --buggify fetch-empty,turn-late · squall simulate leader-kill-loop --metadata memory",
)
def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="a suite file or the name of a scenario")
    ] = None,
    only: OnlyOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="how many seeds")] = 1,
    seed: Annotated[int | None, typer.Option(help="the first seed; by default the scenario's own, or 1")] = None,
    mutant: Annotated[list[str] | None, typer.Option(help="a seeded bug to switch on; see squall mutants")] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="draw the faults from the seed, not from the scenario")
    ] = False,
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
        typer.Option(metavar="RECIPE", help="a seed continued by others, such as 7@12.5s:99, or a file of it"),
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
    if scenario is None:
        raise UsageError("no scenario is named", remedy="squall simulate SCENARIO, or --recipe FILE")
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


@app.command(
    epilog="Examples: squall shrink 4711 · squall shrink 2 --suite suites/two-hop-failover.yaml "
    "--mutant truncate-to-hw --out lost.yaml · squall simulate lost.yaml"
)
def shrink(
    seed: Annotated[int, typer.Argument(metavar="SEED", help="a seed that fails in simulation")],
    suite: Annotated[str, typer.Option(metavar="SCENARIO", help="a suite file or the name of a scenario")] = "swarm",
    mutant: Annotated[list[str] | None, typer.Option(help="a seeded bug to switch on; see squall mutants")] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="draw the faults from the seed, not from the scenario")
    ] = False,
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


@app.command(
    epilog="Examples: squall why 7 · squall why 2 --suite two-hop-failover --mutant truncate-to-hw · "
    "squall why 1 --suite suites/schedules/one-kill.yaml --continuations 20 --instants 12 --budget 2m --out why.svg"
)
def why(
    seed: Annotated[str, typer.Argument(metavar="SEED", help="a seed that fails in simulation, or a recipe")],
    suite: Annotated[str, typer.Option(metavar="SCENARIO", help="a suite file or the name of a scenario")] = "swarm",
    mutant: Annotated[list[str] | None, typer.Option(help="a seeded bug to switch on; see squall mutants")] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="draw the faults from the seed, not from the scenario")
    ] = False,
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


@app.command(
    epilog="Examples: squall watch runs/latest · squall watch 2 --suite two-hop-failover --mutant truncate-to-hw · "
    "squall watch runs/latest --log events-3 --from 19s --until 24s --out watch.html"
)
def watch(
    what: Annotated[str, typer.Argument(metavar="SEED|RUN", help="a seed or recipe of the simulation, or a run")],
    suite: Annotated[
        str | None,
        typer.Option(metavar="SCENARIO", help="of a seed: a suite file or scenario; swarm by default"),
    ] = None,
    mutant: Annotated[list[str] | None, typer.Option(help="of a seed: a seeded bug to switch on")] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="of a seed: draw the faults from it, not from the scenario")
    ] = False,
    buggify: Annotated[str, typer.Option(metavar="NAMES", help="of a seed: rare things that may happen")] = "",
    log: Annotated[
        str | None, typer.Option(metavar="NAME", help="the topic-partition, such as events-0; by default what broke")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="begin here, in seconds since the load began")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="end here")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write the page here")] = None,
) -> int:
    """Write a page to watch one log: operations, log ends, high watermarks, epochs, faults and messages over time."""
    from squall.harness.cli.run.watch import WatchOptions
    from squall.harness.cli.run.watch import watch as write_page

    asked = WatchOptions(
        what=what,
        suite=suite,
        mutants=tuple(mutant or ()),
        swarm=swarm,
        buggify=buggify,
        log=log,
        since=since,
        until=until,
        out=out,
    )
    return write_page(asked, console())


@app.command(
    epilog="Examples: squall explore --for 10m · squall explore swarm kitchen-sink --for 1h --corpus corpus · "
    "squall explore --for 5m --random · squall explore --mutant stale-fetch-appended --corpus corpus --until-failure"
)
def explore(
    scenarios: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO…]", help="by default, the short swarms")
    ] = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="how long, such as 10m")] = "10m",
    seed: Annotated[int, typer.Option(help="the first seed; it also decides what is tried")] = 1,
    corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="continue from this corpus, and keep runs and violations there")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="how many runs at once; by default one for each core")
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="run plain seeds instead, with the same figures, to compare")
    ] = False,
    mutant: Annotated[list[str] | None, typer.Option(help="a seeded bug to switch on; see squall mutants")] = None,
    until_failure: Annotated[
        bool, typer.Option("--until-failure", help="stop at the first run that is not valid")
    ] = False,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Search for violations in simulation: continue the runs that showed rare behaviour of the nodes."""
    from squall.harness.cli.simulation.explore import ExploreOptions
    from squall.harness.cli.simulation.explore import explore as explore_scenarios

    asked = ExploreOptions(
        scenarios=tuple(scenarios or ()),
        duration=duration,
        seed=seed,
        corpus=corpus,
        processes=processes,
        guided=not random,
        mutants=tuple(mutant or ()),
        until_failure=until_failure,
        lake=lake_for_rows(lake, no_lake),
    )
    return explore_scenarios(asked, console())


# --- hosts ---------------------------------------------------------------------------------------------------------


@inventory_app.command("check", epilog="Example: squall inventory check --inventory inventory.yaml")
def inventory_check(inventory: InventoryOption = None, lab: LabOption = None) -> int:
    """Print the abilities of every host, and what it lacks."""
    from squall.harness.hosts.preflight import COLUMNS
    from squall.harness.hosts.preflight import check as look

    hosts = chosen_hosts(inventory, lab)
    report, out = look(hosts.inventory, hosts.network), console()
    table = Table(box=None, pad_edge=False)
    for heading in ("host", *COLUMNS):
        table.add_column(heading, no_wrap=heading == "host")
    for row in report.rows:
        cells = []
        for column in COLUMNS:
            found = row.find(column)
            cells.append("" if found is None else f"{'✔' if found.ok else '✘'} {found.said}")
        table.add_row(row.host.name, *cells)
    out.print(table)
    for one in report.control:
        out.print(f"control node  {'✔' if one.ok else '✘'} {one.what}: {one.said}", markup=False)
    wrong = report.error()
    if wrong is not None:
        raise wrong
    return 0


@inventory_app.command("trust", epilog="Example: squall inventory trust b2 --inventory inventory.yaml")
def inventory_trust(
    host: Annotated[str, typer.Argument()], inventory: InventoryOption = None, lab: LabOption = None
) -> None:
    """Trust the key that a host presents now, in place of any earlier one."""
    from squall.harness.hosts.ssh import trust

    hosts = chosen_hosts(inventory, lab)
    spec = hosts.inventory.host(host)
    console().print(f"{'trust':<11}{spec.described()}: {trust(spec, hosts.network)}")


@app.command(epilog="Example: squall heal --inventory inventory.yaml")
def heal(inventory: InventoryOption = None, lab: LabOption = None) -> int:
    """End every fault on every host, of any run. Exit status 1 if one is left, or a host cannot be reached."""
    import asyncio

    from squall.harness.hosts.healing import heal_hosts, what_is_left
    from squall.harness.hosts.host_locks import owners_of

    hosts, out = chosen_hosts(inventory, lab), console()
    with contextlib.suppress(Exception):  # the report of who uses the hosts may fail; healing them matters more
        for owner in owners_of(hosts.inventory, hosts.network):
            out.print(f"{'warning':<11}{owner.host} is in use: faults of that run end, too: {owner}", markup=False)
    outcome = asyncio.run(heal_hosts(hosts.inventory, hosts.network))
    for one in outcome:
        out.print(f"{'heal':<11}{one.host:<6} {one.told()}", markup=False)
    left = what_is_left(outcome)
    if left is not None:
        typer.echo(left, err=True)
    return 0 if left is None else 1


def chosen_hosts(inventory: Path | None, lab: str | None) -> Hosts:
    """Return the hosts of the given inventory or lab, of ./inventory.yaml, or of the running lab. Raises UsageError."""
    from squall.harness.run.run_hosts import standing_hosts

    return standing_hosts(inventory, lab)


# --- files, figures, lists -----------------------------------------------------------------------------------------


@suite_app.command("schema", epilog="Example: squall suite schema > suite.schema.json")
def schema() -> None:
    """Print the JSON Schema of suite files, for editors."""
    from squall.harness.scenario.suite import suite_schema

    typer.echo(json.dumps(suite_schema(), indent=2))


@app.command(
    epilog="Examples: squall bench · squall bench interpreter · squall bench verdict --json verdict.json · "
    "squall bench reconciliation --charts ."
)
def bench(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="by default, list the benchmarks")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="keep figures and samples")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="number of topic-partitions (controller); 2000000 is the published form")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of repetitions (controller); ten or more")] = None,
    operations: Annotated[
        int | None,
        typer.Option(min=10_000, help="number of operations (checker); smaller numbers have no limit to meet"),
    ] = None,
    billion: Annotated[bool, typer.Option("--billion", help="a billion operations as well (checker)")] = False,
    short: Annotated[bool, typer.Option("--short", help="the form that takes seconds (experiments)")] = False,
    system: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="measure only this one (two-million); repeatable")
    ] = None,
    zookeeper_servers: Annotated[
        int | None, typer.Option(min=1, max=5, help="servers of the ensemble (two-million); 1 by default")
    ] = None,
    zookeeper_round_trip: Annotated[
        float | None,
        typer.Option(min=0, max=1000, metavar="MS", help="lengthen the controller's way to ZooKeeper (two-million)"),
    ] = None,
    equal_timeouts: Annotated[
        bool, typer.Option("--equal-timeouts", help="all systems notice a failure after the same time (two-million)")
    ] = False,
    charts: Annotated[
        Path | None, typer.Option("--charts", metavar="DIRECTORY", help="draw the charts there (experiments)")
    ] = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
) -> int:
    """Run a benchmark and compare it with its required figures. Exit status 1 if one is missed."""
    from squall.harness.cli.regression import bench as bench_module
    from squall.harness.lake.adding import RowsAdder
    from squall.harness.lake.rows import of_benchmark

    out = console()
    if name is None:
        for known, about in bench_module.described():
            out.print(f"{known:<23}{about}", markup=False)
        return 0
    sizes = {"partitions": partitions, "rounds": rounds, "operations": operations, "billion": billion, "short": short}
    interrupted, failure = False, None
    rows = RowsAdder(lake_for_rows(lake, no_lake), out, "bench")
    try:
        measurements = bench_module.measure(
            name,
            **sizes,
            system=system,
            equal_timeouts=equal_timeouts,
            zookeeper_servers=zookeeper_servers,
            zookeeper_round_trip=zookeeper_round_trip,
        )
    except bench_module.Interrupted as early:
        measurements, interrupted, failure = early.measurements, True, early.failure
    bench_module.print_measurements(out, name, measurements)
    rows.add(lambda: of_benchmark(name, measurements, ended=not interrupted))
    if json_file is not None:
        from squall.harness.provenance import machine, versions

        bench_module.save(
            json_file, name, measurements, interrupted=interrupted, machine=machine(), versions=versions()
        )
    if charts is not None and not interrupted:
        for path in bench_module.draw(charts, name, measurements):
            out.print(f"written    {path}", markup=False, soft_wrap=True)
    if interrupted:
        how = "interrupted" if failure is None else "failed"
        out.print(f"{how}: {len(measurements)} figures were known by then; the others are missing")
        if failure is not None:
            raise failure
        return INTERRUPTED_EXIT_STATUS
    return 0 if all(one.passed for one in measurements) else 1


@app.command(
    epilog="Examples: squall forge --list · squall forge --operations 1000000 --seed 7 --anomaly lost_write OUT · "
    "squall forge --kind registers OUT · squall forge --verify --seeds 60 · squall forge --runs 10000 OUT"
)
def forge(
    out: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="the directory of the run; must be new")] = None,
    operations: Annotated[int, typer.Option(min=20, help="about how many operations")] = 1_000,
    seed: Annotated[int, typer.Option(help="the same seed forges the same history")] = 1,
    anomaly: Annotated[
        str | None, typer.Option(metavar="NAME", help="add this anomaly, injection or near-miss; see --list")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="the kind of operations; logs by default")] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="list what can be forged, and the expected verdicts")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="run the checks on all of it; exit 1 if any result is wrong")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="with --verify: seeds of each injection and near-miss")] = 60,
    clean: Annotated[int, typer.Option(min=1, help="with --verify: clean histories of each kind")] = 1_000,
    processes: Annotated[
        int | None, typer.Option(min=1, help="with --verify: how many at once; by default one for each core")
    ] = None,
    spark_master: ClusterOption = None,
    lake: AddToLakeOption = None,
    no_lake: NoLakeOption = False,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="forge the rows of so many runs in nights of 60, as a lake in OUT"),
    ] = None,
) -> int:
    """Make a history without a cluster: healthy, with one anomaly, or a near-miss; or verify the checks with them."""
    from squall.harness.cli.histories import forge as forge_module

    if show_list:
        return forge_module.list_cases(console())
    if verify:
        return forge_module.verify(
            seeds=seeds,
            clean=clean,
            kind=kind,
            processes=processes or os.cpu_count() or 1,
            console=console(),
            spark_master=spark_master,
            lake=lake_for_rows(lake, no_lake),
        )
    if spark_master is not None:
        raise UsageError("--spark-master is for --verify: forging runs on this host")
    if out is None:
        raise UsageError(
            "squall forge needs a directory to write to", remedy="squall forge OUT, or --list, or --verify"
        )
    if runs is not None:
        return forge_module.forge_lake(out, runs=runs, seed=seed, console=console())
    return forge_module.forge_run(
        out, operations=operations, seed=seed, case_name=anomaly, kind=kind, console=console()
    )


@app.command(
    "import",
    epilog="Examples: squall import jepsen store/latest/history.edn · squall import elle history.edn OUT · "
    "squall import porcupine etcd_000.log",
)
def import_(
    tool: Annotated[str, typer.Argument(metavar="jepsen|elle|porcupine", help="the tool that recorded the history")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="EDN, JSON, or lines of a log")],
    out: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="the directory of the run; must be new")] = None,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept, without OUT")] = Path("runs"),
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="consistency model of transactions; strict-serializable by default"),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(metavar="VALUE", help="initial value of registers; none by default")
    ] = None,
) -> int:
    """Turn another tool's history into a run, for squall check."""
    from squall.harness.cli.histories.importing import import_run

    return import_run(tool, file, out, runs=runs_dir, model=model, initial=initial, console=console())


app.command(
    "runs",
    epilog="Examples: squall runs · squall runs --since 7d --verdict invalid · squall runs --scenario torn-tail --json",
)(list_runs)
app.command(
    "sql",
    epilog='Examples: squall sql "select * from scenarios" · squall sql "select date, verdict, runs from verdicts"',
)(sql)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare)
app.command("flakes", epilog=FLAKES_EXAMPLES)(flakes)
app.command("gallery", epilog=GALLERY_EXAMPLES)(gallery)
app.command("mutants", epilog=MUTANTS_EXAMPLES)(mutants)
app.command("buggify", epilog=BUGGIFY_EXAMPLES)(buggify)
app.command("capabilities", epilog=CAPABILITIES_EXAMPLES)(capabilities)
app.command(
    "faults",
    cls=OptionalValues,
    epilog="Examples: squall faults · squall faults pause · squall faults --json · squall faults --verify --lab · "
    "squall faults --verify --lab --only 14 --only kill --json verified.json",
)(faults)
with_examples(app)


def main() -> None:
    """Run the command line; the entry point. Every way a command can end has an exit status."""
    install()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(finish(status_of(sys.argv[1:])))


def status_of(arguments: list[str]) -> int:
    """Carry out a command line and return its exit status; all failures are reported on standard error."""
    arguments, verbose = without_verbose(arguments)
    version = version_line() if verbose or arguments[:1] == ["--version"] else ""
    if arguments[:1] == ["--version"]:
        typer.echo(version)
        return 0
    try:
        with verbosely(arguments, version) if verbose else contextlib.nullcontext():
            result = command_line()(arguments or ["--help"], standalone_mode=False)
    except UsageError as wrong:
        complain(str(wrong))
        return USAGE_EXIT_STATUS
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_EXIT_STATUS
    except OSError as trouble:
        if (problem := file_problem(trouble)) is None:
            return crashed()
        complain(problem)
        return USAGE_EXIT_STATUS
    except Exception as trouble:
        if isinstance(trouble, CommandLineError):
            trouble.show()  # type: ignore[attr-defined]
            return USAGE_EXIT_STATUS
        return crashed()
    return result if isinstance(result, int) else 0


@functools.cache
def command_line() -> TyperGroup:
    """Return all commands with their parameters. To read them from the annotations takes 60 ms."""
    made = typer.main.get_command(app)
    assert isinstance(made, TyperGroup)
    return made


def version_line() -> str:
    """Return the versions of Squall and Python, and the commit."""
    from squall.harness import provenance

    return provenance.version_line()


def crashed() -> int:
    """Print the exception being handled as a bug of Squall. Return the exit status."""
    complain(f"squall crashed; this is a bug of Squall's, not yours.\n{traceback.format_exc()}")
    return CRASH_EXIT_STATUS


def complain(message: str) -> None:
    """Print to standard error, unchanged."""
    typer.echo(message, err=True)


if __name__ == "__main__":
    main()
