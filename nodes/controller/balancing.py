"""Return leaderships to preferred replicas periodically (RA-07; `auto.leader.rebalance.enable`).

After a broker's restart it leads nothing: other replicas were elected meanwhile, and stay leaders. Every
`leader.imbalance.check.interval.seconds` the active controller counts for each broker the topic-partitions whose
preferred replica it is, and those of them that another broker leads. If the latter are more than
`leader.imbalance.per.broker.percentage` percent of the former, the preferred replica is elected, if it is in sync and
active; a requested election does the same (`leader_elections`). As in Kafka before KRaft, a small imbalance is
tolerated: each election interrupts clients briefly.

A cluster may have millions of topic-partitions, so a round covers a part of them in each turn, and writes its elections
a thousand in a batch. Each part sees the state at its turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.leader_elections import LeaderElectionControl
from squall.nodes.controller.liveness import NEVER
from squall.nodes.metadata.image import MetadataImage, Topic
from squall.nodes.protocol.schema import Message

LOOKED_AT_IN_A_TURN = 10_000
ELECTED_IN_A_TURN = 1_000
Place = tuple[Topic, int]


class LeaderBalancer:
    """Works on the image it receives and changes nothing itself; `advance` returns the records to write."""

    def __init__(self, config: ControllerConfig, elections: LeaderElectionControl) -> None:
        self._interval = config.imbalance_check_interval if config.balances_leaders else 0
        self._percentage = config.imbalance_percentage
        self._elections = elections
        self._due = NEVER
        self._round: Iterator[list[Message]] | None = None

    def restart(self, now: int) -> None:
        """Start the rounds of a newly active controller."""
        self._round = None
        self._due = now + self._interval if self._interval else NEVER

    def deadline(self) -> int:
        return 0 if self._round is not None else self._due

    def advance(self, now: int, image: MetadataImage) -> list[Message]:
        """The next part of a round, if one is due or under way."""
        if self._round is None:
            if now < self._due:
                return []
            self._round = self._rounds(image)
        records = next(self._round, None)
        if records is None:
            self.restart(now)
            return []
        return records

    def _rounds(self, image: MetadataImage) -> Iterator[list[Message]]:
        preferred: dict[int, int] = {}
        elsewhere: dict[int, int] = {}
        for place in _walk(image):
            if place is None:
                yield []
                continue
            registration = place[0].partitions[place[1]]
            first = registration.replicas[0]
            preferred[first] = preferred.get(first, 0) + 1
            if registration.leader != first:
                elsewhere[first] = elsewhere.get(first, 0) + 1
        out_of_balance = {
            one: count for one, count in elsewhere.items() if count * 100 > self._percentage * preferred[one]
        }
        if out_of_balance:
            yield from self._elected(image, out_of_balance)

    def _elected(self, image: MetadataImage, brokers: dict[int, int]) -> Iterator[list[Message]]:
        records: list[Message] = []
        for place in _walk(image):
            if place is None or len(records) >= ELECTED_IN_A_TURN:
                yield records
                records = []
            if place is not None:
                topic, number = place
                registration = topic.partitions[number]
                first = registration.replicas[0]
                if registration.leader != first and first in brokers:
                    record = self._elections.preferred_if_possible(image, topic, number)
                    if record is not None:
                        records.append(record)
        yield records


def _walk(image: MetadataImage) -> Iterator[Place | None]:
    """Each topic-partition that still exists at its turn; None where another turn may come in between."""
    looked_at = 0
    for identity in list(image.topics):
        found = image.topics.get(identity)
        for number in () if found is None else list(found.partitions):
            looked_at += 1
            if looked_at % LOOKED_AT_IN_A_TURN == 0:
                yield None
            topic = image.topics.get(identity)
            if topic is not None and number in topic.partitions:
                yield topic, number
