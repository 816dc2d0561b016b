"""DP-07: log start ≤ high watermark ≤ log end, on every replica.

Source: requirement DP-07. Asserted whenever a replica is inspected. Legal: a follower whose high watermark lags.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class LogBounds(Rule):
    """See the module."""

    def replica_touched(self, turn: ReplicaTurn) -> None:
        replica = turn.replica
        start, high_watermark, end = replica.log.start_offset, replica.high_watermark, replica.end_offset
        if not start <= high_watermark <= end:
            raise InvariantBroken(
                "DP-07",
                f"{turn.watched.log.name}: {turn.process.name} has log start {start}, high watermark "
                f"{high_watermark}, log end {end}",
            )
