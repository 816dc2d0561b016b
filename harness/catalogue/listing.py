"""`squall faults`: print the catalogue's rows and the kinds of faults as tables or JSON, and one kind in full."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from squall.harness.catalogue.abilities import Abilities, ask_hosts
from squall.harness.catalogue.describe import example_of, in_simulation, kinds_by_name, options_of, rows_of
from squall.harness.catalogue.trials import trial_of, why_not
from squall.harness.errors import UsageError
from squall.harness.lab.lab import check_machine, find_lab, private_lab
from squall.harness.plugins.fault_plugins import FAULT_PLUGINS, plugin_kinds
from squall.harness.run.run_hosts import Hosts, standing_hosts
from squall.harness.scenario.inventory import Inventory
from squall.harness.terminal.display import CHECK, CROSS, LABEL_WIDTH
from squall.harness.yaml_source import suggestion
from squall.nemesis.catalogue import ROWS, CatalogueRow
from squall.nemesis.entries import nearest_fault
from squall.nemesis.faults.kind import Kind
from squall.nemesis.registry import KINDS


@contextmanager
def hosts_to_ask(lab: str | None, inventory: Path | None) -> Iterator[Hosts | None]:
    """Provide the hosts of a name or file, of the running lab, or of a small new lab; None if there can be none."""
    if lab is not None or inventory is not None or find_lab() is not None:
        yield standing_hosts(inventory, lab)
        return
    try:
        check_machine()
    except UsageError:
        yield None
        return
    with private_lab(controllers=1, brokers=1) as small:
        yield Hosts(small.inventory(), small.network, small)


def show_catalogue(out: Console, lab: str | None, inventory: Path | None, json_file: str | None) -> None:
    """Show all rows and kinds, with the drivers of these hosts. Raises UsageError for hosts that do not respond."""
    with hosts_to_ask(lab, inventory) as hosts:
        abilities = asyncio.run(ask_hosts(hosts.inventory, hosts.network)) if hosts is not None else None
        listed = catalogue_as_json(abilities, hosts.inventory if hosts is not None else None)
    if json_file is None:
        _print_kinds(out, listed)
        _print_rows(out, listed)
    elif json_file == "-":
        typer.echo(json.dumps(listed, indent=2))
    else:
        Path(json_file).write_text(json.dumps(listed, indent=2) + "\n")


def catalogue_as_json(abilities: Abilities | None, inventory: Inventory | None) -> dict[str, Any]:
    """Return what the tables show. Without hosts, drivers are left out."""
    return {
        "hosts": abilities.source if abilities is not None else None,
        "kinds": [
            *(_listed_kind(kind, abilities) for kind in KINDS),
            *(_listed_plugin(name, kind, problem, abilities) for name, kind, problem in plugin_kinds()),
        ],
        "rows": [_row_as_json(row, abilities, inventory) for row in ROWS],
    }


def _listed_kind(kind: Kind, abilities: Abilities | None) -> dict[str, Any]:
    return {
        "name": kind.name,
        "what": kind.what,
        "driver": abilities.driver(kind) if abilities is not None else kind.on_hosts,
        "why_not": abilities.why_not_kind(kind) if abilities is not None else "",
        "simulation": in_simulation(kind),
        "rows": [row.number for row in rows_of(kind)],
    }


def _listed_plugin(name: str, kind: Kind | None, problem: str, abilities: Abilities | None) -> dict[str, Any]:
    """A fault of an installed package, or why it cannot be used."""
    package = {"package": FAULT_PLUGINS.origin(name)}
    if kind is not None:
        return _listed_kind(kind, abilities) | package
    unusable = {"what": "", "driver": "", "why_not": problem, "simulation": False, "rows": []}
    return {"name": name, **unusable, **package}


def _row_as_json(row: CatalogueRow, abilities: Abilities | None, inventory: Inventory | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"row": row.number, "name": row.name, "trial": dict(row.trial), "why_not": row.why_not}
    shown["in_every_run"] = row.in_every_run
    if row.trial and abilities is not None and inventory is not None:
        shown["why_not"] = why_not(trial_of(row, inventory, seed=1), abilities)
    return shown


def _print_kinds(out: Console, listed: dict[str, Any]) -> None:
    where = f"as {listed['hosts']} would do it" if listed["hosts"] else "no hosts to ask: drivers as they should be"
    table = Table(title=f"Kinds of faults, {where}", title_justify="left", box=None, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("what it does")
    table.add_column("driver")
    table.add_column("rows")
    for kind in listed["kinds"]:
        driver = _mark(kind["why_not"], kind["driver"])
        what = f"{kind['what']} ({kind['package']})".strip() if "package" in kind else kind["what"]
        table.add_row(kind["name"], Text(what), driver, ", ".join(map(str, kind["rows"])))
    out.print(table)
    out.print()


def _print_rows(out: Console, listed: dict[str, Any]) -> None:
    table = Table(title="Known faults, and what covers them here", title_justify="left", box=None, pad_edge=False)
    table.add_column("row", justify="right")
    table.add_column("trouble")
    table.add_column("trial")
    for row in listed["rows"]:
        table.add_row(str(row["row"]), row["name"], _mark(row["why_not"], row["in_every_run"] or _entry(row["trial"])))
    out.print(table)
    able = sum(not row["why_not"] for row in listed["rows"])
    out.print(f"{able} of {len(listed['rows'])} rows can be shown here: squall faults --verify --lab", markup=False)


def _entry(trial: Any) -> str:
    """Format as `kill, target: b1`."""
    if not isinstance(trial, dict) or "fault" not in trial:
        return json.dumps(trial)
    return ", ".join([trial["fault"], *(f"{key}: {value}" for key, value in trial.items() if key != "fault")])


def _mark(why_not: str, able: str) -> Text:
    return Text(f"{CROSS} {why_not}", style="yellow") if why_not else Text(f"{CHECK} {able}")


def show_kind(out: Console, name: str, *, as_json: bool) -> None:
    """One kind of fault in full. Raises UsageError for a name that there is not."""
    problem = FAULT_PLUGINS.problem(name) if name in FAULT_PLUGINS.names else ""
    if problem:
        raise UsageError(problem)
    kind = kinds_by_name().get(name)
    if kind is None:
        near = nearest_fault(name)
        hint = f"; did you mean `{near}`?" if near else suggestion(name, kinds_by_name())
        raise UsageError(f"unknown fault {name!r}{hint}", remedy="squall faults lists them all")
    if as_json:
        typer.echo(json.dumps(kind_as_json(kind), indent=2))
        return
    for label, text in (
        ("fault", kind.name),
        ("does", kind.what),
        ("on hosts", kind.on_hosts),
        ("evidence", kind.proof),
        ("limits", kind.limits or "none known"),
        ("verbs", ", ".join(kind.verbs) or "none: the cluster is asked, or other verbs than of faults do"),
        ("simulation", "yes" if in_simulation(kind) else "no: only hosts can do it"),
        *((("package", FAULT_PLUGINS.origin(name)),) if name in FAULT_PLUGINS.names else ()),
        ("rows", "; ".join(f"{row.number} {row.name}" for row in rows_of(kind)) or "none of the field's own"),
    ):
        out.print(f"{label:<{LABEL_WIDTH}}{text}", markup=False)
    out.print(_options_table(kind))
    out.print(f"{'example':<{LABEL_WIDTH}}- {example_of(kind)}", markup=False)


def _options_table(kind: Kind) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("option", "values", "default"):
        table.add_column(heading)
    for option in options_of(kind.options):
        cells = (option.name, option.values.replace("`", ""), option.default or "must be given")
        table.add_row(*map(Text, cells))
    table.add_row("at, for, repeat, as", "when, how long, again, its name", "for: 10s")
    return table


def kind_as_json(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.name,
        "what": kind.what,
        "on_hosts": kind.on_hosts,
        "evidence": kind.proof,
        "limits": kind.limits,
        "verbs": list(kind.verbs),
        "simulation": in_simulation(kind),
        "rows": [row.number for row in rows_of(kind)],
        "options": [asdict(one) for one in options_of(kind.options)],
        "example": example_of(kind),
    }
