"""Show how far a long piece of work is and how much time is left, on a terminal only.

with time_left(console, "verify", len(cases), "cases") as advance:
    for case in cases:
        …
        advance()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def time_left(console: Console, what: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """Show a bar while the work goes on; call what this yields after each part."""
    with Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def share_done(console: Console, what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while the work goes on; call what this yields with the share that is done, 0 to 1."""
    with Progress(
        TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)
