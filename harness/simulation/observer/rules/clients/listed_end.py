"""DP-15: the end offset that a client lists is not above what is committed.

Clients read below the high watermark only (DP-14), so the end that ListOffsets reports, the latest offset, is a high
watermark, and the observed log has everything that any high watermark has covered. Source: KIP-207, the list offsets
protocol. Asserted when a `list_offsets` of a client completes. Legal: an answer of an older line of the log, given
before a declared loss, or by a leader that is deposed and does not know it; an answer about an earlier topic of the
same name.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.client_checker import Promised
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.workloads.core.operation import LIST_OFFSETS, OK, Event


class ListedEnd(Rule):
    """See the module."""

    def completed(self, event: Event, promised: Promised) -> None:
        operation, completion = event.operation, event.completion
        if operation.f != LIST_OFFSETS or completion is None or completion.type != OK:
            return
        listed, log = completion.high_watermark, promised.log
        if listed is None or listed <= log.end or log.superseded(completion.leader_epoch, listed - 1):
            return
        if not self.cluster.is_only_topic_of_its_name(operation.topic):
            return
        raise InvariantBroken(
            "DP-15",
            f"{log.name}: client {operation.client} was given {listed} as the end offset in leader epoch "
            f"{completion.leader_epoch}, committed end is {log.end}",
        )
