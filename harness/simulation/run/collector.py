"""Keep Python's garbage collector out of a run.

A run makes millions of objects and leaves a few tens of thousands in cycles; searching for those repeatedly costs a
tenth of the run. So the collector is off during a run and runs once after it, over the objects of the run only: all
older objects (libraries, mostly) are frozen meanwhile, because scanning them would cost as much.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Disable the collector inside the context, then collect what the context made.

    Objects made inside should not be in use at the end: those that are stay until the next use of this context.
    """
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
