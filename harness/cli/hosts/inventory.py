"""`squall inventory` and `squall heal`: what hosts can do, their keys, and the end of every fault on them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from squall.harness.terminal.console import console
from squall.harness.terminal.options import InventoryOption, LabOption

if TYPE_CHECKING:
    from squall.harness.run.run import Hosts

inventory_app = typer.Typer(help="The hosts of inventory.yaml.", epilog="Example: squall inventory check")
HEAL_EXAMPLES = "Example: squall heal --inventory inventory.yaml"


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
