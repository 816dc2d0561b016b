"""`-v`: say more on standard error. What runs, on which commit, how long it took; log lines; where an error was raised.

The option may stand before or behind any command. It changes what is printed, and nothing else.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

VERBOSE = ("-v", "--verbose")
LOG = logging.getLogger("squall")


class _StandardError(logging.Handler):
    """Writes log lines to standard error, wherever that leads when they are written."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def without_verbose(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments of a command without `-v`, and whether it was among those before `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [one for one in arguments[:end] if one not in VERBOSE] + list(arguments[end:])
    return kept, len(kept) < len(arguments)


@contextmanager
def verbosely(arguments: Sequence[str], version: str) -> Iterator[None]:
    """Log to standard error while a command runs, first its arguments and the version of Squall."""
    root, handler, level = logging.getLogger(), _StandardError(), logging.getLogger().level
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    began, processor = time.perf_counter(), time.process_time()
    LOG.info("%s; in %s: squall %s", version, Path.cwd(), " ".join(arguments))
    try:
        yield
    except BaseException:
        LOG.info("raised here:\n%s", traceback.format_exc().rstrip())
        raise
    finally:
        spent = time.process_time() - processor
        LOG.info("%.2f s, %.2f s of processor time in this process", time.perf_counter() - began, spent)
        root.removeHandler(handler)
        root.setLevel(level)
