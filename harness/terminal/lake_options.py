"""What commands that read the lake share: its option, days on the command line, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.console import console

DEFAULT_LAKE = Path("runs/lake")
DURATION_UNITS = {"d": 1, "w": 7}

LakeOption = Annotated[Path, typer.Option("--lake", metavar="DIR", help="the lake's directory")]


def parse_day(text: str, option: str, today: date | None = None) -> date:
    """Parse a day, or an age in days or weeks. Raises UsageError."""
    number, unit = text[:-1], text[-1:]
    if unit in DURATION_UNITS and number.isdecimal():
        return (today or datetime.now(UTC).date()) - timedelta(days=int(number) * DURATION_UNITS[unit])
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text}: is neither a day nor an age", remedy="write 2026-11-01, 30d or 4w"
        ) from None


def say(line: str) -> None:
    """Print a line about the lake's files."""
    console().print(f"{'lake':<11}{line}", markup=False, soft_wrap=True)


def say_aside(line: str) -> None:
    """Print a line about the lake's files to standard error."""
    typer.echo(f"{'lake':<11}{line}", err=True)


def open_lake(lake: Path, *, say: Callable[[str], None] = say) -> Any:
    """Open a lake in a directory. Raises UsageError if there is none."""
    from squall.results.lake.published import is_url
    from squall.results.lake.store import Lake

    if is_url(str(lake)):
        problem = f"{lake}: is a URL, and this command works on a lake in a directory"
        raise UsageError(problem, remedy="query a published lake with squall sql --lake URL")
    opened = Lake(lake, say=say)
    if not opened.exists:
        raise UsageError(
            f"{lake}: there is no lake",
            remedy="squall run adds its runs to one; of earlier runs: squall lake rebuild runs",
        )
    return opened


@contextmanager
def opened(lake: Path, *, as_json: bool = False) -> Iterator[Any]:
    """Open a lake while it is used. Raises UsageError if there is none or it cannot be used.

    What the lake says of its files goes to standard error if standard output is for JSON.
    """
    from squall.results.lake.store import LakeTrouble

    try:
        yield open_lake(lake, say=say_aside if as_json else say)
    except LakeTrouble as trouble:
        raise UsageError(str(trouble)) from None


def runs_in(directory: Path) -> Iterator[Path]:
    """Yield the runs at, in, or two levels below a directory. Raises UsageError if it is not one."""
    from squall.results.history.manifest import MANIFEST_FILE

    if not directory.is_dir():
        raise UsageError(f"{directory}: is not a directory", remedy="name the directory of runs, such as runs")
    for pattern in ("", "*", "*/*"):
        yield from (path.parent for path in directory.glob(f"{pattern}/{MANIFEST_FILE}".lstrip("/")))
