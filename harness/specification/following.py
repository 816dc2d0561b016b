"""Follow a simulated run with the specifications: every traced event is an action that they allow (DA-08)."""

from __future__ import annotations

from collections import Counter

from squall.harness.simulation.run.witness import Witness
from squall.harness.simulation.world.world import SimWorld
from squall.harness.specification.kraft import KRaft
from squall.harness.specification.replication import Replication
from squall.nodes.ports import Trace


class Follower(Witness):
    """A witness of a run. An action that a specification does not allow ends the run with SpecificationBroken."""

    def __init__(self) -> None:
        self.quorum: KRaft | None = None
        self.partitions: dict[tuple[str, int, bytes], Replication] = {}
        """By topic, partition and topic id: a topic that is created again under its name is another one."""
        self._topic_ids: dict[tuple[object, str, int], bytes] = {}
        """By broker, topic and partition, the topic id that its replica had last; few events name it."""

    def beside(self, trace: Trace) -> Trace:
        return Recorded(trace, self)

    def watch(self, world: SimWorld) -> None:
        self.quorum = KRaft(place.node_id for place in world.places if place.is_controller)

    def event(self, name: str, fields: dict[str, object]) -> str | None:
        """Take one event; return the action that it is, None if the specifications have none for it."""
        topic = fields.get("topic")
        if topic is None:
            return None if self.quorum is None else self.quorum.step(name, fields)
        if "broker" not in fields or "partition" not in fields:
            return None
        partition = (str(topic), int(str(fields["partition"])))
        place = (fields["broker"], *partition)
        if isinstance(topic_id := fields.get("topic_id"), bytes):
            self._topic_ids[place] = topic_id
        key = (*partition, self._topic_ids.get(place, b""))
        return self.partitions.setdefault(key, Replication()).step(name, fields)

    def taken(self) -> Counter[str]:
        """How often each action was taken, of both specifications."""
        counted: Counter[str] = Counter() if self.quorum is None else Counter(self.quorum.taken)
        for one in self.partitions.values():
            counted.update(one.taken)
        return counted


class Recorded:
    """The trace that nodes write to: the run's own, and the specifications."""

    def __init__(self, trace: Trace, follower: Follower) -> None:
        self._trace = trace
        self._follower = follower

    def event(self, name: str, **fields: object) -> None:
        self._trace.event(name, **fields)
        self._follower.event(name, fields)
