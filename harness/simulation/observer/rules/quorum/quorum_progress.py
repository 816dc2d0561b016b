"""HWM, EPOCH: within an incarnation, a node's quorum epoch and high watermark never fall, and its log reaches that far.

Source: requirements HWM and EPOCH (QC-16). Asserted in each turn that moves a replica of the metadata log. Legal: a new
incarnation, which starts again; truncation of what is not committed.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule
from squall.harness.simulation.observer.state.observed_log import InvariantBroken


class QuorumProgress(Rule):
    """See the module."""

    def quorum_moved(self, turn: QuorumTurn) -> None:
        process, before, now = turn.process, turn.before, turn.now
        if before is not None and (now[1] < before[1] or now[3] < before[3]):
            name = "HWM" if now[1] < before[1] else "EPOCH"
            raise InvariantBroken(name, f"{process.name}: from {before} to {now} (end, high watermark, leads, epoch)")
        if now[1] > now[0]:
            raise InvariantBroken(
                "HWM",
                f"{process.name} has metadata up to {now[0]}, and knows that records up to {now[1]} are committed",
            )
        committed = self.cluster.quorum.seen((process.name, process.incarnation), 0).high_watermark
        for upper in (turn.cut, turn.reset):
            if upper is not None and upper < committed:
                raise InvariantBroken(
                    "HWM", f"{process.name} has cut the metadata log at {upper}, below what is committed"
                )
