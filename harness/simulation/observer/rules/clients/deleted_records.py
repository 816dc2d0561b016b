"""DP-16: what a DeleteRecords request has deleted is never delivered again.

The response states the low watermark: no replica that is alive has anything below it, so no later poll may deliver it,
whichever replica answers. Source: KIP-107.

Asserted when a poll completes that began after the response. Legal:

* a poll that began before the response arrived;
* an answer by a broker that was fenced for the leader when the response came: it did not count, and brings its old log
  start back until it has fetched from the leader;
* anything after a declared loss, or of a topic created again under the name: that is another log. A leader that is
  deposed and does not know it may even delete records of the earlier log after the loss (seeds 908213, 908371).
"""

from __future__ import annotations

from dataclasses import dataclass

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.client_checker import Promised
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.workloads.core.operation import DELETE_RECORDS, FINAL_POLL, OK, POLL, Event


@dataclass(frozen=True, slots=True)
class _Deletion:
    """An acknowledged deletion: everything below `low_watermark`, on the brokers that counted as alive."""

    low_watermark: int
    at: int
    alive: frozenset[int]
    losses: int


class DeletedRecords(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._deletions: dict[int, list[_Deletion]] = {}
        """By the identity of the log that the deletion was about."""

    def completed(self, event: Event, promised: Promised) -> None:
        operation, completion = event.operation, event.completion
        if completion is None or completion.type != OK or event.completed is None:
            return
        if operation.f == DELETE_RECORDS and completion.log_start is not None:
            if promised.log.superseded(completion.leader_epoch, completion.log_start - 1):
                return
            alive = self._alive(completion.node)
            if self.cluster.is_only_topic_of_its_name(operation.topic) and alive:
                deletion = _Deletion(completion.log_start, event.completed, alive, promised.losses)
                self._deletions.setdefault(id(promised), []).append(deletion)
        elif operation.f in (POLL, FINAL_POLL) and completion.offsets:
            self._check(event, promised)

    def _alive(self, node: int | None) -> frozenset[int]:
        """Return the brokers that are unfenced in the image of this one; none if it has died since."""
        found = None if node is None else self.cluster.running(node)
        if found is None or found.broker is None:
            return frozenset()
        return frozenset(broker.id for broker in found.broker.image.brokers.values() if broker.active)

    def _check(self, event: Event, promised: Promised) -> None:
        operation, completion = event.operation, event.completion
        assert completion is not None
        lowest = completion.offsets[0]
        for deletion in self._deletions.get(id(promised), ()):
            if lowest >= deletion.low_watermark or event.invoked < deletion.at or deletion.losses != promised.losses:
                continue
            if completion.node in deletion.alive and self.cluster.is_only_topic_of_its_name(operation.topic):
                raise InvariantBroken(
                    "DP-16",
                    f"{promised.log.name}: client {operation.client} was given offset {lowest} by "
                    f"{self.cluster.names.get(completion.node or 0)}, and everything below {deletion.low_watermark} "
                    "had been deleted",
                )
