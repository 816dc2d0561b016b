"""Hosts of a reduced lab: processes of an ordinary user, on a machine that is everybody's.

Such a host has an address, files and processes of its own, and shares all else with the others and with the machine:
the network, the file system, the processors, the kernel's clocks. So it offers the faults that are about one process
or its files, and no other; also none that the user's rights would do for, for what it disturbed would be the machine.
The list says what is offered: a new verb is not, until somebody has thought about it.
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
"""Of these, none reaches beyond the process that it is aimed at and the directory of its data."""

NO_NETWORK = "a host of a reduced lab has no network of its own"
SHARED = "a host of a reduced lab shares processors, disks and files with the machine"


def not_offered(verbs: Iterable[str]) -> dict[str, str]:
    """Of these verbs those that a host of a reduced lab refuses, and why."""
    refused = (verb for verb in verbs if verb not in OFFERED)
    return {verb: NO_NETWORK if verb.partition(".")[0] in ("net", "rpc") else SHARED for verb in refused}
