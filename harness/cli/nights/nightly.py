"""`squall nightly`: run suites and other work within a budget, on hosts that a hook provides; resume; report."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.lock_options import WaitOption, WithWait, seconds_to_wait
from squall.nemesis.core.durations import parse_duration

if TYPE_CHECKING:
    from squall.harness.nightly.ledger.items import Item
    from squall.harness.nightly.night import NightOptions

EXAMPLES = (
    "Examples: squall nightly suites/nightly.yaml --budget 20m · squall nightly suites/nightly.yaml --dry-run · "
    "squall nightly suites/nightly.yaml --simulate --clusters 2 · "
    "squall nightly suites/nightly.yaml --system kafka --repeat 5 · "
    "squall nightly night.yaml --shard 1/3 --provision ./up.sh --teardown ./down.sh --price-per-hour 1.30 · "
    "squall nightly --resume"
)

FOREVER_S = 1e7
"""`--wait` without a number; JSON has no infinity."""

JunitOption = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="write JUnit XML to this file, too")]


class CommandOfNights(WithWait):
    """`squall nightly`; its `--wait` may stand alone."""


def nightly(
    suite: Annotated[
        str | None, typer.Argument(metavar="[SUITE]", help="a suite, or the file of a night; see docs/nightly.md")
    ] = None,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="how long it may take, such as 20m")] = None,
    max_cost: Annotated[float | None, typer.Option(metavar="MONEY", min=0.01, help="what it may cost")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(metavar="MONEY", min=0, help="what all hosts together cost an hour")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the plan with time and cost; start nothing, contact no host")
    ] = False,
    simulate: Annotated[bool, typer.Option("--simulate", help="run all scenarios in simulation")] = False,
    system: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="test this system: kafka, kafka:VERSION; what it cannot have is left out"),
    ] = None,
    inventory: Annotated[
        Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="run on these hosts, not on local labs")
    ] = None,
    lab: Annotated[str | None, typer.Option(metavar="NAME", help="run on the lab of this name, which stays up")] = None,
    clusters: Annotated[
        str | None,
        typer.Option(metavar="A,B|N", help="several at once: inventories, lab:NAME, or so many local labs"),
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="only this share, distributed by durations")] = None,
    seed: Annotated[int | None, typer.Option(help="the seed of the night; random by default")] = None,
    repeat: Annotated[int | None, typer.Option(min=1, max=1000, help="run each scenario with so many seeds")] = None,
    retry: Annotated[
        int | None, typer.Option(min=0, max=1, help="how often an unknown or an error is retried; once by default")
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="begin nothing after the first failure")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the last night, which was interrupted")] = False,
    new: Annotated[bool, typer.Option("--new", help="begin a night even if one was interrupted")] = False,
    rerun_failed: Annotated[
        bool, typer.Option("--rerun-failed", help="a new night of what failed in the last one, with its seeds")
    ] = False,
    provision: Annotated[
        str | None, typer.Option(metavar="CMD", help="make hosts; prints Terraform's outputs or Ansible's inventory")
    ] = None,
    teardown: Annotated[
        str | None, typer.Option(metavar="CMD", help="end the hosts; runs exactly once, whatever happens")
    ] = None,
    gone: Annotated[
        str | None, typer.Option(metavar="CMD", help="gets unreachable hosts as JSON, prints those that are gone")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="CMD", help="at the end; gets night.json on standard input")
    ] = None,
    hook_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="how long a hook may take; 10m by default")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="the guard ends the night and tears down after this time")
    ] = None,
    nights: Annotated[Path, typer.Option(metavar="DIR", help="where nights are kept")] = Path("runs/nights"),
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("runs"),
    lake: Annotated[Path, typer.Option("--lake", metavar="DIR", help="the lake's directory")] = Path("runs/lake"),
    junit: JunitOption = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="trim nothing, not even of runs that passed")] = False,
    wait: WaitOption = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="check without Spark")] = False,
    spark_master: Annotated[str | None, typer.Option(metavar="URL", help="check on this Spark cluster")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="simulation: how many seeds at once; by default one for each core")
    ] = None,
) -> int:
    """Run a night: choose by value within a budget, run, retry, tear down, report. The same command resumes it.

    Exit status: 0 all as expected, 1 a violation, 2 unknown, 254 refused.
    """
    from squall.harness.nightly.night import NightOptions, clusters_of
    from squall.harness.nightly.plan.sharding import parse_shard
    from squall.harness.scenario.inventory import refuse_two_places
    from squall.harness.scenario.plan import choose_seed

    if suite is None:
        if not resume:
            raise UsageError("no suite is named", remedy="squall nightly SUITE, or --resume for the last night")
        return _resume(nights.resolve(), None, dry_run=dry_run)
    refuse_two_places(inventory, lab)
    if clusters is not None and (inventory is not None or lab is not None):
        raise UsageError("--clusters names the places; leave out --inventory and --lab")
    if shard is not None:
        parse_shard(shard)
    patience = seconds_to_wait(wait)
    names = tuple(clusters.split(",")) if clusters else (str(inventory.resolve()),) if inventory is not None else ()
    clusters_of(names, Path.cwd())
    options = NightOptions(
        suite=suite,
        command=shlex.join(["squall", *sys.argv[1:]]),
        directory=str(Path.cwd()),
        seed=choose_seed(seed),
        world="simulation" if simulate else None,
        system=system,
        clusters=names,
        lab=lab,
        budget_s=_seconds("--budget", budget),
        money=max_cost,
        price_per_hour=price_per_hour,
        provision=provision,
        teardown=teardown,
        gone=gone,
        webhook=webhook,
        hook_timeout_s=_seconds("--hook-timeout", hook_timeout),
        deadline_s=_seconds("--deadline", deadline),
        shard=shard,
        repeat=repeat,
        retry=retry,
        fail_fast=fail_fast,
        keep_all=keep_all,
        nights=str(nights.resolve()),
        runs=str(runs_dir.resolve()),
        lake=str(lake.resolve()),
        junit=None if junit is None else str(junit.resolve()),
        wait=None if patience is None else min(patience, FOREVER_S),
        in_process=in_process,
        spark_master=spark_master,
        processes=processes,
    )
    if not (new or rerun_failed):
        from squall.harness.nightly.night import night_to_resume

        if night_to_resume(nights.resolve(), options.key) is not None:
            return _resume(nights.resolve(), options, dry_run=dry_run, seeded=seed is not None)
        if resume:
            raise UsageError(f"--resume: no night of {suite} was interrupted", remedy="leave it out to begin one")
    return _begin(options, dry_run=dry_run, rerun=rerun_failed)


def _begin(options: NightOptions, *, dry_run: bool, rerun: bool) -> int:
    """Plan a new night, look at all that it needs, and run it."""
    import msgspec

    from squall.harness.nightly.night import Night, items_that_failed, plan_night, print_plan
    from squall.harness.nightly.preflight import preflight
    from squall.results.history.store import claim_run

    again: list[Item] = []
    if rerun and not (again := items_that_failed(Path(options.nights), options.key)):
        _say("nothing failed in the last night")
        return 0
    plan = plan_night(options, again=again)
    print_plan(options, plan, _say)
    if dry_run:
        return 0
    if not plan.chosen:
        raise UsageError("the budget allows no item", remedy="allow more: --budget, --max-cost")
    night = Night(Path(options.nights) / plan.night, options, _say)
    places = options.places(night.file)
    preflight(night.needs([one.item for one in plan.chosen], places), _say, hosts=not night.hooks.provision)
    directory = claim_run(Path(options.nights) / plan.night)
    night, plan = Night(directory, options, _say), msgspec.structs.replace(plan, night=directory.name)
    _say(f"{'night':<11}{night.directory}   seed {options.seed}")
    return night.run(plan)


def _resume(nights: Path, given: NightOptions | None, *, dry_run: bool, seeded: bool = False) -> int:
    """Go on with the last night, with the options that it was begun with, but for the file that `--junit` names now.

    `given` are the options of the command line now, `seeded` whether it names a seed; other values than those at the
    beginning are told, since they do not apply.
    """
    import msgspec

    from squall.harness.nightly.ledger.ledger import Planned, is_under_way, owner_of, read_ledger
    from squall.harness.nightly.night import (
        Night,
        NightOptions,
        describe_unfinished,
        night_to_resume,
        options_that_differ,
    )

    directory = night_to_resume(nights, None if given is None else given.key)
    if directory is None:
        raise UsageError(f"--resume: the last night in {nights} has finished, or there is none")
    if is_under_way(directory):
        raise UsageError(
            f"{directory}: this night is under way: {owner_of(directory)}",
            remedy="wait for it, or begin another with --new",
        )
    _say(f"{'resume':<11}{describe_unfinished(directory)}; --new begins another")
    first = read_ledger(directory)[0]
    assert isinstance(first, Planned)
    options = msgspec.convert(first.options, NightOptions)
    if given is not None:
        if ignored := options_that_differ(options, given, seeded=seeded):
            _say(f"{'resume':<11}as it was begun, not as given now: {', '.join(ignored)}")
        options = msgspec.structs.replace(options, junit=given.junit or options.junit)
    if dry_run:
        return 0
    with contextlib.chdir(options.directory):  # where its suites are named from
        return Night(directory, options, _say).run(None)


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(parse_duration(text))  # type: ignore[arg-type]
    except ValueError as wrong:
        raise UsageError(f"{option} {text}: {wrong}") from None


def _say(line: str) -> None:
    console().print(line, markup=False, highlight=False, soft_wrap=True)
