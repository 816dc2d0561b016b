"""Carry out attempts at items: each is a process that leads a process group, and dies with the night.

    command           the shell
    scenario          squall run, which leaves suite.json
    mutants, forge    squall mutants --verify, squall forge --verify
    simulation        a process of `simulated.py`, which leaves an outcome as JSON; so does a campaign

What the process prints goes to a file beside the ledger. A command that a person could type leaves nothing unexplained.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from squall.harness.deadlines import within
from squall.harness.hosts.network import process_started
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.ledger.items import LONGEST_PROBLEM, OF_STATUS, Item, Outcome, Task, cause_of

SQUALL: Final = (sys.executable, "-m", "squall.harness.cli.main")
SIMULATED: Final = (sys.executable, "-m", "squall.harness.nightly.simulated")
GRACE_SECONDS: Final = 90.0
TAIL: Final = 300
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True)
class Settings:
    """What all attempts of a night share."""

    directory: Path
    night: str
    runs: Path
    lake: Path | None
    environment: Mapping[str, str]
    cwd: str = ""
    wait: float | None = None
    in_process: bool = False
    spark_master: str | None = None
    processes: int | None = None


class ProcessAttempt:
    """An attempt as a process."""

    def __init__(self, item: Item, process: asyncio.subprocess.Process, log: Path, result: Path) -> None:
        self._item = item
        self._process = process
        self._log = log
        self._result = result
        self.pid = process.pid
        self.pid_started = process_started(process.pid) or 0

    async def outcome(self, limit_s: float) -> Outcome:
        """Wait for the end of the process; end it after the limit, and when cancelled."""
        try:
            status = await within(limit_s, asyncio.shield(self._process.wait()))
        except TimeoutError:
            await self._end()
            return Outcome(
                ending="error", cause="hung", problem=f"did not end within {limit_s:.0f} s and was ended: {self._log}"
            )
        except asyncio.CancelledError:
            await asyncio.shield(self._end())
            raise
        self._kill_group()
        return outcome_of(self._item, status, self._log, self._result)

    async def _end(self) -> None:
        """Let it heal its hosts and end; kill it if that takes too long."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await within(GRACE_SECONDS, self._process.wait())
        self._kill_group()
        await self._process.wait()

    def _kill_group(self) -> None:
        """Kill what is left of its group once its leader has ended; a group that is empty no longer exists."""
        if process_started(self.pid) not in (None, self.pid_started):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class ProcessRunner:
    """Begins attempts as processes."""

    settings: Settings

    async def begin(self, item: Item, attempt: int, cluster: Cluster) -> ProcessAttempt:
        """Start the process of an attempt. Raises OSError."""
        folder = self.settings.directory / "items" / item.id
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"attempt-{attempt}.log"
        result = folder / f"attempt-{attempt}.json"
        result.unlink(missing_ok=True)
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *self._words(item, cluster, result),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.settings.environment, "SQUALL_SEED": str(item.seed)},
                cwd=self.settings.cwd or None,
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid()),
            )
        return ProcessAttempt(item, process, log, result)

    def _words(self, item: Item, cluster: Cluster, result: Path) -> list[str]:
        """Return the command of an attempt."""
        one = self.settings
        processes = [] if one.processes is None else ["--processes", str(one.processes)]
        if item.kind == "command":
            return ["/bin/sh", "-c", item.command]
        if item.kind == "mutants":
            return [*SQUALL, "mutants", "--verify", "--seeds", str(item.seeds), *processes]
        if item.kind == "forge":
            return [*SQUALL, "forge", "--verify", "--seeds", str(item.seeds), "--clean", str(item.seeds), *processes]
        if item.kind == "scenario":
            return [*SQUALL, *self._run_words(item, cluster, result)]
        lake = None if one.lake is None else str(one.lake)
        keep = str(result.with_suffix(""))
        task = Task(item=item, night=one.night, result=str(result), keep=keep, lake=lake, processes=one.processes)
        return [*SIMULATED, msgspec.json.encode(task).decode()]

    def _run_words(self, item: Item, cluster: Cluster, result: Path) -> list[str]:
        """Return the words of a `squall run` of one scenario with one seed."""
        one = self.settings
        words = ["run", item.suite, "--only", item.name, "--seed", str(item.seed), "--runs-dir", str(one.runs)]
        words += ["--night", one.night, "--report", str(result)]
        words += ["--system", item.system] if item.system else []
        words += [] if one.lake is None else ["--lake", str(one.lake)]
        words += [] if cluster.inventory is None else ["--inventory", str(cluster.inventory)]
        words += [] if cluster.lab is None else ["--lab", cluster.lab]
        words += ["--in-process"] if one.in_process else []
        words += [] if one.spark_master is None else ["--spark-master", one.spark_master]
        words += [] if one.wait is None else ["--wait", str(one.wait)]
        return words


def outcome_of(item: Item, status: int, log: Path, result: Path) -> Outcome:
    """Return the outcome of a process that has ended: what it left, or what its exit status says."""
    if status >= 0 and item.kind in ("simulation", "campaign"):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(result.read_bytes(), type=Outcome)
    if status >= 0 and item.kind == "scenario":
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return of_suite(item, json.loads(result.read_text()))
    if item.kind in ("command", "mutants", "forge") and status in OF_STATUS:
        ending = OF_STATUS[status]
        said = "" if ending == "valid" else last_line(log)
        return Outcome(ending=ending, cause=cause_of(item, ending), problem=said)
    how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
    said = last_line(log)
    return Outcome(ending="error", cause="crash", problem=f"its process {how}" + (f": {said}" if said else ""))


def of_suite(item: Item, suite: Mapping[str, Any]) -> Outcome:
    """Return the outcome that `suite.json` states of its only run. Raises KeyError, ValueError."""
    (run,) = suite["items"]
    ending = run["verdict"]
    if ending is None:
        raise ValueError("the run did not end")
    machine = bool(run["machine"])
    return Outcome(
        ending="error" if machine else ending,
        anomalies=tuple(run["anomalies"]),
        problem=run["problem"][:LONGEST_PROBLEM],
        cause="machine" if machine else cause_of(item, ending),
        directory=run["directory"],
    )


def last_line(log: Path) -> str:
    """Return the last line that an attempt printed."""
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1][-TAIL:] if lines else ""
    return ""


_C: Final = ctypes.CDLL(None, use_errno=True)


def _die_with(night: int) -> None:
    """Have the kernel end this process when the night dies, so that the attempt does not go on using hosts."""
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != night:  # it died before this was set
        os._exit(1)
