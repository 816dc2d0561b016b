"""DP-04: a follower goes on in the fetch session that its leader gave it (KIP-227).

A follower that does not names all of its topic-partitions in every fetch, and leaves a session behind with each.
Nothing is lost but time and room, so nobody notices. Asserted when a leader answers a follower's Fetch:

* if the answer before it, on the same connection, named a session and no error, the fetch is of that session and names
  the next epoch, or ends it with epoch 0
* a fetch that names no session asks for one, by epoch 0
* the fetch does not take a topic-partition out of the session of which the follower has appended what it was sent last,
  up to the last batch that was whole: nothing was wrong with it

Legal: a fetch on another connection, since the answer may have been lost with the first one; a follower that has begun
to follow this leader anew; the first fetch after an error, and after an answer without a session; a stranger that sends
a follower's fetches again; a topic-partition that another broker leads by now, or in another epoch, that the follower
hosts no more, or of which it was sent an error, or to truncate.

Source: DP-04; `FetchSessionHandler` of Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import Rule, is_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.requests.fetch_sessions import INT_MAX, fetcher_of
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.fetcher import ReplicaFetcher


class _Given(NamedTuple):
    """The session that a follower's fetcher was given on a connection, 0 for none, and the epoch that follows."""

    fetcher: ReplicaFetcher
    connection: int
    session: int
    epoch: int
    sent: dict[TopicPartitionId, tuple[int, int]]
    """Of what was answered last with records: the leader epoch, and where the records end."""


def _epoch_after(epoch: int) -> int:
    """The epoch of the fetch after one, in the same session."""
    return 1 if epoch == INT_MAX else epoch + 1


class ContinuedSessions(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._given: dict[tuple[str, int], _Given] = {}
        """By leader and follower."""

    def died(self, process: SimProcess) -> None:
        for key in [key for key in self._given if key[0] == process.name]:
            del self._given[key]

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        asked = request.body
        if not isinstance(asked, FetchRequest) or request.answer is None or is_of_quorum(asked):
            return
        told, follower = request.answer.response, fetcher_of(request)[0]
        fetcher = self._fetcher(follower, node.config.node_id, process.peer_address(request.connection))
        if not isinstance(told, FetchResponse) or fetcher is None:
            return
        key = (process.name, follower)
        given = self._given.get(key)
        is_next = given is not None and given[:2] == (fetcher, request.connection)
        sent = given.sent if given is not None and is_next else {}
        self._check_forgotten(process, follower, asked, sent)
        _note_sent(sent, node, told)
        session = 0 if told.error_code else told.session_id
        self._given[key] = _Given(fetcher, request.connection, session, _epoch_after(asked.session_epoch), sent)
        named = f"session {asked.session_id}, epoch {asked.session_epoch}"
        if asked.session_id == 0 and asked.session_epoch != 0:
            raise InvariantBroken(
                "DP-04", f"{self.cluster.names[follower]} has no fetch session at {process.name}, and names {named}"
            )
        if given is None or not is_next or not given.session:
            return
        if asked.session_id != given.session or asked.session_epoch not in (0, given.epoch):
            raise InvariantBroken(
                "DP-04",
                f"{self.cluster.names[follower]} was given fetch session {given.session} by {process.name}, whose next "
                f"epoch is {given.epoch}, and names {named} in its next fetch",
            )

    def _check_forgotten(
        self, process: SimProcess, follower: int, asked: FetchRequest, sent: dict[TopicPartitionId, tuple[int, int]]
    ) -> None:
        """Check what a fetch takes out of its session, by what was sent before."""
        for topic in asked.forgotten_topics_data:
            for number in topic.partitions:
                key = (bytes(topic.topic_id), number)
                replica = self.cluster.replica_of(self.cluster.names[follower], key)
                if key not in sent or replica is None:
                    continue
                epoch, end = sent.pop(key)
                if (replica.leader_epoch, replica.end_offset, replica.is_leader) == (epoch, end, False):
                    raise InvariantBroken(
                        "DP-04",
                        f"{replica.topic}-{number}: {self.cluster.names[follower]} was sent records by {process.name}, "
                        f"has appended them up to {end}, and takes it out of its fetch session",
                    )

    def _fetcher(self, follower: int, leader: int, address: str | None) -> ReplicaFetcher | None:
        """The fetcher with which a broker follows this leader now.

        None if it does not, is no broker, or is not at this address, from which a fetch in its name has come.
        """
        process = self.cluster.processes.get(self.cluster.names.get(follower, ""))
        node = None if process is None or process.address != address else process.node
        return None if node is None or node.broker is None else node.broker.replicas.fetcher_of(leader)


def _note_sent(sent: dict[TopicPartitionId, tuple[int, int]], node: BaseNode, told: FetchResponse) -> None:
    """Note where the records of an answer end that was given to a follower."""
    assert node.broker is not None
    for topic in told.responses:
        for part in topic.partitions:
            key = (bytes(topic.topic_id), part.partition_index)
            hosted = node.broker.replicas.by_id(*key)
            sent.pop(key, None)
            if part.records and not part.error_code and part.diverging_epoch.epoch < 0 and hosted is not None:
                end = max(
                    (header.next_offset for header, _ in iterate_batches(part.records, torn_tail=True)), default=-1
                )
                sent[key] = (hosted.replica.leader_epoch, end)
