"""A topic-partition that this broker hosts: its replica, and the requests parked at it.

The waiting lists live here, not in maps by name, so that a topic that is deleted and created again under its old name
cannot inherit anybody. `Progress` gathers, during one turn, whose log has grown and whose high watermark has moved;
the parked are looked at once, when the turn's requests are done, and so answered in batches.
"""

from __future__ import annotations

from squall.nodes.broker.config import NEVER
from squall.nodes.replication.replica import TopicPartitionReplica


class Parked:
    """A request that waits at one or more topic-partitions. `step` belongs to `Deadlines`.

    Whoever is answered leaves every list it stands in at once; a topic-partition where nothing happens would otherwise
    gather all who ever waited there.
    """

    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step = -1

    def look(self, now: int) -> None:
        """Answer if that is possible now, and leave if there is nothing left to wait for."""
        raise AssertionError("every kind of parked request has its own way of looking")

    def expire(self, now: int) -> None:
        """Its time is over: answer and leave."""
        raise AssertionError("every kind of parked request has its own way of ending")


class Hosted:
    """See the module. `produces` wait for the high watermark, `consumers` as well, `followers` for the log's end."""

    __slots__ = ("consumers", "followers", "following", "partition", "produces", "replica", "topic", "topic_id")

    def __init__(self, replica: TopicPartitionReplica) -> None:
        self.replica = replica
        self.topic = replica.topic
        self.topic_id = replica.topic_id
        self.partition = replica.partition
        self.following = -1
        """The leader whose fetcher follows it; -1 while none does."""
        self.produces: dict[Parked, None] = {}
        self.consumers: dict[Parked, None] = {}
        self.followers: dict[Parked, None] = {}

    @property
    def name(self) -> tuple[str, int]:
        return self.topic, self.partition


class Progress:
    """What this turn has changed, until the parked have been looked at."""

    def __init__(self) -> None:
        self._grown: dict[Hosted, None] = {}
        self._advanced: dict[Hosted, None] = {}
        self._changed: dict[Hosted, None] = {}

    def grew(self, hosted: Hosted) -> None:
        """Records were appended: followers may have them."""
        self._grown[hosted] = None

    def advanced(self, hosted: Hosted) -> None:
        """The high watermark moved: producers may be answered, consumers may read on."""
        self._advanced[hosted] = None

    def changed(self, hosted: Hosted) -> None:
        """Leadership, epoch or existence changed: everybody parked must look (rule 16)."""
        self._changed[hosted] = None

    @property
    def any(self) -> bool:
        return bool(self._grown or self._advanced or self._changed)

    def settle(self, now: int) -> None:
        """Let the parked look. Looking appends nothing and moves no high watermark, so once is enough."""
        grown, self._grown = self._grown, {}
        advanced, self._advanced = self._advanced, {}
        changed, self._changed = self._changed, {}
        for hosted in advanced:
            _look(now, hosted.produces)
            _look(now, hosted.consumers)
        for hosted in grown:
            _look(now, hosted.followers)
        for hosted in changed:
            _look(now, hosted.produces)
            _look(now, hosted.consumers)
            _look(now, hosted.followers)


def _look(now: int, waiting: dict[Parked, None]) -> None:
    for parked in list(waiting):
        parked.look(now)


class Deadlines:
    """Parked requests by the time at which they must be answered at the latest, in steps of `GRAIN`, rounded up.

    Most are answered long before; they are taken out then, or a busy broker would keep half a minute of answered
    requests.
    """

    GRAIN = 10_000

    def __init__(self) -> None:
        self._steps: dict[int, dict[Parked, None]] = {}
        self._nearest = NEVER

    def add(self, when: int, parked: Parked) -> None:
        parked.step = -(-when // self.GRAIN)
        self._steps.setdefault(parked.step, {})[parked] = None
        self._nearest = min(self._nearest, parked.step * self.GRAIN)

    def remove(self, parked: Parked) -> None:
        step = self._steps.get(parked.step)
        if step is not None:
            step.pop(parked, None)
            if not step:
                del self._steps[parked.step]

    def due(self, now: int) -> list[Parked]:
        """Take out and return all that are due, oldest first."""
        if self._nearest > now:
            return []
        steps = sorted(step for step in self._steps if step * self.GRAIN <= now)
        due = [parked for step in steps for parked in self._steps.pop(step)]
        self._nearest = min(self._steps, default=NEVER // self.GRAIN) * self.GRAIN
        return due

    def nearest(self) -> int:
        """When `due` is to be asked next; may be early, if what waited has been answered."""
        return self._nearest
