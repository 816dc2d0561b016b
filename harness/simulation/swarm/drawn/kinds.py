"""The kinds of fault and of operators' changes that a swarm draws, and the units in which their effects are counted."""

from __future__ import annotations

KINDS = {
    "crash-broker": "crashes",
    "crash-controller": "crashes",
    "crash-with-tail-broker": "fetches held",
    "restart-broker": "clean restarts",
    "restart-controller": "clean restarts",
    "power-loss-broker": "bytes lost",
    "power-loss-controller": "bytes lost",
    "wipe-disk": "bytes lost",
    "crash-in-disk-call-broker": "crashes",
    "crash-in-disk-call-controller": "crashes",
    "disk-error-broker": "calls failed",
    "disk-error-controller": "calls failed",
    "disk-slow": "calls slowed",
    "pause-broker": "pauses",
    "pause-controller": "pauses",
    "isolate-broker": "stalls",
    "isolate-controller": "stalls",
    "one-way": "stalls",
    "cut-link": "stalls",
    "cut-clients": "stalls",
    "reset": "connections",
    "slow-link": "messages",
    "loss": "retransmissions",
    "bandwidth": "messages",
    "rpc-hold": "messages held",
    "rpc-cut": "messages cut at",
    "clock-step": "clocks",
    "clock-drift": "clocks",
}
"""Every kind of fault, and the unit in which its effect is counted."""

OPERATIONS = {
    "reassign": "accepted",
    "reassign-and-cancel": "accepted",
    "elect-leaders": "accepted",
    "alter-config": "accepted",
    "remove-voter": "voters out and in again",
    "restart-active-controller": "clean restarts",
}
"""Operators' changes, drawn beside the faults where a scenario says `swarm: operations`."""

REMOVE_VOTER = "remove-voter"
QUORUM_ONLY = (REMOVE_VOTER,)
"""Operations that a cluster without a quorum does not have."""

SWITCHES = {"switch-eligible-leaders": "off and on again"}
"""Features that operators also switch where a scenario says `swarm: switches`."""

MOVE_VOTER = "move-voter"
MOVES = {MOVE_VOTER: "clean restarts"}
"""What operators also do with a quorum whose voters are in the metadata log (`moved.py`)."""

RECONFIGURE_BROKER = "reconfigure-broker"
RECONFIGURATIONS = {RECONFIGURE_BROKER: "restarts with other settings"}
"""What operators also do with brokers where a scenario says `swarm: worlds` (`reconfigured.py`)."""

UNREGISTER_BROKER = "unregister-broker"
UNREGISTRATIONS = {UNREGISTER_BROKER: "brokers unregistered"}
"""What operators also do with brokers that are down where a scenario says `swarm: worlds` (`unregistered.py`)."""

LOSE_INDEXES = "lose-indexes"
INDEX_LOSSES = {LOSE_INDEXES: "files damaged"}
"""What brokers lose while they are down, where a scenario says `swarm: worlds` (`lost_indexes.py`)."""

MOMENT_KINDS = {
    "crash-at-moment": "crashes",
    "power-loss-at-moment": "crashes",
    "pause-at-moment": "pauses",
    "isolate-at-moment": "stalls",
}
"""Faults that strike when a node traces an event (`moments.py`), drawn where a scenario says `swarm: worlds`."""

ENSEMBLE_KINDS = {
    "cut-from-ensemble": "stalls",
    "expire-session": "sessions",
    "ensemble-without-quorum": "times",
    "depose-controller": "controllers",
    "hold-orders": "messages held",
}
"""Faults of a ZooKeeper ensemble and of the controller that it elects, drawn for clusters that have one."""

ORDERS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown")
"""Requests of a ZooKeeper-era controller to brokers, and the one of a broker that wants to stop."""

UNITS = (
    KINDS
    | OPERATIONS
    | SWITCHES
    | MOVES
    | RECONFIGURATIONS
    | UNREGISTRATIONS
    | INDEX_LOSSES
    | MOMENT_KINDS
    | ENSEMBLE_KINDS
)

LINK_KINDS = ("one-way", "cut-link", "reset", "slow-link", "loss", "bandwidth")
WAITING_KINDS = ("crash-in-disk-call", "crash-with-tail", "disk-", "rpc-", "bandwidth", "loss")
WAITING_SECONDS = (0.2, 5.0)
"""Faults that take effect only on later traffic stay open longer: the shortest time, and a possible longest time."""
