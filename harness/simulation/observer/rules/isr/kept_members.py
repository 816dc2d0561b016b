"""IS-03: a leader proposes no member to leave the ISR that has just had everything.

A member that leaves although it keeps up makes the ISR smaller than it could be: the next fault then stops writes, or
loses records where settings allow that. It comes back soon, so nobody notices. A follower was caught up at a time if it
had all that the leader had then. Its fetches prove it: one that names the leader's log end, or one whose offset is at
or above what the leader's log end was at its fetch before. Asserted when a leader proposes an ISR without a member: the
member was caught up for the last time more than `replica.lag.time.max.ms` ago. And when a leader's replica is examined:
it knows of each follower that lacks something now that it was caught up then, or later; and it takes none for caught up
at a time at which the follower lacked something. Such a member would stay, and hold the high watermark.

Only fetches count that the leader has answered without an error or a request to truncate, and as the fetch before only
one of the same fetch session with the epoch before: the leader may have got others whose answers were never sent. The
leader's log end at a fetch is the one when it was answered, which is at least as much: a request may wait before it is
handled (seed 996437), and be handled after an append of the same turn (seed 997145). A fetch that is handled after the
proposal, in the same turn, could not be known (seed 999125: the leader's process had been paused).

Source: IS-03, rule 10. Legal: a member that was caught up longer ago, or in an earlier leader epoch only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule, is_of_follower
from squall.harness.simulation.observer.state.fetch_positions import positions_asked
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.fetch import FetchRequest, FetchResponse
from squall.nodes.protocol.requests.session import ServerRequest

SLACK = MICROSECONDS // 100
"""A turn takes a while."""
KEPT_ENDS = 1_000
"""How many log ends are kept of one leader; a fetch before the first of them proves nothing."""

Led = tuple[int, bytes, int]
"""Node id, topic id, partition."""


@dataclass(slots=True)
class _Leadership:
    """What is known of a topic-partition in one leader epoch. Times are in microseconds."""

    incarnation: int
    """Of the leader's process."""
    epoch: int
    isr: tuple[int, ...]
    times: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """The leader's log ends, each since the time at the same place of `times`."""
    caught_up: dict[int, int] = field(default_factory=dict)
    """By broker id, when the follower was caught up for the last time."""
    reached: dict[int, int] = field(default_factory=dict)
    """By broker id, the highest offset at which the leader has known the follower's log to end."""

    def note_end(self, now: int, end: int) -> None:
        if self.ends and self.ends[-1] == end:
            return
        if self.times and self.times[-1] == now:
            self.ends[-1] = end
            return
        self.times.append(now)
        self.ends.append(end)
        if len(self.ends) > KEPT_ENDS:
            del self.times[: KEPT_ENDS // 2], self.ends[: KEPT_ENDS // 2]

    def lacked(self, offset: int, time: int) -> bool:
        """Return whether a log that ends at `offset` lacked something that the leader had after a turn at `time`."""
        return bool(self.times) and self.times[0] <= time and not self.had_all(offset, time)

    def had_all(self, offset: int, time: int) -> bool:
        """Return whether a log that ends at `offset` had all that the leader had after a turn at `time`."""
        place = bisect_right(self.times, time) - 1
        return place >= 0 and offset >= self.ends[place]


class _Fetched(NamedTuple):
    epoch: int
    arrived_at: int
    answered_at: int
    accepted: set[tuple[bytes, int]]
    """Topic ids and partitions of which the leader took note."""


class _Proposal(NamedTuple):
    isr: tuple[int, ...]
    caught_up: dict[int, int]
    """When each follower was known to be caught up, as of the proposal."""


class KeptMembers(Rule):
    """See the module."""

    events = ("isr_proposed",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._led: dict[Led, _Leadership] = {}
        self._fetched: dict[tuple[str, int, int], _Fetched] = {}
        """By host, incarnation and session, its last fetch."""
        self._proposed: dict[Led, _Proposal] = {}
        """What was proposed in a turn that is not examined yet."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        key = int(fields["broker"]), bytes(fields["topic_id"]), int(fields["partition"])
        led = self._led.get(key)
        self._proposed[key] = _Proposal(tuple(fields["isr"]), {} if led is None else dict(led.caught_up))

    def died(self, process: SimProcess) -> None:
        self._proposed.clear()

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        replica, process = turn.replica, turn.process
        key = replica.broker, replica.topic_id, replica.partition
        proposed = self._proposed.pop(key, None)
        if not replica.is_leader:
            return
        led = self._led.get(key)
        if led is None or (led.incarnation, led.epoch) != (process.incarnation, replica.leader_epoch):
            led = self._led[key] = _Leadership(process.incarnation, replica.leader_epoch, replica.isr)
        elif proposed is not None and led.isr == replica.isr:
            self._check(turn, led, proposed)
        led.isr = replica.isr
        self._check_known(turn, led)
        led.note_end(process.now, replica.end_offset)

    def _check(self, turn: ReplicaTurn, led: _Leadership, proposed: _Proposal) -> None:
        node, now = turn.process.node, turn.process.now
        assert node is not None
        allowed = node.config.replica_lag_time_max_ms * 1_000
        leaving = set(led.isr) - set(proposed.isr)
        for member in sorted(leaving & proposed.caught_up.keys()):
            since = now - proposed.caught_up[member]
            if since <= allowed - SLACK:
                raise InvariantBroken(
                    "IS-03",
                    f"{turn.watched.log.name}: leader {turn.process.name} of epoch {led.epoch} proposes that "
                    f"{self.cluster.names[member]} leaves the ISR {list(led.isr)}; it had all that the leader had "
                    f"{since / MICROSECONDS:.3f} s ago",
                )

    def _check_known(self, turn: ReplicaTurn, led: _Leadership) -> None:
        """Check when each follower was caught up, as the leader knows it. One that has everything now is so anyway."""
        ends, known = turn.replica.follower_ends(), turn.replica.followers_caught_up()
        for follower, end in ends.items():
            led.reached[follower] = max(end, led.reached.get(follower, end))
            if led.lacked(led.reached[follower], known[follower] - SLACK):
                raise InvariantBroken(
                    "IS-03",
                    f"{turn.watched.log.name}: leader {turn.process.name} of epoch {led.epoch} believes that "
                    f"{self.cluster.names[follower]} had everything "
                    f"{(turn.process.now - known[follower]) / MICROSECONDS:.3f} s ago; it had no more than "
                    f"{led.reached[follower]} then",
                )
        for follower, at in led.caught_up.items():
            if ends.get(follower, turn.replica.end_offset) == turn.replica.end_offset or known[follower] >= at - SLACK:
                continue
            raise InvariantBroken(
                "IS-03",
                f"{turn.watched.log.name}: leader {turn.process.name} of epoch {led.epoch} does not know that "
                f"{self.cluster.names[follower]} had everything {(turn.process.now - at) / MICROSECONDS:.3f} s ago; it "
                f"lacks {turn.replica.end_offset - ends[follower]} records now",
            )

    def answered(self, process: SimProcess, node: BaseNode, request: ServerRequest) -> None:
        if request.api_key != ApiKey.FETCH or request.answer is None or node.broker is None:
            return
        asked, told = request.body, request.answer.response
        if not isinstance(asked, FetchRequest) or not isinstance(told, FetchResponse) or told.error_code:
            return
        if not told.session_id or not is_of_follower(asked):
            return
        session, arrived = (process.name, process.incarnation, told.session_id), request.received_at
        before = self._fetched.get(session)
        fetches = [_Fetched(asked.session_epoch, arrived, process.now, set())]
        self._fetched[session] = fetches[0]
        if before is not None and before.epoch + 1 == asked.session_epoch:
            fetches.append(before)
        self._note_fetch(process, node, asked, told, fetches)

    def _note_fetch(
        self, process: SimProcess, node: BaseNode, asked: FetchRequest, told: FetchResponse, fetches: list[_Fetched]
    ) -> None:
        """Note of each topic-partition whether the follower was caught up at this fetch, or at the one before."""
        assert node.broker is not None
        replicas, follower = node.broker.replicas, max(asked.replica_id, asked.replica_state.replica_id)
        refused = {
            (bytes(topic.topic_id), one.partition_index)
            for topic in told.responses
            for one in topic.partitions
            if one.error_code or one.diverging_epoch.epoch >= 0
        }
        for (_, topic_id, partition), position in positions_asked(node, asked, told).items():
            hosted = replicas.by_id(topic_id, partition)
            led = None if hosted is None else self._led.get((hosted.replica.broker, topic_id, partition))
            if led is None or hosted is None or (topic_id, partition) in refused:
                continue
            if led.incarnation != process.incarnation:
                continue
            if (
                not hosted.replica.is_leader
                or not led.epoch == hosted.replica.leader_epoch == position.current_leader_epoch
            ):
                continue
            fetches[0].accepted.add((topic_id, partition))
            led.note_end(process.now, hosted.replica.end_offset)
            for fetch in fetches:
                accepted = (topic_id, partition) in fetch.accepted
                if accepted and led.had_all(position.fetch_offset, fetch.answered_at):
                    led.caught_up[follower] = max(fetch.arrived_at, led.caught_up.get(follower, fetch.arrived_at))
                    break
