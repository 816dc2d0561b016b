"""Sets wall clocks wrong: of one process on a lab host, of the whole machine on a real host.

**In the lab** all hosts share one machine, whose clock must never be changed. Each defined process gets a *clock page*
(a small mapped file) and a shim that answers wall-clock calls from it: `clockshim.so` if one was shipped that loads
here, else a Python hook. Debian's libfaketime does not work for this: with it, `time.sleep` fails or monotonic time
jumps.

**On real hosts** the clock itself is set, through `ClockDevice`. Before the first change the agent stops the services
that synchronise the clock and saves (wall, MONOTONIC_RAW). From then on true time is *saved wall + raw elapsed*, which
setting the clock does not affect, and restoring means setting exactly that. For a clock that must run at another rate,
stand still or strobe, a separate process sets it repeatedly (`clock_driver.py`).

Setting the machine's clock is refused wherever the lab's marker file exists or SQUALL_NO_REAL_CLOCK is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from squall.nemesis.agent.clock.clock_driver import Driver, Plan
from squall.nemesis.agent.clock.clock_look import SECOND, Reading, described, read_clocks
from squall.nemesis.agent.clock.clock_page import TRUE, ClockPage, Line, monotonic_in, page_before
from squall.nemesis.agent.clock.device import ClockDevice, RealClockDevice, refusal
from squall.nemesis.agent.core.journal import Entry, boot_id, write_durably
from squall.nemesis.agent.core.processes import Definition, Identity
from squall.nemesis.agent.core.verb_error import VerbError

PAGE_VARIABLE = "SQUALL_CLOCK_PAGE"
HERE = Path(__file__).resolve().parent
SHIM = HERE / "clockshim.so"
HOOK = HERE / "hook"
LOOK_SECONDS = 0.001


class ProcessClocks:
    """Skews what single processes see: for lab hosts."""

    method = "process"

    def __init__(self, state: Path) -> None:
        self._directory = state / "clocks"
        self._shim_loads: bool | None = None

    def page(self, name: str) -> ClockPage:
        return ClockPage(self._directory / f"{name}.page")

    def environment(self, name: str, env: dict[str, str]) -> dict[str, str]:
        """`env` extended so that the process follows its page."""
        env = {**env, PAGE_VARIABLE: str(self.page(name).path)}
        if self.shim_loads():
            env["LD_PRELOAD"] = " ".join(filter(None, (str(SHIM), env.get("LD_PRELOAD"))))
        else:
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOOK), env.get("PYTHONPATH"))))
        return env

    def shim_loads(self) -> bool:
        """Whether the shipped library fits this host's C library and architecture."""
        if self._shim_loads is None:
            self._shim_loads = False
            if SHIM.exists():
                probe = subprocess.run(["/bin/true"], env={"LD_PRELOAD": str(SHIM)}, capture_output=True)
                self._shim_loads = probe.returncode == 0 and not probe.stderr
        return self._shim_loads

    def check(self) -> None:
        """Always allowed: the machine's clock is not changed."""

    def true_wall_ns(self) -> int:
        return time.time_ns()

    def apply(self, name: str, entries: Sequence[Entry]) -> None:
        """Apply the latest open fault; without one, true time."""
        if not entries:
            self.page(name).set_wall(TRUE)
            return
        self.page(name).set_wall(line_in(entries[-1]), period_in(entries[-1]))

    def offset(self, definition: Definition, running: Identity | None, watch_s: float = 0.0) -> dict[str, object]:
        """Compare with true time the clocks of a process started like this one, and check whether the running one
        follows its page. For the running one also return the rate of its monotonic clock, as read from its memory.
        """
        readings = read_clocks(definition.environment(), watch_s, our_clocks())
        seen = page_before(running.pid, self.page(definition.name).path) if running else None
        return {
            **described(readings),
            "mapped": None if running is None else maps_file(running.pid, self.page(definition.name).path),
            "monotonic_rate": monotonic_in(seen).rate if seen else None,
        }


def our_clocks() -> tuple[int, int, int]:
    """Wall, monotonic and raw time at one moment."""
    return time.time_ns(), time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def line_in(entry: Entry) -> Line:
    """The line that an open fault makes of the wall clock."""
    told = entry.arguments
    return Line(told["set_at"], told["set_at"] + round(told["offset_s"] * SECOND), told["rate"])


def period_in(entry: Entry) -> int:
    """The period of a strobe in nanoseconds; 0 if it is none."""
    return round(entry.arguments.get("every_s", 0.0) * SECOND)


def maps_file(pid: int, path: Path) -> bool:
    """Whether the process has the file mapped and so follows the page."""
    try:
        return any(line.endswith(f" {path}") for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    except OSError:
        return False


class MachineClock:
    """Skews the machine's clock and restores it: for real hosts."""

    method = "machine"

    def __init__(self, state: Path, device: ClockDevice, driver: Driver) -> None:
        self._saved = state / "clock.json"
        self._device = device
        self._driver = driver

    def environment(self, name: str, env: dict[str, str]) -> dict[str, str]:
        return env

    def check(self) -> None:
        reason = refusal()
        if reason and isinstance(self._device, RealClockDevice):
            raise VerbError("refused", f"the machine's clock is not set: {reason}")

    def apply(self, name: str, entries: Sequence[Entry]) -> None:
        self._driver.stop()  # first: it must not set the clock at the same time
        if entries:
            self._save()
            latest = entries[-1]
            self._device.set_wall_ns(self.true_wall_ns() + round(latest.arguments["offset_s"] * SECOND))
            if latest.arguments["rate"] != 1.0 or period_in(latest):
                self._driver.start(self._plan(latest))
            return
        saved = self._read()
        if saved is None:
            return
        if saved["boot"] == boot_id():  # a reboot has corrected the clock
            self._device.set_wall_ns(self.true_wall_ns())
        self._device.start_synchronisation(saved["services"])
        self._saved.unlink(missing_ok=True)

    def _plan(self, entry: Entry) -> Plan:
        """True time and the fault's line, both by raw time, for the driver that sets the clock repeatedly."""
        true, raw = self.true_wall_ns(), self._device.raw_ns()
        shown = true + round(entry.arguments["offset_s"] * SECOND)
        left = max(0.0, entry.deadline - time.monotonic())
        return Plan(Line(raw, true), Line(raw, shown, entry.arguments["rate"]), period_in(entry), left)

    def true_wall_ns(self) -> int:
        """What the clock would show without faults."""
        saved = self._read()
        if saved is None:
            return self._device.wall_ns()
        return saved["wall_ns"] + self._device.raw_ns() - saved["raw_ns"]

    def offset(self, definition: Definition, running: Identity | None, watch_s: float = 0.0) -> dict[str, object]:
        """Measure the machine's wall clock; its monotonic clocks cannot be set."""
        readings: list[Reading] = []
        end = self._device.raw_ns() + round(watch_s * SECOND)
        while not readings or readings[-1].raw < end:
            raw, wall, true = self._device.raw_ns(), self._device.wall_ns(), self.true_wall_ns()
            readings.append(Reading(raw, wall, raw, true, raw))
            self._device.sleep(LOOK_SECONDS)
        return {**described(readings), "mapped": None, "monotonic_rate": None}

    def _save(self) -> None:
        """Save the true time durably before the first change: the clock is restored from it."""
        if self._read() is not None:
            return
        saved: dict[str, Any] = {
            "wall_ns": self._device.wall_ns(),
            "raw_ns": self._device.raw_ns(),
            "services": self._device.synchronisation(),
            "boot": boot_id(),
        }
        write_durably(self._saved, json.dumps(saved))
        self._device.stop_synchronisation(saved["services"])

    def _read(self) -> dict[str, Any] | None:
        with contextlib.suppress(FileNotFoundError):
            saved: dict[str, Any] = json.loads(self._saved.read_text())
            return saved
        return None
