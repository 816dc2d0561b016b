"""`squall capabilities`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from squall.harness.terminal.console import console

EXAMPLES = "Examples: squall capabilities · squall capabilities --json"


def capabilities(
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document instead")] = False,
) -> int:
    """Say which kinds of disaggregation the nodes have, with evidence. Exit status 1 if one differs from Kafka's."""
    from squall.harness.capabilities import checks

    found = checks.capabilities()
    if as_json:
        typer.echo(json.dumps([{**asdict(one), "passed": one.passed} for one in found], indent=2))
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("", "capability", "", "evidence"):
            table.add_column(heading, overflow="fold")
        for one in found:
            answer = ("yes" if one.holds else "no") + ("" if one.passed else " ✘")
            table.add_row(one.id, one.name, answer, one.evidence)
        console().print(table)
    return 0 if all(one.passed for one in found) else 1
