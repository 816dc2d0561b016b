"""State what ran, and on what: versions, the commit, the machine, and how fast and how quiet it was.

A figure is only comparable with figures of the same code on a machine that was as fast. So every run records three
timings that do not depend on Squall: a loop of arithmetic, an fsync of 4 KiB, a round trip over loopback. A trend that
they share is the machine's. All of it takes a quarter of a second.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import confluent_kafka

LOOPS, REPETITIONS = 200_000, 5
SYNCS, ROUND_TRIPS = 7, 50
GIT_SECONDS = 10


def versions() -> dict[str, str]:
    """Return the versions of the programs that a verdict depends on, and the commit if this is a checkout."""
    return {
        "squall": metadata.version("squall"),
        "python": platform.python_version(),
        "confluent-kafka": metadata.version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        **code_version(Path(__file__).resolve().parents[1]),
    }


def version_line() -> str:
    """Return the versions of Squall and Python, and the commit if this is a checkout."""
    code = code_version(Path(__file__).resolve().parents[2])
    commit = f", commit {code['commit'][:10]}" if code.get("commit") else ""
    changed = " with changes" if code.get("dirty") == "yes" else ""
    return f"squall {metadata.version('squall')}{commit}{changed}, Python {platform.python_version()}"


def code_version(root: Path) -> dict[str, str]:
    """Return the commit of a checkout, and whether it has changes; nothing if it is none or git is missing."""
    if not (root / ".git").exists():
        return {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return {
            "commit": _git(root, "rev-parse", "HEAD"),
            "dirty": "yes" if _git(root, "status", "--porcelain", "--untracked-files=no") else "no",
        }
    return {}


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=GIT_SECONDS, check=True
    )
    return done.stdout.strip()


def machine(scratch: Path | None = None) -> dict[str, str]:
    """Describe the control node, as far as it explains figures. `scratch` is on the disk whose fsync counts."""
    loops = [_milliseconds(_loop) for _ in range(REPETITIONS)]
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "loop_ms": f"{statistics.median(loops):.3f}",
        "loop_noise": f"{max(loops) / min(loops) - 1:.3f}",
        **_unless_refused("sync_ms", lambda: _sync_ms(scratch)),
        **_unless_refused("round_trip_ms", _round_trip_ms),
    }


def _unless_refused(name: str, measure: Callable[[], float]) -> dict[str, str]:
    with contextlib.suppress(OSError):  # a disk without room, or no loopback: the run itself reports that
        return {name: f"{measure():.3f}"}
    return {}


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _loop() -> int:
    total = 0
    for number in range(LOOPS):
        total += number & 7
    return total


def _sync_ms(scratch: Path | None) -> float:
    with tempfile.TemporaryFile(dir=scratch) as file:

        def sync() -> None:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

        return statistics.median(_milliseconds(sync) for _ in range(SYNCS))


def _round_trip_ms() -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = threading.Thread(target=_echo, args=(server,), daemon=True)
        echo.start()
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def round_trip() -> None:
                client.sendall(b"x")
                client.recv(1)

            median = statistics.median(_milliseconds(round_trip) for _ in range(ROUND_TRIPS))
        echo.join(5)
        return median


def _echo(server: socket.socket) -> None:
    server.settimeout(5)
    with contextlib.suppress(OSError):
        peer, _ = server.accept()
        with peer:
            peer.settimeout(5)
            while got := peer.recv(64):
                peer.sendall(got)
