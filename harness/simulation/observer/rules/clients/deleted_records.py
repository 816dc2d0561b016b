"""DP-16: what a DeleteRecords request has deleted is never delivered again.

The response states the low watermark: no replica that is alive has anything below it, so no later poll may deliver it,
whichever replica answers. Source: KIP-107.

Asserted when the response is given and when it arrives, on every replica that its leader has counted as alive since the
request came or was sent, and when a poll completes that began after it. Legal:

* a replica that a reassignment is adding, of which the leader may not have known yet; one whose broker is down; one
  whose broker the leader's metadata show as unfenced since a moment after the request (seed 943603); one whose broker
  runs in an incarnation that the leader's metadata do not have: it may have lost its disk since (seed 986497);
* a poll that began before the response arrived;
* an answer by a broker that was fenced for the leader when it answered: it did not count, and brings its old log start
  back until it has fetched from the leader, or leads by an unclean election (seed 1022028);
* anything after a declared loss, or of a topic created again under the name: that is another log. A leader that is
  deposed and does not know it may even delete records of the earlier log after the loss (seeds 908213, 908371).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import Rule
from squall.harness.simulation.observer.state.client_checker import Promised
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.delete_records import DeleteRecordsResponse
from squall.nodes.protocol.requests.session import ServerRequest
from squall.workloads.core.operation import DELETE_RECORDS, FINAL_POLL, OK, POLL, Event


@dataclass(frozen=True, slots=True)
class _Deletion:
    """An acknowledged deletion: everything below `low_watermark`, on the brokers that counted as alive."""

    low_watermark: int
    at: int
    alive: frozenset[int]
    losses: int


class _Said(NamedTuple):
    """A broker's claim that everything below an offset is deleted."""

    by: str
    topic: str
    partition: int
    low_watermark: int


class DeletedRecords(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._deletions: dict[int, list[_Deletion]] = {}
        """By the identity of the log that the deletion was about."""
        self._active_since: dict[str, dict[int, int]] = {}
        """By host, and by the id of a broker that is active in its metadata, since when."""

    def images_examined(self, process: SimProcess, node: BaseNode) -> None:
        if node.broker is None:
            return
        before = self._active_since.get(process.name, {})
        active = [one.id for one in node.broker.image.brokers.values() if one.active]
        self._active_since[process.name] = {one: before.get(one, process.now) for one in active}

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        response = None if request.answer is None else request.answer.response
        if not isinstance(response, DeleteRecordsResponse) or node.broker is None:
            return
        before = self._active_since.get(process.name, {})
        now = [one.id for one in node.broker.image.brokers.values() if one.active]  # some may go in this turn
        alive = frozenset(one for one in now if before.get(one, process.now) < request.received_at)
        alive = self._known_to(node, alive)
        for topic in response.topics:
            for one in topic.partitions:
                if one.error_code == 0:
                    said = _Said(process.name, topic.name, one.partition_index, one.low_watermark)
                    self._check_replicas(said, alive)

    def completed(self, event: Event, promised: Promised) -> None:
        operation, completion = event.operation, event.completion
        if completion is None or completion.type != OK or event.completed is None:
            return
        if operation.f == DELETE_RECORDS and completion.log_start is not None:
            if promised.log.superseded(completion.leader_epoch, completion.log_start - 1):
                return
            alive = self._alive_since(event)
            if self.cluster.is_only_topic_of_its_name(operation.topic) and alive:
                deletion = _Deletion(completion.log_start, event.completed, alive, promised.losses)
                self._deletions.setdefault(id(promised), []).append(deletion)
                if operation.topic is not None and operation.partition is not None:
                    name = self.cluster.names.get(completion.node or 0, "")
                    said = _Said(name, operation.topic, operation.partition, deletion.low_watermark)
                    self._check_replicas(said, alive)
        elif operation.f in (POLL, FINAL_POLL) and completion.offsets:
            self._check(event, promised)

    def _known_to(self, node: BaseNode, brokers: Iterable[int]) -> frozenset[int]:
        """Return those of the brokers whose running incarnation is in the metadata of this node."""
        assert node.broker is not None
        known = node.broker.image.brokers
        running = ((one, self.cluster.running(one)) for one in brokers)
        return frozenset(
            one
            for one, found in running
            if found is not None
            and found.broker is not None
            and one in known
            and found.broker.lifecycle.epoch == known[one].epoch
        )

    def _check_replicas(self, said: _Said, alive: frozenset[int]) -> None:
        cluster = self.cluster
        image = cluster.images.newest_image
        topic_id = None if image is None else image.topic_ids.get(said.topic)
        if topic_id is None:
            return
        key = (topic_id, said.partition)
        registration = cluster.images.newest[key]
        for broker in alive.intersection(registration.replicas).difference(registration.adding):
            replica = cluster.replica_of(cluster.names[broker], key)
            if replica is not None and replica.log.start_offset < said.low_watermark:
                raise InvariantBroken(
                    "DP-16",
                    f"{said.topic}-{said.partition}: {said.by} says that everything below {said.low_watermark} is "
                    f"deleted, and the log of {cluster.names[broker]} begins at {replica.log.start_offset}",
                )

    def _alive_since(self, event: Event) -> frozenset[int]:
        """Return the brokers that the answering one has counted as alive since the request was sent."""
        assert event.completion is not None and event.completed is not None
        name = self.cluster.names.get(event.completion.node or 0, "")
        if name not in self._active_since:
            return frozenset()
        sent = self.cluster.processes[name].now - (event.completed - event.invoked) // 1_000
        since_then = [one for one, since in self._active_since[name].items() if since < sent]
        node = self.cluster.processes[name].node
        return frozenset() if node is None or node.broker is None else self._known_to(node, since_then)

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
