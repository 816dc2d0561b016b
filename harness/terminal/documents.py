"""`--json`: one JSON document on standard output and nothing else; lines for people go to standard error."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

JsonOption = Annotated[
    bool, typer.Option("--json", help="print one JSON document; lines for people go to standard error")
]


def print_document(document: Any) -> None:
    """Print a document."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
