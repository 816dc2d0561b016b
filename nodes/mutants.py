"""Seeded bugs, each one documented branch in the code it concerns, off unless named at start.

A checker that has never caught a bug is not known to work. Each mutant here breaks one rule; a run with it
must be judged invalid while its healthy twin stays valid (HX-08). A node started with mutants says so in its
log and its trace, and nothing but the explicit `--mutant` option can switch one on (HX-15).
"""

from __future__ import annotations

from dataclasses import dataclass

MUTANTS: dict[str, str] = {
    "hw-before-isr-ack": "N03: the leader's high watermark is its own log end offset (breaks DP-06, DP-14)",
    "ack-before-replication": "N04: acks=all is answered after the local append (breaks DP-08)",
    "alter-partition-unfenced": "N02: the controller takes an ISR from whoever sends it, in any epoch (breaks IS-07)",
    "broker-epoch-unchecked": "N14: the controller lets a restarted replica into an ISR (breaks IS-08)",
    "unclean-restart-stays-eligible": "an unclean restart costs no place in ISR and ELR (breaks EL-05, rule 28)",
    "truncate-to-hw": "N06: on a new leader epoch a replica cuts its log to its local high watermark (breaks DP-13)",
}


@dataclass(frozen=True, slots=True)
class Mutants:
    """The mutants a node was started with. Passed by constructor to whoever has a branch for one."""

    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.names - MUTANTS.keys())
        if unknown:
            raise ValueError(f"unknown mutant {unknown[0]!r}; known are {', '.join(sorted(MUTANTS))}")

    def has(self, name: str) -> bool:
        """Whether this node carries the named bug. The name must be a registered one."""
        if name not in MUTANTS:
            raise KeyError(f"no mutant named {name!r} is registered")
        return name in self.names


HEALTHY = Mutants()
