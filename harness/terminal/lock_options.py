"""`--wait`, for commands that lock hosts: alone it waits without limit, with a number for so many seconds.

typer's options have a value or none; `WithWait` permits this option to stand alone, as in `squall run SUITE --wait`.
"""

from __future__ import annotations

import math
from typing import Annotated

import typer

from squall.harness.errors import UsageError
from squall.harness.terminal.help_text import CommandWithExamples

WAIT = "--wait"
WITHOUT_END = "forever"

WaitOption = Annotated[
    str | None,
    typer.Option(metavar="[SECONDS]", help="wait for hosts in use, at most this long if given; without it, exit 254"),
]


class WithWait(CommandWithExamples):
    """A command whose `--wait` may stand alone."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, with_wait(args))


def with_wait(arguments: list[str]) -> list[str]:
    """Return the arguments with a value behind each `--wait` that no number follows."""
    filled: list[str] = []
    for place, word in enumerate(arguments):
        filled.append(word)
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if word == WAIT and not following[:1].isdecimal():
            filled.append(WITHOUT_END)
    return filled


def seconds_to_wait(given: str | None) -> float | None:
    """Return None for no waiting, infinity for waiting without limit. Raises UsageError."""
    if given is None:
        return None
    if given == WITHOUT_END:
        return math.inf
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(f"--wait={given}: must be a number of seconds, such as 600", remedy="or --wait alone, no end")
    return seconds
