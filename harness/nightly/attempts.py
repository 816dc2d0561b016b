"""Carry out attempts at items: each is a process that leads a process group, and dies with the night.

A command runs by the shell, everything else by `squall.harness.cli.nightly_item`, which gets the attempt as JSON and
leaves its outcome as JSON. What the process prints goes to a file beside the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from squall.harness.hosts.network import process_started
from squall.harness.nightly.conduct import Cluster
from squall.harness.nightly.ledger.items import OF_STATUS, Item, Outcome

ITEM_PROGRAM: Final = "squall.harness.cli.nightly_item"
GRACE_SECONDS: Final = 90.0
TAIL: Final = 300
_PR_SET_PDEATHSIG: Final = 1


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of an attempt is to do, and where its outcome goes."""

    item: Item
    night: str
    result: str
    runs: str
    lake: str | None
    keep: str
    inventory: str | None = None
    lab: str | None = None
    wait: float | None = None
    in_process: bool = False
    spark_master: str | None = None
    processes: int | None = None


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

    def __init__(self, process: asyncio.subprocess.Process, log: Path, result: Path | None) -> None:
        self._process = process
        self._log = log
        self._result = result
        self.pid = process.pid
        self.pid_started = process_started(process.pid) or 0

    async def outcome(self, limit_s: float) -> Outcome:
        """Wait for the end of the process; end it after the limit, and when cancelled."""
        try:
            status = await asyncio.wait_for(asyncio.shield(self._process.wait()), limit_s)
        except TimeoutError:
            await self._end()
            return Outcome(
                ending="error", cause="hung", problem=f"did not end within {limit_s:.0f} s and was ended: {self._log}"
            )
        except asyncio.CancelledError:
            await asyncio.shield(self._end())
            raise
        self._kill_group()
        return outcome_of(status, self._log, self._result)

    async def _end(self) -> None:
        """Let it heal its hosts and end; kill it if that takes too long."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
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
        result = None if item.kind == "command" else folder / f"attempt-{attempt}.json"
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *self._words(item, attempt, cluster, result),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.settings.environment, "SQUALL_SEED": str(item.seed)},
                cwd=self.settings.cwd or None,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        return ProcessAttempt(process, log, result)

    def _words(self, item: Item, attempt: int, cluster: Cluster, result: Path | None) -> list[str]:
        if result is None:
            return ["/bin/sh", "-c", item.command]
        one = self.settings
        task = Task(
            item=item,
            night=one.night,
            result=str(result),
            runs=str(one.runs),
            lake=None if one.lake is None else str(one.lake),
            keep=str(result.with_suffix("")),
            inventory=None if cluster.inventory is None else str(cluster.inventory),
            lab=cluster.lab,
            wait=one.wait,
            in_process=one.in_process,
            spark_master=one.spark_master,
            processes=one.processes,
        )
        result.unlink(missing_ok=True)
        return [sys.executable, "-m", ITEM_PROGRAM, msgspec.json.encode(task).decode()]


def outcome_of(status: int, log: Path, result: Path | None) -> Outcome:
    """Return the outcome of a process that has ended: what it left, or what its exit status says."""
    if result is not None and status >= 0 and result.exists():
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(result.read_bytes(), type=Outcome)
    if result is None and status in OF_STATUS:
        ending = OF_STATUS[status]
        cause = {"valid": "", "invalid": "finding", "unknown": "evidence", "refused": "refused"}.get(ending, "")
        return Outcome(ending=ending, cause=cause, problem="" if ending == "valid" else last_line(log))
    how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
    said = last_line(log)
    return Outcome(ending="error", cause="crash", problem=f"its process {how}" + (f": {said}" if said else ""))


def last_line(log: Path) -> str:
    """Return the last line that an attempt printed."""
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1][-TAIL:] if lines else ""
    return ""


_C: Final = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    """Have the kernel end this process when the night dies: an attempt that nobody waits for must not use hosts."""
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
