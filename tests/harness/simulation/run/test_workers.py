"""Processes of a pool end with the process that owns it, even if that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psutil

from squall.harness.simulation.run.workers import pool_of_workers

OWNER = """
from os import getpid
from squall.harness.simulation.run.workers import pool_of_workers
if __name__ == "__main__":
    pool = pool_of_workers(2)
    print(*{one.result() for one in [pool.submit(getpid) for _ in range(8)]}, flush=True)
    input()
"""
PATIENCE_S = 20


def test_workers_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER, "utf-8")
    owner = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    workers = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    assert workers
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    began = time.monotonic()
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_S)
    assert not alive, f"still there {time.monotonic() - began:.0f} s after their owner was killed: {alive}"


def test_a_pool_does_its_work_and_ends() -> None:
    with pool_of_workers(1) as pool:
        assert isinstance(pool, ProcessPoolExecutor)
        assert pool.submit(sum, (1, 2)).result() == 3
