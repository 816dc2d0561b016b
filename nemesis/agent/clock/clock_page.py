"""The clock page: a small mapped file that defines the clocks of the process that follows it.

It has two lines, `fake = base_fake + (real − base_real) × rate`, one for the wall clock and one for the monotonic
clock. With a `period` the wall clock is a strobe: it alternates between its line and true time, each for one period.
Written here; read by `clockshim.c` and, the wall clock only, by `hook/sitecustomize.py`.

A wall clock may jump in both directions. A monotonic clock must never go back: it may run ahead and at another rate;
when that is over, it runs at the true rate from where it is.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

PAGE = struct.Struct("<Qqqdqqqd")
LINE = struct.Struct("<qqd")
WALL_AT, PERIOD_AT, MONOTONIC_AT = 8, 32, 40


@dataclass(frozen=True)
class Line:
    """Times in nanoseconds."""

    base_real: int = 0
    base_fake: int = 0
    rate: float = 1.0

    def at(self, real: int) -> int:
        elapsed = real - self.base_real
        return self.base_fake + (elapsed if self.rate == 1.0 else round(elapsed * self.rate))


TRUE = Line()


class ClockPage:
    """One process's page, which may be read while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size != PAGE.size:
            path.write_bytes(PAGE.pack(0, 0, 0, 1.0, 0, 0, 0, 1.0))

    def set_wall(self, line: Line, period_ns: int = 0) -> None:
        packed = LINE.pack(line.base_real, line.base_fake, line.rate) + struct.pack("<q", period_ns)
        self._write(WALL_AT, packed)

    def set_monotonic(self, line: Line) -> None:
        self._write(MONOTONIC_AT, LINE.pack(line.base_real, line.base_fake, line.rate))

    def monotonic(self) -> Line:
        return monotonic_in(self.path.read_bytes())

    def _write(self, offset: int, packed: bytes) -> None:
        """Write under an odd sequence number, which makes readers retry until the write is complete."""
        with open(self.path, "r+b") as file, mmap.mmap(file.fileno(), PAGE.size) as page:
            sequence = PAGE.unpack_from(page)[0] // 2 * 2
            struct.pack_into("<Q", page, 0, sequence + 1)
            page[offset : offset + len(packed)] = packed
            struct.pack_into("<Q", page, 0, sequence + 2)


def monotonic_in(page: bytes) -> Line:
    return Line(*LINE.unpack_from(page, MONOTONIC_AT))


def page_before(pid: int, path: Path) -> bytes | None:
    """The page as it is in the memory of that process; None if it has not mapped it, or its memory cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        start = next((line.partition("-")[0] for line in lines if line.endswith(f" {path}")), None)
        if start is None:
            return None
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(int(start, 16))
            return memory.read(PAGE.size)
    except OSError:
        return None
