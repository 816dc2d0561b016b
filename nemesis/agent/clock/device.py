"""The machine's own clock: when it may be set, and by what."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from squall.nemesis.agent.core.verb_error import VerbError
from squall.nemesis.agent.net.network import find_program, run

LAB_MARKER = Path("/run/squall-lab-host")
NO_REAL_CLOCK = "SQUALL_NO_REAL_CLOCK"
SYNC_SERVICES = ("systemd-timesyncd", "chrony", "chronyd", "ntp", "ntpsec", "ntpd", "openntpd")


class ClockDevice(Protocol):
    """The machine's clock, as `MachineClock` needs it; tests use a fake."""

    def wall_ns(self) -> int: ...

    def raw_ns(self) -> int: ...

    def set_wall_ns(self, wall_ns: int) -> None: ...

    def synchronisation(self) -> list[str]:
        """The running services that would correct the clock."""
        ...

    def stop_synchronisation(self, services: Sequence[str]) -> None: ...

    def start_synchronisation(self, services: Sequence[str]) -> None: ...

    def sleep(self, seconds: float) -> None: ...


def refusal(marker: Path = LAB_MARKER) -> str | None:
    """Why the machine's clock must not be set here; None if it may."""
    if marker.exists():
        return f"this is a lab host ({marker} exists); it shares its machine's clock"
    if os.environ.get(NO_REAL_CLOCK):
        return f"{NO_REAL_CLOCK} is set"
    return None


class RealClockDevice:
    """clock_settime and systemd. Each setting first checks whether it is allowed."""

    def wall_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def raw_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def set_wall_ns(self, wall_ns: int) -> None:
        reason = refusal()
        if reason:
            raise VerbError("refused", f"the machine's clock is not set: {reason}")
        try:
            time.clock_settime_ns(time.CLOCK_REALTIME, wall_ns)
        except PermissionError:
            raise VerbError("refused", "setting the clock needs root (CAP_SYS_TIME)") from None

    def synchronisation(self) -> list[str]:
        systemctl = find_program("systemctl")
        if systemctl is None:
            return []
        return [name for name in SYNC_SERVICES if run([systemctl, "is-active", "--quiet", name]).returncode == 0]

    def stop_synchronisation(self, services: Sequence[str]) -> None:
        self._tell_systemd("stop", services)

    def start_synchronisation(self, services: Sequence[str]) -> None:
        self._tell_systemd("start", services)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _tell_systemd(self, order: str, services: Sequence[str]) -> None:
        systemctl = find_program("systemctl") or "systemctl"
        for name in services:
            answer = run([systemctl, order, name])
            if answer.returncode != 0:
                raise VerbError("failed", f"cannot {order} {name}: {answer.stderr.strip()}")
