"""Workloads of installed packages (`squall.workloads`), handed to the list of workloads.

Load workers use this module as well, and import nothing of the nemesis.
"""

from __future__ import annotations

from squall.harness.plugins.plugins import WORKLOADS, Plugins
from squall.workloads.workload import WORKLOAD_NAMES, plug_in, wrong_with_workload

WORKLOAD_PLUGINS = Plugins(
    WORKLOADS,
    WORKLOAD_NAMES,
    "a WorkloadKind of squall.workloads.workload (docs/writing-a-workload.md)",
    wrong_with_workload,
)
plug_in(WORKLOAD_PLUGINS)
