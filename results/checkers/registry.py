"""The registry of checks: those of Squall itself, each declared in the folder of its rules.

`log` judges each topic-partition (`checkers/log/`). It is no `TableCheck`: its tasks are topic-partitions and slices of
them, which add up, and it has three statements. `log/anomalies.py` declares its anomalies, and which statement each of
these contradicts. `availability` is judged from what a suite requires (`results/verdict/required.py`). All other checks
are a `TableCheck` each. Those of installed packages are in `check_plugins.py`.

Nothing here, nor what this imports, needs pyarrow or numpy: suites are validated with the names of checks, and these
declarations import their rules when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from squall.results.checkers.common.check import TableCheck
from squall.results.checkers.groups.declaration import GROUP_CHECK
from squall.results.checkers.registers.declaration import REGISTER_CHECK
from squall.results.checkers.replicas.declaration import REPLICA_CHECKS
from squall.results.checkers.transactions.declaration import TRANSACTION_CHECKS
from squall.results.history.operation_kinds import OPERATION_KINDS

LOG: Final = "log"
AVAILABILITY: Final = "availability"

OUR_CHECKS: Final[tuple[TableCheck, ...]] = (*TRANSACTION_CHECKS, GROUP_CHECK, REGISTER_CHECK, *REPLICA_CHECKS)
"""The checks of this package, other than that of logs. A verdict lists their anomalies in this order."""

_BY_NAME: Final = {one.name: one for one in OUR_CHECKS}
FURTHER_CHECKS: Final[Mapping[str, TableCheck]] = {name: _BY_NAME[name] for name in OPERATION_KINDS}
"""The same checks by name, in the order of their kinds, in which they are carried out and listed."""

KNOWN_CHECKS: Final = (LOG, AVAILABILITY, *FURTHER_CHECKS)
"""The names allowed among a manifest's `checks`, beside those of installed packages."""
