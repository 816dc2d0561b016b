"""IDLE: in a whole cluster without clients, no node answers another with an error, and no leader announces itself.

A node that asks in vain tries again, and one that says what the other knows is answered with success: nothing of it
breaks a promise or makes an operation late. Under faults each such request may have a cause. When all faults are over,
the cluster is whole and no client asks anything, there is none. Asserted for every request that a node receives then:

* no answer to another node contains an error;
* a leader of the quorum sends no BeginQuorumEpoch to voters that fetch (QC-11). They fetch in time, if the leader holds
  a fetch for less than half of the fetch timeout, by `WAIT_MARGIN`.

Legal: an announcement of a leader that holds fetches for half of the fetch timeout, since that is short: the next fetch
comes a little too late. One of a leader that pushes records: it gets no fetches. A request from before that time. An
error within `SETTLING` after leaderships have gone back to the preferred replicas: not all know that yet. One in the
turn in which a broker is the first to read new metadata (`worlds` seed 1024400).

Source: KIP-595, requirement QC-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId, Watched
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message, fields_of
from squall.nodes.raft.config import FETCH_MAX_WAIT

SETTLING: Final = MICROSECONDS
"""How long after a change of a leader or of members an error is legal, in microseconds."""
WAIT_MARGIN: Final = MICROSECONDS // 4
"""How much longer than a fetch waits half the fetch timeout is, in microseconds, so that no announcement is due."""


class IdleAnswers(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._idle_since: int | None = None
        self._changed_at = -SETTLING
        """When the last topic-partition changed its leader or members."""

    def membership_changed(self, key: TopicPartitionId, watched: Watched) -> None:
        self._changed_at = max(process.now for process in self.cluster.processes.values())

    def idle(self, now: int) -> None:
        self._idle_since = now

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if self._idle_since is None or request.received_at < self._idle_since or request.answer is None:
            return
        name, after = ApiKey(request.api_key).name, (process.now - self._idle_since) / MICROSECONDS
        when = f"{after:.3f} s after the last request of a client"
        settled = request.received_at >= self._changed_at + SETTLING and not self._reads_news(node)
        if settled and request.answer.response is not None and (errors := set(_errors(request.answer.response))):
            raise InvariantBroken("IDLE", f"{process.name} answers {name} with error {min(errors)}, {when}")
        if request.api_key == ApiKey.BEGIN_QUORUM_EPOCH and _fetches_in_time(node):
            raise InvariantBroken("IDLE", f"{process.name} fetches, and a leader of the quorum sends it {name}, {when}")

    def _reads_news(self, node: BaseNode) -> bool:
        """Return whether a broker's image has in this turn become newer than any that was examined."""
        return node.broker is not None and node.broker.image.last_offset > self.cluster.images.newest_offset


def _fetches_in_time(node: BaseNode) -> bool:
    """Return whether a leader that has this node's configuration gets a fetch of it before it would announce itself."""
    with_quorum = node_of_quorum(node)
    if with_quorum is None or not with_quorum.raft.pulls:
        return False
    return with_quorum.config.controller_quorum_fetch_timeout_ms * 1_000 // 2 >= FETCH_MAX_WAIT + WAIT_MARGIN


def _errors(value: Any) -> Iterator[int]:
    """Yield the errors of a message and of all that it contains."""
    if isinstance(value, list):
        for item in value:
            yield from _errors(item)
    elif isinstance(value, Message):
        for name, _ in fields_of(type(value)):
            one = getattr(value, name)
            if name != "error_code":
                yield from _errors(one)
            elif one:
                yield int(one)
