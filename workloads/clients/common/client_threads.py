"""Wait for a client's thread, but not for ever.

A library may block in its own `close`. Such a thread is left behind with a warning, so that the run goes on to its
final reads and its verdict. Operations that the thread has not completed stay open in the history: their outcome is
unknown.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final

LOG = logging.getLogger("squall.clients")
END_SECONDS: Final = 30.0
"""More than the libraries wait for brokers when they close."""


async def await_end(thread: threading.Thread, seconds: float = END_SECONDS) -> bool:
    """Wait until a daemon thread has ended, at most so many seconds; return whether it has."""
    await asyncio.get_running_loop().run_in_executor(None, thread.join, seconds)
    if thread.is_alive():
        LOG.warning("the thread %s of a client did not end within %g s and is left behind", thread.name, seconds)
    return not thread.is_alive()
