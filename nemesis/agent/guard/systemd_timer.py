"""Heals by systemd, where it runs: a timer below keeper and sentries, and a unit at boot.

    squall-heal-ID.timer      transient; every few seconds `agent.py --state … --heal-due`, while a fault is open
    /etc/systemd/system/squall-heal-ID.service      enabled while a fault is open: the same, once, after a reboot

systemd runs if /run/systemd/system exists, the test of `sd_booted(3)`. Both units need root. Without root or systemd
this layer is absent and everything else works unchanged: injecting a fault does not require it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

RUNS = Path("/run/systemd/system")
UNITS = Path("/etc/systemd/system")
EVERY_SECONDS = 5
TIMEOUT = 10
SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

Run = Callable[[Sequence[str]], int]


def run(argv: Sequence[str]) -> int:
    """Run a command. Returns its exit status; 127 if it cannot be run."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127


class SystemdTimer:
    """The timer of one agent's state directory."""

    def __init__(
        self,
        state: Path,
        command: Sequence[str],
        *,
        runs: Path = RUNS,
        units: Path = UNITS,
        run: Run = run,
        is_root: bool | None = None,
    ) -> None:
        self._command = [*command, "--heal-due"]
        self._name = f"squall-heal-{hashlib.sha256(str(state).encode()).hexdigest()[:12]}"
        self._runs = runs
        self._units = units
        self._run = run
        self._is_root = os.geteuid() == 0 if is_root is None else is_root
        self._started = False

    def there(self) -> bool:
        """Whether this host runs systemd and this user may use it."""
        return self._is_root and self._runs.is_dir() and shutil.which("systemd-run", path=SYSTEM_PATH) is not None

    def start(self) -> None:
        """Start the timer unless it runs. A failure is ignored: the other layers do not need it."""
        if not self.there():
            return
        if not self._started or self._run(["systemctl", "--quiet", "is-active", f"{self._name}.timer"]) != 0:
            self._run(
                [
                    *("systemd-run", "--quiet", "--collect", f"--unit={self._name}"),
                    *(f"--on-active={EVERY_SECONDS}s", f"--on-unit-active={EVERY_SECONDS}s"),
                    *("--timer-property=AccuracySec=500ms", "--property=KillMode=process", "--", *self._command),
                ]
            )
            self._started = True
        with contextlib.suppress(OSError):
            self._enable_at_boot()

    def stop(self) -> None:
        """Stop the timer and remove the unit: no fault is open any more."""
        with contextlib.suppress(OSError):
            self._link().unlink(missing_ok=True)
            self._unit().unlink(missing_ok=True)
        if self.there():
            self._run(["systemctl", "--quiet", "stop", f"{self._name}.timer"])
        self._started = False

    def _unit(self) -> Path:
        return self._units / f"{self._name}-at-boot.service"

    def _link(self) -> Path:
        return self._units / "multi-user.target.wants" / self._unit().name

    def _enable_at_boot(self) -> None:
        """Do as `systemctl enable`, but without making systemd reload all its units under load."""
        if self._link().is_symlink():
            return
        self._unit().write_text(
            "[Unit]\n"
            "Description=End the faults that Squall injected before the machine went down\n"
            "[Service]\n"
            "Type=oneshot\n"
            "KillMode=process\n"
            f"ExecStart={shlex.join(self._command).replace('%', '%%').replace('$', '$$')}\n"
        )
        self._link().parent.mkdir(exist_ok=True)
        self._link().symlink_to(self._unit())
