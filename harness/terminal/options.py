"""Options that commands of several groups share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

InventoryOption = Annotated[
    Path | None, typer.Option("--inventory", "-i", metavar="FILE", help="run on these hosts instead of a local lab")
]
LabOption = Annotated[
    str | None, typer.Option("--lab", metavar="NAME", help="run on the existing lab of this name, which stays up")
]
OnlyOption = Annotated[str | None, typer.Option(metavar="NAME", help="only the scenario of this name")]
ClusterOption = Annotated[
    str | None, typer.Option("--spark-master", metavar="URL", help="on this Spark cluster instead of this host's cores")
]
