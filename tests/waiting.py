"""Waiting in tests: for a condition, with a deadline, instead of for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LOOK_EVERY_S = 0.01


def wait_until(
    holds: Callable[[], object], what: str | Callable[[], object], timeout: float = 10.0, every: float = LOOK_EVERY_S
) -> float:
    """Poll until `holds` returns something true. Returns the seconds that took; fails at the deadline.

    `what` names the condition, or returns a description of the state at the deadline.
    """
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < timeout, _missed(what, timeout)
        # The interval of the poll.
        time.sleep(every)
    return time.monotonic() - began


async def soon(holds: Callable[[], object], what: str | Callable[[], object], timeout: float = 10.0) -> None:
    """`wait_until` for a coroutine: the event loop goes on meanwhile."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, _missed(what, timeout)
        # The interval of the poll.
        await asyncio.sleep(LOOK_EVERY_S)


def _missed(what: str | Callable[[], object], timeout: float) -> str:
    return f"not within {timeout:g} s: {what if isinstance(what, str) else what()}"
