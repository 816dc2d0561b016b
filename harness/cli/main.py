"""The command line: `squall run`, `squall check` and the rest (HX-10).

This module registers the commands, which are in the folders beside it, and turns failures into exit statuses:

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
import signal
import sys
import traceback
from typing import Annotated

import typer
from typer.core import TyperGroup

from squall.harness.capabilities import command as capabilities
from squall.harness.cli.figures import commands as figures
from squall.harness.cli.figures import compare, flakes, lake
from squall.harness.cli.figures.trends import trends_app
from squall.harness.cli.histories import commands as histories
from squall.harness.cli.hosts import faults, inventory
from squall.harness.cli.hosts.cluster import cluster_app
from squall.harness.cli.hosts.lab import lab_app
from squall.harness.cli.nights import bundle, nightly
from squall.harness.cli.run import commands as runs
from squall.harness.cli.run.suite import suite_app
from squall.harness.cli.simulation import buggify, mutants
from squall.harness.cli.simulation import commands as simulation
from squall.harness.dashboard.command import dashboard_app
from squall.harness.errors import INTERRUPTED_EXIT_STATUS, USAGE_EXIT_STATUS, UsageError, file_problem
from squall.harness.gallery import command as gallery
from squall.harness.terminal.help_text import with_examples
from squall.harness.terminal.lock_options import WithWait
from squall.harness.terminal.terminal import finish, install
from squall.harness.terminal.verbosity import verbosely, without_verbose

CRASH_EXIT_STATUS = 255

# The error of a wrong command line, found by ancestry: typer depends on click or vendors it, depending on its version.
CommandLineError = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="squall",
    help="A chaos and benchmark testbed for replicated logs. Start with: squall run suites/quickstart.yaml",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(lab_app, name="lab")
app.add_typer(inventory.inventory_app, name="inventory")
app.add_typer(suite_app, name="suite")
app.add_typer(cluster_app, name="cluster")
app.add_typer(lake.lake_app, name="lake")
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


# In the order of `squall --help`, where the groups above come first.
app.command("run", cls=WithWait, epilog=runs.RUN_EXAMPLES)(runs.run)
app.command("nightly", cls=nightly.CommandOfNights, epilog=nightly.EXAMPLES)(nightly.nightly)
app.command("bundle", epilog=bundle.EXAMPLES)(bundle.bundle)
app.command("check", epilog=runs.CHECK_EXAMPLES)(runs.check)
app.command("show", epilog=runs.SHOW_EXAMPLES)(runs.show)
app.command("timeline", epilog=runs.TIMELINE_EXAMPLES)(runs.timeline)
app.command("plan", epilog=runs.PLAN_EXAMPLES)(runs.plan)
app.command("simulate", cls=buggify.CommandWithBuggify, epilog=simulation.SIMULATE_EXAMPLES)(simulation.simulate)
app.command("shrink", epilog=simulation.SHRINK_EXAMPLES)(simulation.shrink)
app.command("why", epilog=simulation.WHY_EXAMPLES)(simulation.why)
app.command("watch", epilog=runs.WATCH_EXAMPLES)(runs.watch)
app.command("explore", epilog=simulation.EXPLORE_EXAMPLES)(simulation.explore)
app.command("heal", epilog=inventory.HEAL_EXAMPLES)(inventory.heal)
app.command("bench", epilog=figures.BENCH_EXAMPLES)(figures.bench)
app.command("forge", epilog=histories.FORGE_EXAMPLES)(histories.forge)
app.command("import", epilog=histories.IMPORT_EXAMPLES)(histories.import_)
app.command("runs", epilog=lake.RUNS_EXAMPLES)(lake.list_runs)
app.command("sql", epilog=lake.SQL_EXAMPLES)(lake.sql)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("flakes", epilog=flakes.EXAMPLES)(flakes.flakes)
app.command("gallery", epilog=gallery.EXAMPLES)(gallery.gallery)
app.command("mutants", epilog=mutants.EXAMPLES)(mutants.mutants)
app.command("buggify", epilog=buggify.EXAMPLES)(buggify.buggify)
app.command("capabilities", epilog=capabilities.EXAMPLES)(capabilities.capabilities)
app.command("faults", cls=faults.OptionalValues, epilog=faults.EXAMPLES)(faults.faults)
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
