"""`squall faults`: show the catalogue of faults, show one kind in full, or verify every fault on hosts.

`--lab` and `--json` stand alone or with a value, which typer's options cannot: `OptionalValues` supplies a value.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console
from squall.harness.terminal.help_text import CommandWithExamples
from squall.harness.terminal.lock_options import WaitOption, seconds_to_wait, with_wait

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = (
    "Examples: squall faults · squall faults pause · squall faults --json · squall faults --verify --lab · "
    "squall faults --verify --lab --only 14 --only kill --json verified.json"
)
OWN_LAB = "(its own)"
STANDARD_OUTPUT = "-"
WITHOUT_VALUE = {"--lab": OWN_LAB, "--json": STANDARD_OUTPUT}


class OptionalValues(CommandWithExamples):
    """A command whose `--lab` and `--json` may be given without a value."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, with_wait(with_values(args)))


def with_values(arguments: list[str]) -> list[str]:
    """Return the arguments with a value behind every option of `WITHOUT_VALUE` that stands alone."""
    filled: list[str] = []
    for place, word in enumerate(arguments):
        filled.append(word)
        following = arguments[place + 1] if place + 1 < len(arguments) else None
        if word in WITHOUT_VALUE and (following is None or (following.startswith("-") and following != "-")):
            filled.append(WITHOUT_VALUE[word])
    return filled


def faults(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="describe one kind of fault in full")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="inject, observe and heal every row of the catalogue that has a trial")
    ] = False,
    lab: Annotated[
        str | None,
        typer.Option(metavar="[NAME]", help="use the lab of this name; without a name, make one for this command"),
    ] = None,
    inventory: Annotated[
        Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="use these hosts instead of a lab")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROW", help="verify only this: a row's number or name, or a fault; may be given again"),
    ] = None,
    idle_nemesis: Annotated[
        bool, typer.Option("--idle-nemesis", help="a control: claim every fault and inject none; none may be verified")
    ] = False,
    seed: Annotated[int, typer.Option(help="the seed of random choices in trials")] = 1,
    runs_dir: Annotated[Path, typer.Option(metavar="DIR", help="where runs are kept")] = Path("runs"),
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="[FILE]", help="print JSON, to this file or to standard output")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="update the tables in this file, such as docs/faults.md"),
    ] = None,
    wait: WaitOption = None,
) -> int:
    """List the catalogue of faults with the driver of these hosts for each, or why they have none.

    With --verify, run each row's trial on a cluster under light load, with evidence before, during and after.
    Exit status: 0 if every fault that the hosts can do was verified, 1 if one was not, 130 if interrupted.
    """
    from squall.harness.catalogue.listing import show_catalogue, show_kind

    out = console()
    if markdown is not None:
        from squall.harness.catalogue.markdown import update

        out.print(
            f"{'tables':<11}{markdown}: {'brought up to date' if update(markdown) else 'up to date'}", markup=False
        )
        return 0
    if verify:
        _refuse_name(name)
        return _verify(only or [], lab, inventory, seed, runs_dir, json_file, idle_nemesis, out, wait)
    if only:
        raise UsageError("--only chooses what to verify", remedy="squall faults --verify --only ROW")
    if name is not None:
        show_kind(out, name, as_json=json_file is not None)
        return 0
    show_catalogue(out, _own(lab), inventory, json_file)
    return 0


def _verify(
    only: list[str],
    lab: str | None,
    inventory: Path | None,
    seed: int,
    runs_dir: Path,
    json_file: str | None,
    idle_nemesis: bool,
    out: Console,
    wait: str | None,
) -> int:
    from squall.harness.cli.hosts.verify_faults import VerifyFaults
    from squall.harness.scenario.inventory import load_inventory, refuse_two_places

    refuse_two_places(inventory, _own(lab))
    if json_file == STANDARD_OUTPUT:
        raise UsageError("--json: a verification tells how far it is on the screen", remedy="--json FILE")
    verification = VerifyFaults(
        only,
        inventory=load_inventory(inventory) if inventory is not None else None,
        lab=_own(lab),
        seed=seed,
        runs_directory=runs_dir,
        json_file=Path(json_file) if json_file is not None else None,
        idle_nemesis=idle_nemesis,
        console=out,
        wait=seconds_to_wait(wait),
    )
    return verification.run()


def _own(lab: str | None) -> str | None:
    return None if lab == OWN_LAB else lab


def _refuse_name(name: str | None) -> None:
    if name is not None:
        raise UsageError(f"{name}: --verify takes no NAME", remedy=f"squall faults --verify --only {name}")
