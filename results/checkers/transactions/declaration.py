"""Declare the checks of transactions: on lists (`list_append.py`), and on a log (`log_rules.py`, T1 to T4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from squall.results.checkers.common.check import Facts, Outcome, TableCheck
from squall.results.checkers.log.anomalies import LOG_ANOMALIES
from squall.results.checkers.transactions.anomalies import CYCLES, LIST_ANOMALIES, TRANSACTIONAL_LOG_ANOMALIES
from squall.results.history.operation_kinds import LIST_APPEND, TRANSACTIONAL_LOG

if TYPE_CHECKING:
    import pyarrow as pa

    from squall.results.checkers.transactions.facts import TransactionWitness
    from squall.results.checkers.transactions.log_facts import LogWitness

STRICTEST: Final = "strict-serializable"
"""The model that must hold if the workload states none."""


def _look_at_lists(table: pa.Table, workload: Facts, seconds: float) -> Outcome[TransactionWitness]:
    """Check what the workload's `model` forbids; what only a stronger model forbids is noted."""
    from squall.results.checkers.transactions.list_append import MODELS, check_list_append

    model = str(workload.get("model", STRICTEST))
    if model not in MODELS:
        return Outcome(0, undecided=(f"the workload's model {model!r} is not one of {', '.join(MODELS)}",))
    result = check_list_append(table, seconds=seconds)
    forbidden = MODELS[model]
    return Outcome(
        checked=result.transactions.get("ok", 0) if result.elements else 0,
        anomalies={name: count for name, count in result.anomalies.items() if name in forbidden},
        proofs=tuple(one for one in result.witnesses if one.anomaly in forbidden),
        undecided=result.undecided,
        counts={
            "transactions": sum(result.transactions.values()),
            "operations": result.micro_operations,
            "elements read": result.elements,
            "keys": result.keys,
        },
        noted={name: count for name, count in result.anomalies.items() if name not in forbidden},
    )


def _look_at_log(table: pa.Table, workload: Facts, seconds: float) -> Outcome[LogWitness]:
    from squall.results.checkers.transactions.log_facts import log_witnesses
    from squall.results.checkers.transactions.log_rules import check_transactional_log

    result = check_transactional_log(table, seconds=seconds)
    return Outcome(
        checked=table.num_rows if result.records else 0,
        anomalies=result.counts,
        proofs=tuple(log_witnesses(table, result)),
        undecided=result.undecided,
        counts={"transactions and polls": table.num_rows, "records read": result.records},
    )


_OF_LOG_ENDS: Final = ("stale_read", "hw_regress", "hw_ahead", "log_start_ahead")
"""The laws of a log that are about log ends, which transactions do not state."""

TRANSACTION_CHECKS: Final = (
    TableCheck(
        LIST_APPEND,
        "transactions in an order that explains their reads",
        _look_at_lists,
        (*CYCLES, *LIST_ANOMALIES),
        proof="transactions",
    ),
    TableCheck(
        TRANSACTIONAL_LOG,
        "transactions whole and never read before they are committed",
        _look_at_log,
        (
            *(one for one in LOG_ANOMALIES if one.name not in _OF_LOG_ENDS),
            *(one for one in CYCLES if one.name.startswith("G1c")),
            *TRANSACTIONAL_LOG_ANOMALIES,
        ),
        proof="log",
    ),
)
