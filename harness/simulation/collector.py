"""The garbage collector, kept out of a run.

A run makes millions of objects and leaves a few ten thousand in cycles; looking for those again and again costs a
tenth of it. So the collector rests during a run and comes once after it, for what the run has made: all that was there
before (libraries, mostly) is frozen meanwhile, or looking through that would cost as much.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Nothing made inside may be in use when this ends, or it is kept until the next time."""
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if enabled:
            gc.enable()
