"""Declare the checks of what nodes left: in-sync replicas (`logs.py`), and the control plane (`control.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from squall.results.checkers.common.anomaly import Anomaly
from squall.results.checkers.common.check import Facts, Outcome, TableCheck
from squall.results.checkers.replicas.anomalies import (
    DAMAGED,
    DIVERGENCE,
    EPOCH_REGRESS,
    ILLEGAL_DECISION,
    LACKS,
    LEADER_OUTSIDE_ISR,
    LOG_MATCHING,
    METADATA_MISMATCH,
    METADATA_REPLACED,
    REPLICA_ANOMALIES,
    TWO_LEADERS,
    TWO_VOTES,
    WRONG_FILE,
)
from squall.results.history.operation_kinds import CONTROL_PLANE, REPLICAS

if TYPE_CHECKING:
    import pyarrow as pa

    from squall.results.checkers.replicas.facts import Findings, ReplicaWitness

MOST_UNDECIDED: Final = 5


def _look_at_replicas(table: pa.Table, workload: Facts, seconds: float) -> Outcome[ReplicaWitness]:
    from squall.results.checkers.replicas.facts import Findings
    from squall.results.checkers.replicas.logs import compare_all
    from squall.results.checkers.replicas.tables import topic_partitions_in
    from squall.results.history.operation_tables import KINDS

    found = compare_all(topic_partitions_in(table), Findings(KINDS[REPLICAS].file))
    return _outcome(found, found.looked_at["records"], "no in-sync replica held a record: nothing was compared")


def _look_at_control_plane(table: pa.Table, workload: Facts, seconds: float) -> Outcome[ReplicaWitness]:
    from squall.results.checkers.replicas.control import judge_control
    from squall.results.checkers.replicas.facts import Findings
    from squall.results.checkers.replicas.tables import control_in
    from squall.results.history.operation_tables import KINDS

    found = judge_control(*control_in(table), Findings(KINDS[CONTROL_PLANE].file))
    return _outcome(found, found.looked_at["metadata batches"], "no metadata log could be read: nothing was checked")


def _outcome(found: Findings, checked: int, nothing: str) -> Outcome[ReplicaWitness]:
    undecided = found.undecided or ([] if checked else [nothing])
    more = len(undecided) - MOST_UNDECIDED
    return Outcome(
        checked=checked,
        anomalies=dict(found.anomalies),
        proofs=tuple(found.witnesses),
        undecided=(*undecided[:MOST_UNDECIDED], *((f"and {more} more like these",) if more > 0 else ())),
        counts=dict(found.looked_at),
        noted=dict(found.noted),
    )


def _anomalies(*names: str) -> tuple[Anomaly, ...]:
    return tuple(one for one in REPLICA_ANOMALIES if one.name in names)


REPLICA_CHECKS: Final = (
    TableCheck(
        REPLICAS,
        "in-sync replicas equal and complete",
        _look_at_replicas,
        _anomalies(LACKS, DIVERGENCE, LOG_MATCHING, DAMAGED, WRONG_FILE, EPOCH_REGRESS),
        proof="replica",
    ),
    TableCheck(
        CONTROL_PLANE,
        "one leader an epoch, committed metadata kept",
        _look_at_control_plane,
        _anomalies(
            LOG_MATCHING,
            WRONG_FILE,
            EPOCH_REGRESS,
            TWO_LEADERS,
            TWO_VOTES,
            METADATA_REPLACED,
            METADATA_MISMATCH,
            LEADER_OUTSIDE_ISR,
            ILLEGAL_DECISION,
        ),
        proof="replica",
    ),
)
