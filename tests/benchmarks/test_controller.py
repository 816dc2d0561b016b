"""The controller benchmark in a very short form: its stubs are brokers to the controllers, and each figure is one."""

from __future__ import annotations

import asyncio

from squall.benchmarks.controller import AS_SHIPPED, NO_SNAPSHOTS, Failovers, Figures, Scene, measurements
from squall.benchmarks.parts.controller_processes import LoopProbe, Stages
from squall.harness.loopback.loopback import Cluster

PARTITIONS = 2_000


def test_topic_partitions_are_created_moved_and_survive_a_controller() -> None:
    figures = Figures(PARTITIONS)

    async def course(cluster: Cluster) -> None:
        scene = Scene(cluster)
        try:
            await scene.start()
            await scene.create(PARTITIONS)
            image = scene.applier
            assert sum(len(topic.partitions) for topic in image.topics.values()) == PARTITIONS
            last = scene.stubs[-1]
            await scene.leave(last, figures)
            await scene.is_applied()
            assert image.brokers[last.broker].fenced, "it was let go without being fenced"
            assert not any(one.leader == last.broker for _, _, one in image.all_partitions())
            with LoopProbe(scene.controllers.addresses) as probe:
                figures.loads.append(await scene.fail_over(figures.by_default))
            assert probe.asked, "nobody was asked"
        finally:
            await scene.close()

    with Cluster(brokers=0, controllers=3, properties={**AS_SHIPPED, **NO_SNAPSHOTS}, trace=True) as cluster:
        asyncio.run(course(cluster))
    assert 0 < figures.committed[0] <= figures.applied[0] <= figures.let_go[0]
    (stages,) = figures.by_default.stages
    assert 0 < stages.detect <= stages.elect <= stages.load
    assert figures.by_default.committed[0] <= figures.by_default.applied[0]


def test_each_figure_is_a_median_with_samples_beside_its_bar() -> None:
    found = Failovers([Stages(1.5, 1.6, 1.7)] * 3, [1.9, 1.8, 3.0], [2.0, 2.0, 2.0])
    large = Figures(
        2_000_000,
        resident=[400_000_000, 500_000_000],
        resident_later=[1],
        committed=[1.0, 1.4, 9.0],
        applied=[2.0],
        let_go=[3.0],
        snapshots=[5.0],
        loads=[7.0],
        replay_log=[9.0],
        pause=0.2,
        by_default=found,
        by_short=found,
    )
    small = Figures(10_000, by_default=Failovers([], [1.6], []), by_short=found)
    table = {one.name: one for one in measurements(large, small)}
    shutdown = table["controlled shutdown of a broker, committed"]
    assert (shutdown.measured, shutdown.must, shutdown.samples) == (1.4, 1.5, (1.0, 1.4, 9.0))
    assert table["resident memory of the largest controller"].measured == 500
    missed = [one.name for one in table.values() if not one.passed]
    assert missed == [
        "    longest wait for an answer meanwhile",
        "failover at 2 000 000, short timeouts: SIGKILL to the next commit",
    ]
