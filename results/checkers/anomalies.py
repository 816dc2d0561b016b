"""The registry of anomalies: their stable names, what each means, and where to look for the cause.

Each is declared with its check (`registry.py`). Names follow Jepsen's where it has one. They appear in suites
(`expect: {invalid: [lost_write]}`), in `verdict.json` and in reports, and are never renamed.
"""

from __future__ import annotations

from typing import Final

from squall.results.checkers.common.anomaly import Anomaly
from squall.results.checkers.log.anomalies import LOG_ANOMALIES
from squall.results.checkers.registry import OUR_CHECKS

__all__ = ["ANOMALIES", "Anomaly"]

ANOMALIES: Final[dict[str, Anomaly]] = {
    one.name: one for one in (*LOG_ANOMALIES, *(one for check in OUR_CHECKS for one in check.anomalies))
}
"""By name, in the order in which a verdict lists them."""
