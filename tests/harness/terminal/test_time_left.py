"""Bars with the time left are for terminals."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from squall.harness.terminal.time_left import share_done, time_left


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_for_terminals(terminal: bool) -> None:
    said = StringIO()
    console = Console(file=said, force_terminal=terminal, width=100)
    with time_left(console, "verify", 3, "cases") as advance:
        for _ in range(3):
            advance()
    with share_done(console, "compare") as on_progress:
        on_progress(1.0)
    assert ("3/3" in said.getvalue()) is terminal
    assert ("100%" in said.getvalue()) is terminal
