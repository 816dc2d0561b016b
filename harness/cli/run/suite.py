"""`squall suite`: what a suite file may hold."""

from __future__ import annotations

import json

import typer

suite_app = typer.Typer(help="Suite files.", epilog="Example: squall suite schema")


@suite_app.command("schema", epilog="Example: squall suite schema > suite.schema.json")
def schema() -> None:
    """Print the JSON Schema of suite files, for editors."""
    from squall.harness.scenario.suite import suite_schema

    typer.echo(json.dumps(suite_schema(), indent=2))
