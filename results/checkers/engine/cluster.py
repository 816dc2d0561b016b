"""Check and reach a Spark cluster: what its workers must have, and how they reach this host.

Nothing is shipped to workers. The dependencies of a check are mostly compiled (numpy, pyarrow, msgspec) and cannot be
sent as Python files, and Squall's code without them would meet other versions of them. So every worker must have

    this Squall          the same modules, run by the interpreter at the same path as here; if it has another path
                         there, PYSPARK_PYTHON names it
    the runs             at the same path, on storage that all share: a task reads its own row groups

A worker that lacks either reports it instead of checking, and no run with a task on that worker gets a verdict: a
missing file must not look like a damaged one, nor may older rules or a stale copy of a run judge. The code is compared
by a digest of all modules of `results`, files by their seals (`parquet_files.py`). Workers of `local[…]` are this
interpreter on this host, and are not examined.

Spark waits for ever if no worker has room for an executor, and a minute for a master that does not exist; both are
detected here.
"""

from __future__ import annotations

import gc
import hashlib
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa

from squall.results.checkers.engine.engines import AnyTask, Outcome, added_up, decode_task, encode_outcome, outcome_of
from squall.results.checkers.engine.well_formed_task import WellFormedTask
from squall.results.history.parquet_files import kept_open, seal_path

STANDALONE: Final = "spark://"
CONNECT_SECONDS: Final = 10.0
EXECUTOR_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
DEFAULT_PORT: Final = 7077
KEPT_BYTES: Final = 384 << 20
"""A worker that holds more memory than this releases unused memory between tasks."""
GONE: Final = ("SparkContext was shut down", "Master removed our application", "ExecutorLostFailure")
"""Spark's messages about a job whose cluster stopped."""


class SparkTrouble(Exception):
    """Spark cannot check here, or not now. The message says why, and what to do about it."""


# The master ---------------------------------------------------------------------------------------------------------


def masters(url: str) -> list[tuple[str, int]]:
    """Host and port of each master that `spark://HOST:PORT,HOST:PORT` names; none for other kinds of clusters."""
    if not url.startswith(STANDALONE):
        return []
    found = []
    for place in url.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(DEFAULT_PORT))
        if not host or not port.isdecimal():
            raise SparkTrouble(f"--spark-master {url}: {place!r} is no HOST:PORT; a master is spark://HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


def require_master(url: str) -> None:
    """Require that one of the masters that `url` names, if any, accepts a connection. Raises SparkTrouble."""
    reasons = []
    for host, port in masters(url):
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as trouble:
            reasons.append(f"{host}:{port}: {trouble.strerror or trouble}")
        else:
            return
    if reasons:
        raise SparkTrouble(
            f"no Spark master answers at {url} ({'; '.join(reasons)}). Start one there, name another, or check on this "
            "host: leave --spark-master out"
        )


def address_towards(url: str) -> str | None:
    """Return this host's address on the route to the first master, where executors reach it; None if unknown.

    Without it, Spark uses the address that this host's name resolves to, which other hosts often cannot reach.
    """
    for host, port in masters(url):
        try:
            family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as datagrams:
                datagrams.connect(place)  # sends nothing: it only selects the route
                return str(datagrams.getsockname()[0])
        except OSError:
            continue
    return None


def await_executor(executors: Callable[[], int], url: str, memory: str, seconds: float = EXECUTOR_SECONDS) -> None:
    """Wait for the first executor. Raises SparkTrouble if there is none in time."""
    end = time.monotonic() + seconds
    while executors() == 0:
        if time.monotonic() > end:
            raise SparkTrouble(
                f"{url} gave no executor within {seconds:g} s. Its web page says why: no worker is up, none has a free "
                f"core and {memory} of memory, or executors there cannot reach this host"
            )
        time.sleep(POLL_SECONDS)


def explanation(trouble: str) -> str | None:
    """Explain from Spark's message why workers could not start; None if the workers are not the cause."""
    program = re.search(r'Cannot run program "([^"]+)"', trouble)
    if program is not None:
        return (
            f"a worker has no {program[1]}. Install Squall there at the same path, or let PYSPARK_PYTHON name the "
            "interpreter that has it on the workers"
        )
    if "PYTHON_VERSION_MISMATCH" in trouble:
        return (
            "the workers' Python is not of this one's version. Install Squall there with Python "
            f"{sys.version_info.major}.{sys.version_info.minor}, or let PYSPARK_PYTHON name such an interpreter"
        )
    missing = re.search(r"No module named '([^']+)'|(\S+) >= \S+ must be installed", trouble)
    if missing is not None and "squall" not in trouble:
        return f"the workers' Python lacks {missing[1] or missing[2]}: install Squall there with all it depends on"
    if any(sign in trouble for sign in GONE):
        return "the cluster gave up or was stopped meanwhile. Try again, or on this host: leave --spark-master out"
    return None


# Workers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """What a worker must find: the digest of the code, and the mark of each file by its path."""

    code: str
    files: Mapping[str, str]

    @classmethod
    def here(cls, tasks: Iterable[AnyTask]) -> Expected:
        """What this host has."""
        return cls(
            code_digest(), {path: file_mark(Path(path)) for path in {path for one in tasks for path in _files_of(one)}}
        )


def code_digest() -> str:
    """Digest all modules of `results`, which take part in checking."""
    room = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(room.rglob("*.py")):
        digest.update(f"{path.relative_to(room).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def file_mark(path: Path) -> str:
    """Return the size of a file, and its seal if it has one. Raises OSError."""
    seal = seal_path(path)
    return f"{path.stat().st_size} {seal.read_text() if seal.exists() else ''}"


Answer = tuple[bytes | None, str | None]
"""The outcome of a task, or what a worker lacks to compute it."""


def carried_out(tasks: Sequence[bytes], code: str | None, files: Mapping[str, str]) -> list[Answer]:
    """Carry out tasks on a worker; return each outcome, or what the worker lacks (not checked without `code`)."""
    decoded = [decode_task(one) for one in tasks]
    lack = None if code is None else _lack_of_code(code) or _lack_of_files(decoded, files)
    if lack is not None:
        return [(None, lack)] * len(tasks)
    with kept_open(rows_as_well=True):
        return [(encode_outcome(one), None) for one in added_up(_outcomes(decoded))]


def spare_collections() -> None:
    """Exempt what a worker has imported from garbage collection, after its first tasks.

    Spark runs a collection after every bundle. Imported objects are never garbage, but scanning them takes as long as
    checking half a run.
    """
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


def _outcomes(tasks: Iterable[AnyTask]) -> Iterator[Outcome]:
    """Carry out tasks; release a large task's memory before the next begins, since memory is limited to one at a time.

    Small tasks reuse the memory of earlier ones, because allocating memory costs more than reading a few thousand rows.
    """
    this = psutil.Process()
    for one in tasks:
        yield outcome_of(one)
        if this.memory_info().rss > KEPT_BYTES:
            pa.default_memory_pool().release_unused()


def _lack_of_files(tasks: Iterable[AnyTask], files: Mapping[str, str]) -> str | None:
    paths = dict.fromkeys(path for one in tasks for path in _files_of(one))
    lacks = (_lack_of_file(Path(path), files[path]) for path in paths)
    return next((one for one in lacks if one is not None), None)


def _files_of(task: AnyTask) -> list[str]:
    """The files that a task reads."""
    registers = task.registers if isinstance(task, WellFormedTask) else None
    return [task.path] if registers is None else [task.path, registers]


def _lack_of_code(code: str) -> str | None:
    if code_digest() == code:
        return None
    return (
        f"{socket.gethostname()}: {sys.executable} has another version of Squall ({Path(__file__).parents[2]}): "
        "install there what is installed here"
    )


def _lack_of_file(path: Path, mark: str) -> str | None:
    remedy = "runs must lie on storage that all workers share, at the same path"
    try:
        found = file_mark(path)
    except OSError as trouble:
        return f"{socket.gethostname()}: {path}: {trouble.strerror}: {remedy}"
    return None if found == mark else f"{socket.gethostname()}: {path}: is another file there: {remedy}"
