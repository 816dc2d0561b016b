"""Wall clocks gone wrong: of one process in a lab host, of the whole machine on a real one.

**In the lab** all hosts share one machine, whose clock must never be touched. Each defined process gets a *clock
page* (a small mapped file) and a shim that answers wall-clock calls from it: `clockshim.so` if one was shipped
that loads here, else a Python hook. Debian's libfaketime is no choice: with it, `time.sleep` fails or monotonic
time jumps.

**On real hosts** the clock itself is set, through `ClockDevice`. Before the first change the agent stops what
synchronises the clock and saves (wall, MONOTONIC_RAW); true time is from then on *saved wall + raw elapsed*,
which no setting of the clock can disturb, and restoring means setting exactly that.

Setting the machine's clock is refused wherever the lab's marker file or SQUALL_NO_REAL_CLOCK says so.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from journal import Entry, boot_id, write_durably
from network import find_program, run
from processes import Definition, Identity
from trouble import Trouble

LAB_MARKER = Path("/run/squall-lab-host")
NO_REAL_CLOCK = "SQUALL_NO_REAL_CLOCK"
PAGE_VARIABLE = "SQUALL_CLOCK_PAGE"
PAGE = struct.Struct("<Qqqd")
SECOND = 1_000_000_000
HERE = Path(__file__).resolve().parent
SHIM = HERE / "clockshim.so"
HOOK = HERE / "hook"
SYNC_SERVICES = ("systemd-timesyncd", "chrony", "chronyd", "ntp", "ntpsec", "ntpd", "openntpd")
TELL_TIME = "import sys, time; print(time.time_ns(), time.monotonic_ns())"


class ClockPage:
    """`fake = base_fake + (real − base_real) × rate`, where a process can read it while we write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size != PAGE.size:
            path.write_bytes(PAGE.pack(0, 0, 0, 1.0))

    def set(self, base_real: int, base_fake: int, rate: float) -> None:
        """An odd sequence number tells readers to try again until we are done."""
        with open(self.path, "r+b") as file, mmap.mmap(file.fileno(), PAGE.size) as page:
            sequence = PAGE.unpack_from(page)[0] // 2 * 2
            struct.pack_into("<Q", page, 0, sequence + 1)
            struct.pack_into("<qqd", page, 8, base_real, base_fake, rate)
            struct.pack_into("<Q", page, 0, sequence + 2)

    def clear(self) -> None:
        self.set(0, 0, 1.0)


class ProcessClocks:
    """Skews what single processes see: the lab's way."""

    method = "process"

    def __init__(self, state: Path) -> None:
        self._directory = state / "clocks"
        self._shim_loads: bool | None = None

    def page(self, name: str) -> ClockPage:
        return ClockPage(self._directory / f"{name}.page")

    def environment(self, name: str, env: dict[str, str]) -> dict[str, str]:
        """`env` with what makes the process follow its page."""
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

    def check(self, rate: float) -> None:
        pass

    def apply(self, name: str, entries: Sequence[Entry]) -> None:
        """The latest of the open faults rules; none means true time."""
        if not entries:
            self.page(name).clear()
            return
        arguments = entries[-1].arguments
        base_fake = arguments["set_at"] + round(arguments["offset_s"] * SECOND)
        self.page(name).set(arguments["set_at"], base_fake, arguments["rate"])

    def offset(self, definition: Definition, running: Identity | None) -> dict[str, object]:
        """What a process started like this one takes for the time, against true time.

        A child with the same environment tells its wall and monotonic time; monotonic time is the machine's, so
        it says how long ago that was.
        """
        told = subprocess.run(
            [sys.executable, "-c", TELL_TIME], env=definition.environment(), capture_output=True, text=True
        )
        if told.returncode != 0:
            raise Trouble("failed", f"the clock probe did not run: {told.stderr.strip()[-300:]}")
        child_wall, child_monotonic = map(int, told.stdout.split())
        true_wall = time.time_ns() - (time.monotonic_ns() - child_monotonic)
        page = self.page(definition.name).path
        return {
            "offset_s": (child_wall - true_wall) / SECOND,
            "mapped": None if running is None else maps_file(running.pid, page),
        }


def maps_file(pid: int, path: Path) -> bool:
    """Whether the process has the file mapped: it then does follow the page."""
    try:
        return any(line.endswith(f" {path}") for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    except OSError:
        return False


class ClockDevice(Protocol):
    """The machine's clock, as `MachineClock` needs it; tests have another."""

    def wall_ns(self) -> int: ...

    def raw_ns(self) -> int: ...

    def set_wall_ns(self, wall_ns: int) -> None: ...

    def synchronisation(self) -> list[str]:
        """The running services that would set the clock right behind our back."""
        ...

    def stop_synchronisation(self, services: Sequence[str]) -> None: ...

    def start_synchronisation(self, services: Sequence[str]) -> None: ...


def refusal(marker: Path = LAB_MARKER) -> str | None:
    """Why the machine's clock must not be set here, if it must not."""
    if marker.exists():
        return f"this is a lab host ({marker} exists); its machine's clock is everybody's"
    if os.environ.get(NO_REAL_CLOCK):
        return f"{NO_REAL_CLOCK} is set"
    return None


class RealClockDevice:
    """clock_settime and systemd. Every setting asks first whether it may."""

    def wall_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def raw_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def set_wall_ns(self, wall_ns: int) -> None:
        reason = refusal()
        if reason:
            raise Trouble("refused", f"the machine's clock is not set: {reason}")
        try:
            time.clock_settime_ns(time.CLOCK_REALTIME, wall_ns)
        except PermissionError:
            raise Trouble("refused", "setting the clock needs root (CAP_SYS_TIME)") from None

    def synchronisation(self) -> list[str]:
        systemctl = find_program("systemctl")
        if systemctl is None:
            return []
        return [name for name in SYNC_SERVICES if run([systemctl, "is-active", "--quiet", name]).returncode == 0]

    def stop_synchronisation(self, services: Sequence[str]) -> None:
        self._tell_systemd("stop", services)

    def start_synchronisation(self, services: Sequence[str]) -> None:
        self._tell_systemd("start", services)

    def _tell_systemd(self, order: str, services: Sequence[str]) -> None:
        systemctl = find_program("systemctl") or "systemctl"
        for name in services:
            answer = run([systemctl, order, name])
            if answer.returncode != 0:
                raise Trouble("failed", f"cannot {order} {name}: {answer.stderr.strip()}")


class MachineClock:
    """Skews the machine's clock and restores it: the real hosts' way."""

    method = "machine"

    def __init__(self, state: Path, device: ClockDevice) -> None:
        self._saved = state / "clock.json"
        self._device = device

    def environment(self, name: str, env: dict[str, str]) -> dict[str, str]:
        return env

    def check(self, rate: float) -> None:
        if rate != 1.0:
            raise Trouble("unsupported", f"rate: {rate} needs a lab host; a machine's clock can only jump")
        reason = refusal()
        if reason and isinstance(self._device, RealClockDevice):
            raise Trouble("refused", f"the machine's clock is not set: {reason}")

    def apply(self, name: str, entries: Sequence[Entry]) -> None:
        if entries:
            self._save()
            self._device.set_wall_ns(self.true_wall_ns() + round(entries[-1].arguments["offset_s"] * SECOND))
            return
        saved = self._read()
        if saved is None:
            return
        if saved["boot"] == boot_id():  # a reboot has set the clock by itself
            self._device.set_wall_ns(self.true_wall_ns())
        self._device.start_synchronisation(saved["services"])
        self._saved.unlink(missing_ok=True)

    def true_wall_ns(self) -> int:
        """What the clock would show had nobody set it."""
        saved = self._read()
        if saved is None:
            return self._device.wall_ns()
        return saved["wall_ns"] + self._device.raw_ns() - saved["raw_ns"]

    def offset(self, definition: Definition, running: Identity | None) -> dict[str, object]:
        return {"offset_s": (self._device.wall_ns() - self.true_wall_ns()) / SECOND, "mapped": None}

    def _save(self) -> None:
        """Durable before the first change: only with this can the clock be put right again."""
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
