"""What a system cannot be asked for that does not speak Kafka's protocol, with the reasons, for its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from squall.harness.plugins.system_limits import CONTROLLERS, DYNAMIC_VOTERS, MUTANTS, REPLICAS

NO_KAFKA: Final = "it does not speak Kafka's protocol"
NO_LEDGER: Final = "its nodes keep no ledger of what they have fsynced, so it is not known what a power loss would take"
NOT_WATCHED: Final = "its nodes' disk calls are not watched"

KAFKA_FAULTS: Final = (
    *("rpc-hold", "rpc-cut"),
    *("reassign", "elect-leaders", "alter-config", "set-feature", "remove-voter", "admin-mix"),
    *("reconfigure", "leader-kill-lagging", "connection-storm"),
)
"""Faults that read Kafka's messages or ask the cluster by them."""
FAULTS_OF_WATCHED_DISKS: Final = (
    *("kill-at-call", "disk-error", "disk-slow", "disk-stall", "disk-full", "read-only-disk"),
)

LACKED_FAULTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(KAFKA_FAULTS, NO_KAFKA),
    **dict.fromkeys(("power-loss", "lying-fsync"), NO_LEDGER),
    **dict.fromkeys(FAULTS_OF_WATCHED_DISKS, NOT_WATCHED),
}

LACKS: Final[Mapping[str, str]] = {
    MUTANTS: "it has no seeded bugs",
    REPLICAS: "its logs have a format of their own",
    DYNAMIC_VOTERS: NO_KAFKA,
    CONTROLLERS: "its servers are all alike; one of them is elected",
}
"""What a cluster lacks whose servers are all alike."""


def wrong_with_load(options: Any, *, acknowledges: str, without: tuple[str, ...]) -> str | None:
    """Return why a client program cannot carry out a workload; None if it can.

    `acknowledges` is what the system acknowledges; `without` are options of operations that the program does not have.
    """
    if options.acks != "all":
        return f"acks: {options.acks}: {acknowledges}; acks must be all"
    for option in without:
        if getattr(options, option, None):
            return f"{option}: its client program has no such operations; leave it out"
    return None
