"""Name the kinds of operations beside those on logs. The name of a kind is also that of its check.

These names are a module of their own because suites are validated with them, and a suite is read without pyarrow. The
tables of the kinds are in `operation_tables.py`, their checks in `checkers/registry.py`.
"""

from __future__ import annotations

from typing import Final

REGISTERS: Final = "registers"
LIST_APPEND: Final = "list-append"
TRANSACTIONAL_LOG: Final = "transactional-log"
GROUPS: Final = "groups"
REPLICAS: Final = "replicas"
CONTROL_PLANE: Final = "control-plane"

OF_NODES: Final = (REPLICAS, CONTROL_PLANE)
"""The kinds that are no operations: a run collects them from its nodes."""

OPERATION_KINDS: Final = (REGISTERS, LIST_APPEND, TRANSACTIONAL_LOG, GROUPS, REPLICAS, CONTROL_PLANE)
"""All of them, in the order in which they are checked and listed."""
