"""A real Spark standalone cluster on the loopback address: a master and workers, each a JVM of its own.

It needs nothing beside PySpark, which brings Spark's own programs, and leaves nothing behind: each process leads a
session, and whatever is in that session (launchers, executors, Python workers) is ended with it. The kernel ends them
if the test itself is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pyspark

from tests.waiting import wait_until

LOOPBACK: Final = "127.0.0.1"
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
START_SECONDS: Final = 120.0
END_SECONDS: Final = 10.0
PARENT_DEATH_SIGNAL: Final = 1
SPARK_HOME: Final = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class StandaloneCluster:
    """`master` is its URL. Each worker has a folder for what it runs, and a log."""

    master: str
    folder: Path
    workers: tuple[str, ...]

    def executors_log(self, worker: str) -> str:
        """What the executors on a worker have said."""
        return "".join(path.read_text() for path in sorted((self.folder / worker).glob("app-*/*/stderr")))


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2, memory: str = "768m") -> Iterator[StandaloneCluster]:
    """Up when it is yielded, with all its workers; gone afterwards, whatever happens."""
    names = tuple(f"worker-{number}" for number in range(1, workers + 1))
    with contextlib.ExitStack() as stack:

        def start(name: str, program: str, *words: str) -> subprocess.Popen[bytes]:
            process = _started(folder / f"{name}.log", program, *words)
            stack.callback(_end, process)
            return process

        place = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        master = start("master", MASTER, *place)
        url = _said(master, folder / "master.log", r"Starting Spark master at (spark://\S+)")
        offer = ("--cores", "1", "--memory", memory)
        started = [(start(name, WORKER, *place, *offer, "--work-dir", str(folder / name), url), name) for name in names]
        for process, name in started:
            _said(process, folder / f"{name}.log", "(Successfully registered with master)")
        yield StandaloneCluster(url, folder, names)


def _started(log: Path, program: str, *words: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    libc = ctypes.CDLL(None)
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), program, *words],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM),
        )


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    def found() -> re.Match[str] | None:
        if (match := re.search(pattern, log.read_text())) is None:
            assert process.poll() is None, f"{log.name}: it ended\n{log.read_text()}"
        return match

    wait_until(found, lambda: f"{log.name} says {pattern}\n{log.read_text()}", START_SECONDS, every=0.05)
    said = found()
    assert said is not None
    return said[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    left = session_of(process.pid)
    for one in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait(END_SECONDS)
    psutil.wait_procs(left, END_SECONDS)


def session_of(leader: int) -> list[psutil.Process]:
    """All that a process has started and that has not left its session, itself included."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(one.pid) == leader:
                found.append(one)
    return found
