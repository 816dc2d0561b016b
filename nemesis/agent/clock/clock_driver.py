"""Sets a machine's clock repeatedly, so that it strobes, stands still or runs at another rate.

    python3 -u program.py clock.clock_driver --state DIR --tell DESCRIPTOR

One detached process per host follows the plan in STATE/clock_driver.json, two hundred times a second, until the plan is
removed or its time is over. It does not know faults and restores nothing: the caller that stops it corrects the clock.
If it is killed, the clock only keeps its last setting until then. It never runs on lab hosts: their processes have
separate clocks (`clock_page.py`), and the device refuses.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from squall.nemesis.agent.clock.clock_page import Line
from squall.nemesis.agent.core.daemonize import daemonize
from squall.nemesis.agent.core.journal import write_durably
from squall.nemesis.agent.core.programs import command
from squall.nemesis.agent.core.verb_error import VerbError

STEP = 0.005
START_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0


@dataclass(frozen=True)
class Plan:
    """What the clock must show, by raw time in nanoseconds."""

    true: Line
    fault: Line
    period_ns: int
    seconds: float
    """How long, unless it is stopped before."""

    def shown(self, raw: int) -> int:
        """The time to show. A strobe alternates between the fault's time and true time."""
        off = self.period_ns > 0 and (raw - self.fault.base_real) // self.period_ns % 2 != 0
        return self.true.at(raw) if off else self.fault.at(raw)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        told = json.loads(text)
        return cls(Line(**told["true"]), Line(**told["fault"]), told["period_ns"], told["seconds"])


class Settable(Protocol):
    """The part of a clock device that is needed here."""

    def raw_ns(self) -> int: ...

    def set_wall_ns(self, wall_ns: int) -> None: ...

    def sleep(self, seconds: float) -> None: ...


class Driver(Protocol):
    """Follows a plan."""

    def start(self, plan: Plan) -> None: ...

    def stop(self) -> None:
        """Stop setting the clock before returning."""
        ...


def follow(plan: Plan, device: Settable, goes_on: Callable[[], bool]) -> None:
    """Set the clock until the plan's time is over or the plan is removed."""
    end = plan.fault.base_real + round(plan.seconds * 1e9)
    while device.raw_ns() < end and goes_on():
        device.set_wall_ns(plan.shown(device.raw_ns()))
        device.sleep(STEP)


class DriverProcess:
    """The detached process, identified by its plan and a lock."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._plan = state / "clock_driver.json"
        self._lock = state / "clock_driver.lock"

    def start(self, plan: Plan) -> None:
        write_durably(self._plan, json.dumps(asdict(plan)))
        started = [*command("clock.clock_driver"), "--state", str(self._state)]
        log = self._state / "clock_driver.log"
        if not daemonize("clock driver", started, "--tell", log, START_TIMEOUT):
            self._plan.unlink(missing_ok=True)
            raise VerbError("failed", f"what sets the clock did not start: {log.read_text()[-300:]}")

    def stop(self) -> None:
        self._plan.unlink(missing_ok=True)
        deadline = time.monotonic() + STOP_TIMEOUT
        with open(self._lock, "a") as file:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    time.sleep(STEP)
        raise VerbError("failed", f"what sets the clock does not end: it holds {self._lock}")

    def run(self, tell: int, device: Settable) -> None:
        """Run the process: take the lock, report that it is ready, follow the plan."""
        with open(self._lock, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            plan = Plan.from_json(self._plan.read_text())
            mine = self._plan.stat().st_ino
            os.write(tell, b"+")
            os.close(tell)
            follow(plan, device, lambda: self._stands(mine))

    def _stands(self, inode: int) -> bool:
        try:
            return self._plan.stat().st_ino == inode
        except FileNotFoundError:
            return False


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="sets a machine's clock again and again")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--tell", type=int, required=True, metavar="DESCRIPTOR")
    options = parser.parse_args(argv)
    from squall.nemesis.agent.clock.device import RealClockDevice  # which needs this module

    DriverProcess(options.state).run(options.tell, RealClockDevice())
    return 0
