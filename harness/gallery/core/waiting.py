"""Wait until something holds, by looking at it again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from squall.harness.gallery.core.trouble import NotReproduced

LOOK_EVERY_S: Final = 0.1


def wait_until(
    holds: Callable[[], bool], what: str, seconds: float, troubles: tuple[type[Exception], ...] = ()
) -> None:
    """Wait until it holds; a look that ends in one of `troubles` is repeated. Raises NotReproduced after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        trouble = ""
        try:
            if holds():
                return
        except troubles as failed:
            trouble = f": {failed or type(failed).__name__}"
        if time.monotonic() > end:
            raise NotReproduced(f"{what}: not so after {seconds:g} s{trouble}")
        time.sleep(LOOK_EVERY_S)
