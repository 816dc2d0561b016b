"""DP-04: a fetch session forgets nothing (KIP-227).

Fetcher and leader keep the content of a session separately, and send only changes of it. A topic-partition that the
leader's side has lost, or holds at another position, is never read again, and no error says so: it stays behind until
the session ends. So the two sides are compared, and the leader's side with the log:

* when both sides of a follower's session are at the same epoch, nothing is under way: the leader holds exactly the
  topic-partitions that the follower has named and not forgotten, at the positions that it named;
* a topic-partition of which a session has not received everything is among the news of that session;
* so is one whose log no longer has the session's position, since only an error tells the other side;
* a broker keeps no more sessions than `max.incremental.fetch.session.cache.slots`;
* it counts the topic-partitions that its sessions name right, since that count too is limited.

Asserted when a replica is touched, for the sessions that name it, and at the end of the run; the count at its end
only. Legal: sides at different epochs, a session that the leader has dropped, a topic-partition that is no longer
hosted.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.broker.requests.fetch_sessions import Watch
from squall.nodes.node.base import BaseNode


class SessionContents(Rule):
    """See the module."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        node, replica = turn.process.node, turn.replica
        if node is not None and node.broker is not None:
            _check_number(turn.process.name, node)
            self._check(turn.watched.log.name, turn.process.name, node.broker, (replica.topic_id, replica.partition))

    def at_end(self) -> None:
        for key, watched in self.cluster.watched.items():
            for name, process in self.cluster.processes.items():
                if process.node is not None and process.node.broker is not None:
                    self._check(watched.log.name, name, process.node.broker, key)
        for name, process in self.cluster.processes.items():
            if process.node is not None and process.node.broker is not None:
                _check_count(name, process.node.broker)

    def _check(self, log: str, name: str, broker: Broker, key: TopicPartitionId) -> None:
        hosted = broker.replicas.by_id(*key)
        if hosted is None:
            return
        for watchers in (hosted.followers, hosted.consumers):
            for watcher in watchers:
                if isinstance(watcher, Watch) and watcher not in watcher.context.news:
                    check_news(log, name, hosted, watcher)
        registration = self.cluster.images.newest.get(key)
        if hosted.replica.is_leader and registration is not None:
            for other in registration.replicas:
                if other != hosted.replica.broker:
                    self._compare(log, name, broker, self.cluster.names[other], key)

    def _compare(self, log: str, name: str, leader: Broker, follower: str, key: TopicPartitionId) -> None:
        """Compare both sides of a follower's session, for one topic-partition."""
        node = self.cluster.processes[follower].node
        hosted = leader.replicas.by_id(*key)
        if node is None or node.broker is None or hosted is None:
            return
        fetcher = node.broker.replicas.fetcher_of(hosted.replica.broker)
        if fetcher is None:
            return
        number, epoch = fetcher.session
        session = leader.fetching.sessions.find(number)
        if session is None or not epoch or session.epoch != epoch or not session.by_id:
            return
        asked, watch = fetcher.position_asked(*key), session.watches.get(key)
        here = None if watch is None else watch.wanted.fetch_offset
        there = None if asked is None else asked.offset
        if here != there:
            raise InvariantBroken(
                "DP-04",
                f"{log}: in epoch {epoch} of their fetch session {follower} asks {name} for {_place(there)}, and "
                f"{name} holds {_place(here)}",
            )


def _check_number(name: str, node: BaseNode) -> None:
    """Check how many sessions a broker keeps."""
    assert node.broker is not None
    kept, most = len(node.broker.fetching.sessions), node.config.max_incremental_fetch_session_cache_slots
    if kept > most:
        raise InvariantBroken("DP-04", f"{name} keeps {kept} fetch sessions, and may keep {most}")


def _check_count(name: str, broker: Broker) -> None:
    """Check how many topic-partitions a broker takes its sessions to name."""
    sessions = broker.fetching.sessions
    named = sum(len(one.watches) for one in sessions.all())
    if sessions.watched != named:
        raise InvariantBroken(
            "DP-04",
            f"{name} counts {sessions.watched} topic-partitions in its fetch sessions, and they name {named}",
        )


def check_news(log: str, name: str, hosted: HostedPartition, watch: Watch) -> None:
    """Check that a session has news of a topic-partition of which it lacks something, or whose log it is outside of."""
    replica, context, offset = hosted.replica, watch.context, watch.wanted.fetch_offset
    if hosted.removed or watch in context.news:
        return
    end = replica.end_offset if context.is_follower else replica.high_watermark
    if end > offset:
        whose = f"broker {context.replica_id}" if context.is_follower else "a consumer"
        raise InvariantBroken(
            "DP-04",
            f"{log}: the fetch session of {whose} at {name} reads from offset {offset}, and has no news of the records "
            f"up to {end}",
        )
    if offset > replica.end_offset:
        raise InvariantBroken(
            "DP-04",
            f"{log}: a fetch session at {name} reads from offset {offset}, beyond the log's end {replica.end_offset}, "
            "and has no news of it",
        )


def _place(offset: int | None) -> str:
    return "nothing of it" if offset is None else f"offset {offset}"
