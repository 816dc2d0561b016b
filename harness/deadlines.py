"""Wait for something, but not for ever, and never lose a cancellation meanwhile.

`asyncio.wait_for` of Python 3.11 returns the result if its caller is cancelled in the moment in which the work ends,
and the cancellation is gone (bpo-42130, repaired in 3.12). A loop that asks a host each second then goes on for ever,
and so does whatever waits for the loop's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """Return the result of the work. Raises TimeoutError if it takes longer, and CancelledError whenever cancelled.

    Work that is given up is cancelled, and has ended when this returns. For code on hosts only: the simulation has no
    `asyncio.wait`.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, so that it is not reported as lost
    raise TimeoutError


def raise_if_cancelled() -> None:
    """Raise CancelledError if the current task was cancelled and something has swallowed that. For loops."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
