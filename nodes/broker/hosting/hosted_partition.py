"""A topic-partition that this broker hosts: its replica, and the requests parked at it.

The waiting lists are kept here, not in maps by name, so that a topic deleted and created again under its old name
cannot inherit waiting requests. `TurnChanges` collects, during one turn, whose log has grown and whose high watermark
has moved. The parked requests are checked once, after the turn's requests, and so answered in batches.

Produce requests wait in the lists directly. Fetches wait through a `Watcher` at each of their topic-partitions, which
belongs to the fetch session and stays from one fetch to the next: an event at a topic-partition costs work for its
watchers only, and an idle topic-partition costs nothing.
"""

from __future__ import annotations

from squall.nodes.broker.hosting.config import NEVER
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.replica import TopicPartitionReplica


class Parked:
    """A request that waits at one or more topic-partitions. `step` belongs to `Deadlines`.

    An answered request leaves all its lists at once; an idle topic-partition would otherwise collect every request that
    ever waited there.
    """

    __slots__ = ("request", "step")

    def __init__(self, request: ServerRequest) -> None:
        self.request = request
        self.step = -1

    def look(self, now: int) -> None:
        """Respond if possible now, and leave if nothing remains to wait for."""
        raise AssertionError("every kind of parked request has its own way of looking")

    def waits_in_vain(self) -> bool:
        """Whether it has no reason to wait any more; never so between two turns."""
        raise AssertionError("every kind of parked request has its own reasons")

    def expire(self, now: int) -> None:
        """The request's time is over: respond and leave."""
        raise AssertionError("every kind of parked request has its own way of ending")


class Watcher:
    """An object that must be notified of what happens at one topic-partition."""

    __slots__ = ()

    def touched(self) -> Parked | None:
        """Take notice of a change here. Returns the parked request that the change may complete, if any."""
        raise AssertionError("every kind of watcher has its own way of taking notice")


class HostedPartition:
    """One hosted topic-partition with its waiting lists.

    `produces` and `consumers` wait for the high watermark, `followers` for the log end offset, `deletions` for the low
    watermark.
    """

    __slots__ = (
        "consumers",
        "deletions",
        "followers",
        "following",
        "partition",
        "produces",
        "removed",
        "replica",
        "topic",
        "topic_id",
    )

    def __init__(self, replica: TopicPartitionReplica) -> None:
        self.replica = replica
        self.topic = replica.topic
        self.topic_id = replica.topic_id
        self.partition = replica.partition
        self.following = -1
        """The leader that this replica follows through a fetcher; -1 while it follows none."""
        self.produces: dict[Parked, None] = {}
        self.consumers: dict[Watcher, None] = {}
        self.followers: dict[Watcher, None] = {}
        self.removed = False
        """Whether this broker no longer hosts it and its log is deleted."""
        self.deletions: dict[Parked, None] = {}

    @property
    def name(self) -> tuple[str, int]:
        return self.topic, self.partition


class TurnChanges:
    """What this turn has changed, until the parked requests have been checked."""

    def __init__(self) -> None:
        self._grown: dict[HostedPartition, None] = {}
        self._advanced: dict[HostedPartition, None] = {}
        self._changed: dict[HostedPartition, None] = {}
        self._noted: dict[HostedPartition, None] = {}
        self._low_moved: dict[HostedPartition, None] = {}
        self.any = False
        """Whether there is anything to settle."""

    def grew(self, hosted: HostedPartition) -> None:
        """Records were appended: followers may fetch them."""
        self._grown[hosted] = None
        self.any = True

    def advanced(self, hosted: HostedPartition) -> None:
        """The high watermark moved: produce requests may be complete, consumers may read further."""
        self._advanced[hosted] = None
        self.any = True

    def changed(self, hosted: HostedPartition) -> None:
        """Leadership, epoch or existence changed: all parked requests must be checked (rule 16)."""
        self._changed[hosted] = None
        self.any = True

    def low_watermark_moved(self, hosted: HostedPartition) -> None:
        """A follower reported its log start offset: DeleteRecords requests may be complete."""
        self._low_moved[hosted] = None
        self.any = True

    def noted(self, hosted: HostedPartition) -> None:
        """ISR or log start offset changed: wake no request; the next fetch reports it or checks the replica again."""
        self._noted[hosted] = None
        self.any = True

    def settle(self, now: int) -> None:
        """Check each woken request once. A check appends nothing and moves no high watermark, so once is enough."""
        woken: dict[Parked, None] = {}
        self.any = False
        grown, self._grown = self._grown, {}
        advanced, self._advanced = self._advanced, {}
        changed, self._changed = self._changed, {}
        noted, self._noted = self._noted, {}
        low_moved, self._low_moved = self._low_moved, {}
        for hosted in advanced:
            woken.update(hosted.produces)
            _touch(hosted.consumers, woken)
            _touch(hosted.followers, None)
        for hosted in grown:
            _touch(hosted.followers, woken)
        for hosted in changed:
            woken.update(hosted.produces)
            woken.update(hosted.deletions)
            _touch(hosted.consumers, woken)
            _touch(hosted.followers, woken)
        for hosted in low_moved:
            woken.update(hosted.deletions)
        for hosted in noted:
            _touch(hosted.consumers, None)
            _touch(hosted.followers, None)
        for parked in woken:
            parked.look(now)


def _touch(watchers: dict[Watcher, None], woken: dict[Parked, None] | None) -> None:
    for watcher in watchers:
        parked = watcher.touched()
        if parked is not None and woken is not None:
            woken[parked] = None


class Deadlines:
    """Parked requests by the latest time for their response, in steps of `GRAIN` microseconds, rounded up.

    Most are answered long before; they are removed then, or a busy broker would keep half a minute of answered
    requests.
    """

    GRAIN = 10_000

    def __init__(self) -> None:
        self._steps: dict[int, dict[Parked, None]] = {}
        self.nearest = NEVER
        """The next time to call `due`; may be early if the waiting requests have been answered."""

    def add(self, when: int, parked: Parked) -> None:
        parked.step = -(-when // self.GRAIN)
        self._steps.setdefault(parked.step, {})[parked] = None
        self.nearest = min(self.nearest, parked.step * self.GRAIN)

    def remove(self, parked: Parked) -> None:
        step = self._steps.get(parked.step)
        if step is not None:
            step.pop(parked, None)
            if not step:
                del self._steps[parked.step]

    @property
    def any(self) -> bool:
        return bool(self._steps)

    def all(self) -> list[Parked]:
        """Return every parked request, in order of its deadline's step."""
        return [parked for step in sorted(self._steps) for parked in self._steps[step]]

    def due(self, now: int) -> list[Parked]:
        """Remove and return all that are due, oldest first."""
        if self.nearest > now:
            return []
        steps = sorted(step for step in self._steps if step * self.GRAIN <= now)
        due = [parked for step in steps for parked in self._steps.pop(step)]
        self.nearest = min(self._steps, default=NEVER // self.GRAIN) * self.GRAIN
        return due
