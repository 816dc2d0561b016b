"""Wait until a cluster is ready, or until a node ends while it starts: its log then says why, at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from squall.harness.scenario.cluster import ClusterNotReady

Found = TypeVar("Found")

LOOK_SECONDS: Final = 1.0
LINES_READ: Final = 400
LINES_SHOWN: Final = 3
LONGEST_LINE: Final = 300
ENDED: Final = "absent"
TELLING: Final = re.compile(r"\bERROR\b|\bFATAL\b|error:|Exception\b|Error\b")
FRAME: Final = re.compile(r"^\s*(at |File \"|\.\.\. \d+ more)")


async def ready_unless_ended(
    ready: Coroutine[Any, Any, Found], statuses: Callable[[], Awaitable[Mapping[str, str]]]
) -> Found:
    """Return what `ready` does. Raises ClusterNotReady once a node's process has ended, without waiting any longer."""
    waiting = asyncio.ensure_future(ready)
    try:
        while True:
            await asyncio.wait({waiting}, timeout=LOOK_SECONDS)
            if waiting.done():
                return waiting.result()
            ended = [name for name, state in (await statuses()).items() if state == ENDED]
            if ended and not waiting.done():
                raise ClusterNotReady(f"{', '.join(ended)} ended while starting")
    finally:
        waiting.cancel()


def telling_lines(log: str) -> list[str]:
    """Return the lines of a log that say most about its end: the last ones about errors, else the last ones.

    Frames of a stack say where, not why.
    """
    lines = [line.rstrip()[:LONGEST_LINE] for line in log.splitlines() if line.strip() and not FRAME.match(line)]
    about_errors = [line for line in lines if TELLING.search(line)]
    return (about_errors or lines)[-LINES_SHOWN:]
