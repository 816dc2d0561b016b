"""Declare the check of consumer groups (`rules.py`, G1 to G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from squall.results.checkers.common.check import Facts, Outcome, TableCheck
from squall.results.checkers.groups.anomalies import GROUP_ANOMALIES
from squall.results.history.operation_kinds import GROUPS

if TYPE_CHECKING:
    import pyarrow as pa

    from squall.results.checkers.groups.facts import GroupWitness


def _look(table: pa.Table, workload: Facts, seconds: float) -> Outcome[GroupWitness]:
    from squall.results.checkers.groups.facts import group_witnesses
    from squall.results.checkers.groups.rules import GROUP_FUNCTIONS, check_groups

    result = check_groups(table)
    missing = [f"no {name} was acknowledged" for name in GROUP_FUNCTIONS if not result.checked.get(name)]
    return Outcome(
        checked=sum(result.checked.values()),
        anomalies=result.counts,
        proofs=tuple(group_witnesses(table, result.instances)),
        undecided=result.undecided or tuple(missing),
        counts={f"{name} operations": count for name, count in result.checked.items()},
    )


GROUP_CHECK: Final = TableCheck(
    GROUPS, "groups share nothing and lose no position", _look, GROUP_ANOMALIES, proof="group"
)
