"""Hosts of a reduced lab: processes of an ordinary user, on a shared machine.

Such a host has its own address, files and processes, and shares everything else with the other hosts and the machine:
the network, the file system, the processors, the kernel's clocks. So it offers only faults of one process or its files.
It also refuses faults that the user's rights would allow but that would disturb the machine. The list names what is
offered, so a new verb is refused until it is added deliberately.
"""

from __future__ import annotations

from collections.abc import Iterable

OFFERED = (
    "proc.adopt",
    "proc.kill",
    "proc.term",
    "proc.pause",
    "proc.kill_at_call",
    "proc.limit",
    "proc.reconfigure",
    "cpu.throttle",
    "clock.set",
    "clock.monotonic",
    "proc.power_loss",
    "disk.wipe",
    "disk.error",
    "disk.slow",
    "disk.fill",
    "disk.lie",
    "disk.damage",
    "disk.copy",
    "disk.rewind",
)
"""None of these reaches beyond the target process and its data directory."""

NO_NETWORK = "a host of a reduced lab has no separate network"
SHARED = "a host of a reduced lab shares processors, disks and files with the machine"


def not_offered(verbs: Iterable[str]) -> dict[str, str]:
    """The verbs that a host of a reduced lab refuses, and why."""
    refused = (verb for verb in verbs if verb not in OFFERED)
    return {verb: NO_NETWORK if verb.partition(".")[0] in ("net", "rpc") else SHARED for verb in refused}
