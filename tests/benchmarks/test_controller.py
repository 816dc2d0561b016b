"""The controller benchmark in a very short form: its stubs are brokers to the controllers, and each figure is one."""

from __future__ import annotations

from squall.benchmarks.controller import run


def test_two_thousand_topic_partitions_are_created_moved_and_survive_a_controller() -> None:
    figures = {one.name.strip(): one for one in run(partitions=2_000, runs=1)}
    assert len(figures) == 6
    assert all(one.measured > 0 for one in figures.values())
    assert figures["create 2 000 topic-partitions"].unit == "s"
