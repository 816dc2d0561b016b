"""The clock shim for Python processes, for hosts on which the C shim does not load.

The C shim must match the host's C library and architecture. The interpreter loads this module at start because the
agent puts this directory first in PYTHONPATH. It replaces `time.time` and `time.time_ns` by functions that read the
same page as the C shim; `datetime.now` stays true.
"""

import mmap
import os
import struct
import time

PAGE = struct.Struct("<Qqqdqqqd")
"""As in `clock_page.py`; the monotonic clock is not changed."""


def replace_wall_clock(path: str) -> None:
    """Make `time.time` follow the page at `path`."""
    with open(path, "rb") as file:
        page = mmap.mmap(file.fileno(), PAGE.size, access=mmap.ACCESS_READ)
    real_time_ns = time.time_ns

    def time_ns() -> int:
        while True:
            sequence, base_real, base_fake, rate, period, *_ = PAGE.unpack_from(page)
            if sequence % 2 == 0 and PAGE.unpack_from(page)[0] == sequence:
                break
        real = real_time_ns()
        elapsed = real - base_real
        if period > 0 and elapsed // period % 2:
            return real
        return base_fake + (elapsed if rate == 1.0 else int(elapsed * rate))

    def time_s() -> float:
        return time_ns() / 1e9

    time.time_ns = time_ns
    time.time = time_s


if "SQUALL_CLOCK_PAGE" in os.environ:
    replace_wall_clock(os.environ["SQUALL_CLOCK_PAGE"])
