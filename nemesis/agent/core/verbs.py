"""The names of fault verbs, and which of them decide together what happens."""

from __future__ import annotations

TERM = "proc.term"
KILLS = ("proc.kill", TERM, "proc.power_loss", "disk.wipe", "disk.rewind")
"""Verbs after which the process is down until the last of them is reverted."""
MESSAGE_FAULTS = ("rpc.hold", "rpc.cut", "rpc.stream")
"""Verbs that one proxy carries out together."""
LINK_FAULTS = ("net.shape", "net.spoil")
"""Verbs that one link emulator carries out together."""
ERROR = "disk.error"
KILL_AT_CALL = "proc.kill_at_call"
DISK_FULL = "disk.fill"
DISK_FAULTS = (ERROR, "disk.slow", DISK_FULL, "disk.lie", KILL_AT_CALL)
"""Verbs whose rules one disk combines."""
PAUSE = "proc.pause"
WITH_OTHERS = {"disk.damage": KILLS, "disk.copy": (PAUSE,)}
"""Verbs whose reverting depends on the open entries of other verbs."""


def verb_family(verb: str) -> tuple[str, ...]:
    """The verbs whose open entries together decide the host's state."""
    if verb in DISK_FAULTS:
        return (*DISK_FAULTS, *KILLS)
    if verb in WITH_OTHERS:
        return (verb, *WITH_OTHERS[verb])
    return next((family for family in (KILLS, MESSAGE_FAULTS, LINK_FAULTS) if verb in family), (verb,))
