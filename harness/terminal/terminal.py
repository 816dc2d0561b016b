"""Keep a command running if its output fails: a closed pipe, a full disk, a terminal that only has ASCII.

`squall … | head` closes standard output while the command works, and a run that ended there would leave faults and
nodes behind. So output without a reader is dropped, and the command ends with its own exit status. Output that *cannot
be written* (a full disk below a redirection) is dropped as well, and `finish` reports it: a command whose output is
incomplete does not end with 0.

    install()                      # replaces sys.stdout and sys.stderr
    status = finish(status_of(…))  # flushes them; the exit status

Characters that the encoding of a stream lacks are written as ASCII with the same meaning: `✔` as `ok`, `·` as `-`.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import Any, TextIO

from squall.harness.errors import USAGE_EXIT_STATUS

ERROR_HANDLER = "squall-ascii"
STAND_INS = {
    "✔": "ok", "✘": "failed", "·": "-", "…": "...", "━": "=", "─": "-", "│": "|", "≥": ">=", "≤": "<=", "×": "x",
    "–": "-", "—": "-", "→": "->", "←": "<-", "µ": "u", "\u2009": " ", "\u00a0": " ", "‘": "'", "’": "'", "“": '"',
    "”": '"', "∞": "inf", "±": "+-", "⚠": "!", "•": "*", "▶": ">",
}  # fmt: skip


class DroppingFile(io.FileIO):
    """A file descriptor whose failed writes are dropped. `trouble` is the first failure other than a closed pipe."""

    trouble: OSError | None = None

    def write(self, data: Any) -> int:
        """Write as much as possible; all of `data` counts as written."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += super().write(view[done:]) or 0
        except BrokenPipeError:
            self._drop()
        except OSError as trouble:
            self.trouble = self.trouble or trouble
            self._drop()
        return len(view)

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self.fileno())


def in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks; for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(STAND_INS.get(one, "?") for one in lacking), error.end


def install() -> None:
    """Replace standard output and standard error. Streams that are closed from the start become /dev/null."""
    codecs.register_error(ERROR_HANDLER, in_ascii)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is this one
    sys.stdout = replaced(sys.stdout, 1)
    sys.stderr = replaced(sys.stderr, 2)


def replaced(stream: TextIO | None, number: int) -> TextIO:
    """Return a stream over the same descriptor whose writes do not fail."""
    if stream is None:
        return open(os.devnull, "w")
    stream.flush()
    raw = DroppingFile(number, "w", closefd=False)
    by_lines = stream.isatty() or number == 2
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=ERROR_HANDLER, line_buffering=by_lines)


def finish(status: int) -> int:
    """Flush both streams. Return the exit status: 254 instead of 0 if some of standard output could not be written."""
    trouble = None
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # already closed
            stream.flush()
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if stream is sys.stdout and isinstance(raw, DroppingFile):
            trouble = raw.trouble
    if trouble is None:
        return status
    sys.stderr.write(f"standard output: {trouble.strerror}; what was printed is incomplete\n")
    sys.stderr.flush()
    return status or USAGE_EXIT_STATUS
