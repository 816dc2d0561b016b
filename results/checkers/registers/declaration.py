"""Declare the check of registers: linearizability of each (`check.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from squall.results.checkers.common.check import Facts, Outcome, TableCheck
from squall.results.checkers.common.text import several
from squall.results.checkers.registers.anomalies import REGISTER_ANOMALIES
from squall.results.history.operation_kinds import REGISTERS

if TYPE_CHECKING:
    import pyarrow as pa

    from squall.results.checkers.registers.result import RegisterWitness


def _look(table: pa.Table, workload: Facts, seconds: float) -> Outcome[RegisterWitness]:
    # imported here also because it needs pandas, which takes longer to load than most logs take to check
    from squall.results.checkers.registers.check import Limits, check_registers

    result = check_registers(table, limits=Limits(seconds=seconds))
    more = result.undecided_count - len(result.undecided)
    return Outcome(
        checked=result.checked,
        anomalies=result.anomalies,
        proofs=result.witnesses,
        undecided=(*result.undecided, *((f"and {several(more, 'register')} more",) if more else ())),
        counts={
            "operations": table.num_rows,
            "registers": result.registers,
            "decided by zones": result.by_zones,
            "decided by search": result.by_search,
        },
    )


REGISTER_CHECK: Final = TableCheck(REGISTERS, "linearizable registers", _look, REGISTER_ANOMALIES, proof="register")
