"""Nights for tests: plans, ledgers of events, and items that are commands of the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.harness.nightly.ledger.items import Ending, Item, Outcome
from squall.harness.nightly.ledger.ledger import LEDGER, Begun, Choice, Ended, Event, Planned, Session

SQUALL = (sys.executable, "-m", "squall.harness.cli.main")


def item(id: str, **more: Any) -> Item:
    return Item(**{"id": id, "kind": "command", "name": id, "command": "true", "seed": 7, **more})


def plan(*items: Item, **more: Any) -> Planned:
    chosen = tuple(Choice(item=one, seconds=one.usual_s, value=1.0, why="never run") for one in items)
    return Planned(
        **{"at": 1.0e9, "night": "n", "key": "k", "suite": "s.yaml", "command": "c", "chosen": chosen, **more}
    )


def working(at: float = 1.0e9) -> Session:
    return Session(at=at, pid=1, host="h")


def begun(name: str, attempt: int = 1, at: float = 1.0e9 + 1) -> Begun:
    return Begun(at=at, item=name, attempt=attempt, cluster="c", pid=2**22 + 5, pid_started=1)


def ended(name: str, ending: Ending, attempt: int = 1, at: float = 1.0e9 + 3, **more: Any) -> Ended:
    outcome = Outcome(ending=ending, **more)
    return Ended(at=at, item=name, attempt=attempt, seconds=2.0, as_expected=ending == "valid", outcome=outcome)


def attempts(name: str, *endings: Ending) -> list[Event]:
    events: list[Event] = []
    for number, ending in enumerate(endings, 1):
        events += [begun(name, number), ended(name, ending, number)]
    return events


def write_night(directory: Path, commands: Sequence[str], name: str = "fake", **more: Any) -> Path:
    """Write the file of a night of commands."""
    parts = [{"command": text, "name": f"item-{number}", "usual": 1} for number, text in enumerate(commands, 1)]
    path = directory / "night.yaml"
    path.write_text(json.dumps({"night": name, "parts": parts, **more}))
    return path


def squall(directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end, in a process of its own."""
    import os

    return subprocess.run(
        [*SQUALL, *words],
        cwd=directory,
        env={**os.environ, "GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": "", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def the_night(directory: Path) -> Path:
    """Return the directory of the only night."""
    (ledger,) = (directory / "runs" / "nights").glob(f"*/{LEDGER}")
    return ledger.parent


def night_json(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((the_night(directory) / "night.json").read_text())
    return found
