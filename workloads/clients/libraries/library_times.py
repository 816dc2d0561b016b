"""How long clients of the asynchronous libraries wait for them."""

from __future__ import annotations

AGAIN_SECONDS = 0.1
"""After a failed attempt, until the next one."""
CLOSE_SECONDS = 2.0
"""For a client to close."""
