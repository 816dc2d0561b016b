"""Parameters of `squall run`, check, show, timeline, plan and watch; each imports what carries it out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from squall.harness.cli.nights.nightly import JunitOption
from squall.harness.errors import INTERRUPTED_EXIT_STATUS, UsageError
from squall.harness.lake.options import AddToLakeOption, NoLakeOption, lake_for_rows
from squall.harness.terminal.console import console
from squall.harness.terminal.documents import JsonOption, print_document
from squall.harness.terminal.lake_options import DEFAULT_LAKE, LakeOption
from squall.harness.terminal.lock_options import WaitOption, seconds_to_wait
from squall.harness.terminal.options import InventoryOption, LabOption, OnlyOption


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
SparkOption = Annotated[str | None, typer.Option(metavar="URL", help="check on this Spark cluster instead of local[*]")]
InProcessOption = Annotated[bool, typer.Option("--in-process", help="check in this process, without Spark")]

RUN_EXAMPLES = (
    "Examples: squall run suites/quickstart.yaml · squall run suites/quickstart.yaml --seed 4711 · "
    "squall run suites/leader-kill-lagging.yaml --only leader-kill-lagging --inventory inventory.yaml · "
    "squall run suites/quickstart.yaml --system kafka · "
    "squall run suites/smoke.yaml --lab default · squall run suites/smoke.yaml --dry-run"
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


CHECK_EXAMPLES = "Examples: squall check runs/latest · squall check runs/quickstart/* --in-process"


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


SHOW_EXAMPLES = "Examples: squall show runs/latest · squall show runs/latest events-3@20410..20425"


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the directory of a run")],
    rows: Annotated[str | None, typer.Argument(metavar="[ROWS]", help="TOPIC-PARTITION[@OFFSET[..OFFSET]]")] = None,
    as_json: JsonOption = False,
) -> int:
    """Print a run's verdict in words, or the operations at some offsets."""
    from squall.harness.cli.run.check import show_run

    return show_run(run, rows, console(aside=as_json), as_json=as_json)


TIMELINE_EXAMPLES = (
    "Examples: squall timeline runs/latest · squall timeline runs/latest --from 10s --to 20s --host b1 · "
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


PLAN_EXAMPLES = "Examples: squall plan suites/quickstart.yaml --seed 4711 · squall plan suites/smoke.yaml --dry-run"


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


WATCH_EXAMPLES = (
    "Examples: squall watch runs/latest · squall watch 2 --suite two-hop-failover --mutant truncate-to-hw · "
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
