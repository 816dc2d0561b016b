"""DP-17 as the observer asserts it: a follower refuses nothing that its leader sends."""

from __future__ import annotations

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from tests.harness.simulation.observer.observed import TOPIC, Cluster

WHY = "CORRUPT_MESSAGE: the batch at offset 1 is damaged"


def test_records_that_a_follower_refuses_break_dp_17() -> None:
    cluster = Cluster()
    with pytest.raises(InvariantBroken, match=rf"^DP-17: events-0: b2 ends at 1 in leader epoch 3 .* sends: {WHY}"):
        cluster.show("b2", "records_refused", epoch=3, end=1, why=WHY)


def test_records_that_a_follower_appends_are_sound() -> None:
    cluster = Cluster()
    cluster.append(0, 10, "b1", "b2")


def test_a_refusal_in_the_turn_in_which_the_node_dies_says_nothing() -> None:
    cluster = Cluster()
    process = cluster.processes["b2"]
    cluster.observer.event("records_refused", broker=2, topic=TOPIC, partition=0, epoch=3, end=1, why=WHY)
    process.up = False
    cluster.observer.look(process)  # type: ignore[arg-type]
    cluster.show("b1")
