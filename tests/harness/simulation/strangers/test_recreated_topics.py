"""MD-05, as a client sees it: a client that deletes its topic and creates it again, in some of the drawn worlds."""

from __future__ import annotations

import pytest

from squall.harness.conformance.client import NotConforming
from squall.harness.simulation.strangers.recreated_topics import FIRST_VALUE, NAMES, RecreatedTopics
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.protocol.topic_partition import TopicPartition
from tests.harness.simulation.strangers.visited import Visited


class Recreated(Visited[RecreatedTopics]):
    """Three brokers; the client checks its topic in the end."""

    def __init__(self) -> None:
        super().__init__(RecreatedTopics, brokers=3)

    def load(self, seconds: int) -> None:
        super().load(seconds)
        self.world.kernel.run_until_complete(self.client.check())
        self.world.switch_off()


def test_a_topic_created_again_has_only_its_own_records() -> None:
    again = Recreated()
    again.load(30)
    assert again.client.created > 3 and again.client.read > 5
    assert again.sent == [FIRST_VALUE + number for number in range(len(again.sent))]


def test_records_of_the_deleted_topic_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logs are not removed, and belong to the next topic of the name."""

    def keeps(self: LogManager, names: list[TopicPartition]) -> None:
        for name in names:
            self._logs[name].close()

    monkeypatch.setattr(LogManager, "delete", keeps)
    with pytest.raises(NotConforming, match=r"created again with the id .* acknowledged before it was created"):
        Recreated().load(30)


def test_a_request_of_unknown_outcome_is_not_repeated_under_the_same_name() -> None:
    """Without controllers nothing is created. Each attempt takes another name, until all names are used."""
    again = Recreated()
    for name in ("c1", "c2", "c3"):
        again.world.processes[name].crash()
    again.load(60)
    assert (again.client.created, again.client.names) == (0, NAMES)
