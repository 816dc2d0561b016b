"""The faults of suites in simulation: each takes hold, is proven, ends, and is missed if it did not happen (HX-04).

The cluster has no clients here: heartbeats, fetches and the metadata log are traffic enough.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.harness.scenario.cluster import await_whole, create_topics
from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis.controls import silenced
from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import build_schedule
from squall.workloads.clients.common.client import Topic
from squall.workloads.clients.native.admin import NativeAdmin

ENTRIES: TypeAdapter[list[NemesisEntry]] = TypeAdapter(list[NemesisEntry])
FAST = {
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
FAULTS: list[dict[str, Any]] = [
    {"fault": "power-loss", "target": "b2", "mode": "all"},
    {"fault": "power-loss", "target": "active controller", "mode": "torn"},
    {"fault": "wipe-disk", "target": "one follower of events/0"},
    {"fault": "disk-error", "target": "b1"},
    {"fault": "disk-error", "target": "active controller", "errno": "ENOSPC", "calls": ["write"]},
    {"fault": "disk-slow", "target": "b1", "latency": "20ms"},
    {"fault": "disk-error", "target": "b1", "errno": "EDQUOT", "calls": ["write", "fsync"], "path": "*.log"},
    {"fault": "disk-stall", "target": "active controller"},
    {"fault": "disk-full", "target": "b1"},
    {"fault": "read-only-disk", "target": "b2"},
    {"fault": "lying-fsync", "target": "active controller"},
    {"fault": "slow-link", "target": "b1", "latency": "50ms", "jitter": "10ms"},
    {"fault": "slow-link", "target": "b1", "to": "b2, b3", "latency": 0, "loss": 0.5},
    {"fault": "bandwidth", "target": "leader of events/0", "rate": "20KiB/s"},
    {"fault": "rpc-hold", "api": "BrokerHeartbeat", "from": "b1", "to": "all controllers"},
    {"fault": "rpc-hold", "api": "Fetch", "direction": "response", "to": "leader of events/0"},
    {"fault": "rpc-cut", "api": "Fetch", "from": "followers of events/0", "to": "leader of events/0"},
    {"fault": "rpc-cut", "api": "BrokerHeartbeat", "direction": "response", "messages": 0, "from": "b1"},
    {"fault": "isolate", "target": "leader of events/0", "from": "all controllers"},
    {"fault": "one-way", "target": "b1", "to": "b2"},
    {"fault": "clock", "target": "b1", "offset": 0, "rate": 1.5},
    {"fault": "clock", "target": "b1", "time": "1999-12-31T23:59:58Z"},
    {"fault": "clock-strobe", "target": "all brokers", "offset": "-1h", "every": "50ms"},
    {"fault": "clock-freeze", "target": "active controller", "time": "2038-01-19T03:14:07Z"},
    {"fault": "clock-freeze", "target": "b1"},
    {"fault": "bounce", "target": "one controller", "every": "1500ms"},
    {"fault": "host-down", "target": "leader of events/0"},
]


class Cluster:
    """Three controllers and three brokers with one topic-partition on all of them."""

    def __init__(self, seed: int = 1) -> None:
        self.world = SimWorld(ClusterShape(config=FAST), seed, topics={"events": 1})
        self.world.start()
        self.world.kernel.run_until_complete(self._create_topic())

    async def _create_topic(self) -> None:
        controllers = [(place.address, place.port) for place in self.world.places if place.is_controller]
        admin = NativeAdmin(self.world.connector(), self.world.bootstrap(), controllers)
        await create_topics(admin, (Topic("events", 1, 3, (("min.insync.replicas", "2"),)),), 30)
        await await_whole(admin, 3, {"events": 1}, 30)
        await admin.close()

    def suffer(self, *entries: dict[str, Any], idle: bool = False, load_s: float = 30.0) -> list[FaultRecord]:
        """What is on record of these faults, in order of their names."""
        world = self.world
        runner = NemesisRunner(
            build_schedule(ENTRIES.validate_python(list(entries)), load_s, 1),
            silenced(world.hosts) if idle else world.hosts,
            world.cluster,
            now_ns=world.now_ns,
            sleep=world.sleep,
            report=lambda event: None,
            ports=world.ports(),
        )
        records = world.kernel.run_until_complete(runner.run())
        world.switch_off()
        return sorted(records, key=lambda record: record.id)


def named(entry: dict[str, Any]) -> str:
    return " ".join(str(value) for value in entry.values())


@pytest.mark.parametrize("entry", FAULTS, ids=named)
def test_every_fault_is_proven_and_seen_to_end(entry: dict[str, Any]) -> None:
    (record,) = Cluster().suffer({**entry, "at": 1, "for": 3})
    assert record.proven and record.healed, record.detail


@pytest.mark.parametrize("entry", FAULTS, ids=named)
def test_a_fault_that_is_only_claimed_is_not_proven(entry: dict[str, Any]) -> None:
    (record,) = Cluster().suffer({**entry, "at": 1, "for": 3}, idle=True)
    assert not record.proven, record.detail


def test_a_rolling_restart_goes_round_all_brokers() -> None:
    """Its verbs are those of any clean stop, which an idle nemesis carries out, so it is not among the claims above."""
    (record,) = Cluster().suffer({"fault": "rolling-restart", "at": 1, "for": 10})
    assert record.proven and record.healed, record.detail
    assert sorted(record.evidence_during["rolled"]) == ["b1", "b2", "b3"]


def test_a_message_that_never_comes_proves_no_hold() -> None:
    (record,) = Cluster().suffer({"fault": "rpc-hold", "api": "DeleteTopics", "at": 1, "for": 3})
    assert not record.proven and "no DeleteTopics request passed" in record.detail


def test_a_hold_may_be_proven_late_in_its_window() -> None:
    """P13(b), P15: the hold stands before the follower falls out of the ISR and comes back."""
    records = Cluster().suffer(
        {"fault": "rpc-hold", "api": "AlterPartition", "to": "all controllers", "at": 1, "for": 10},
        {"fault": "pause", "target": "one follower of events/0", "at": 4, "for": 4},
    )
    assert all(record.proven and record.healed for record in records), records


def test_a_later_fault_may_aim_at_whom_an_earlier_one_hit() -> None:
    """P15: the follower that was out of sync is the one whose disk is wiped, and all others are killed."""
    pause, wipe, kill = Cluster().suffer(
        {"fault": "pause", "target": "one follower of events/0", "as": "outsider", "at": 1, "for": 3},
        {"fault": "wipe-disk", "target": "same as outsider", "at": 6, "for": 1},
        {"fault": "kill", "target": "all brokers but same as outsider", "at": 9, "for": 1},
    )
    assert pause.targets == wipe.targets and len(wipe.targets) == 1
    assert sorted((*wipe.targets, *kill.targets)) == ["b1", "b2", "b3"]
    assert wipe.proven and kill.proven and wipe.evidence_during[wipe.targets[0]]["files"] == 0


def test_a_replica_out_of_sync_can_be_aimed_at() -> None:
    """P17: who has fallen out of the ISR is known only when it has happened."""
    pause, kill = Cluster().suffer(
        {"fault": "pause", "target": "one follower of events/0", "at": 1, "for": 9},
        {"fault": "kill", "target": "replicas of events/0 out of sync", "at": 8, "for": 1},
    )
    assert pause.targets == kill.targets


def test_a_power_loss_takes_what_a_disk_has_lied_about() -> None:
    """Of one controller only: more of them would lose what a majority had."""

    def lost(*entries: dict[str, Any]) -> int:
        *_, loss = Cluster().suffer(*entries, {"fault": "power-loss", "target": "c1", "at": 6, "for": 1})
        assert loss.proven and loss.healed, loss.detail
        return int(loss.evidence_during["c1"]["lost_bytes"])

    assert lost({"fault": "lying-fsync", "target": "c1", "at": 1, "for": 8}) > lost() + 100


def test_a_power_loss_says_what_it_took_and_keeps_what_was_synced() -> None:
    """FD-03: brokers sync neither topic data nor their copy of the metadata log; controllers sync theirs (QC-20)."""
    broker, controller = Cluster().suffer(
        {"fault": "power-loss", "target": "b1", "at": 3, "for": 1},
        {"fault": "power-loss", "target": "active controller", "at": 6, "for": 1},
    )
    assert broker.evidence_during["b1"]["lost_bytes"] > 0 and broker.evidence_during["b1"]["files"] > 0
    assert controller.evidence_during[controller.targets[0]]["lost_bytes"] == 0


def test_a_failed_disk_stops_a_node_naming_the_file_and_the_disk_returns() -> None:
    cluster = Cluster()
    (record,) = cluster.suffer({"fault": "disk-error", "target": "b1", "calls": ["write"], "at": 1, "for": 3})
    process = cluster.world.processes["b1"]
    assert process.disk_failures >= 1 and "Input/output error" in process.last_failure
    assert record.healed, record.detail


def test_a_time_to_live_ends_every_fault_without_its_nemesis() -> None:
    world = Cluster().world
    calls: list[tuple[str, dict[str, Any]]] = [
        ("proc.power_loss", {"name": "node"}),
        ("disk.error", {"name": "node", "calls": ["write"]}),
        ("disk.slow", {"name": "node", "latency_s": 0.01, "calls": ["write"]}),
        ("net.shape", {"peers": ["*"], "delay_s": 0.1}),
        ("rpc.hold", {"api": "Fetch", "api_key": 1, "sources": ["*"]}),
        ("rpc.cut", {"api": "Fetch", "api_key": 1, "sources": ["*"], "messages": 1}),
    ]

    async def main() -> None:
        host = world.hosts["b1"]
        for number, (verb, arguments) in enumerate(calls):
            await host.call(verb, id=f"f{number}", ttl=1.0, **arguments)
        assert len((await host.call("journal"))["entries"]) == len(calls)  # type: ignore[arg-type]
        await world.sleep(1.1)
        assert (await host.call("journal"))["entries"] == []
        assert (await host.call("proc.status"))["state"] == "running"

    world.kernel.run_until_complete(main())
    world.switch_off()


def test_a_start_on_a_slow_disk_goes_on_at_full_speed_when_the_disk_does() -> None:
    """Data-plane seed 824: a start of a thousand calls was paid for at the price of a fault that had long ended."""
    world = Cluster().world

    async def main() -> bool:
        host = world.hosts["b1"]
        await host.call("proc.kill", id="kill", name="node", ttl=1.0)
        await host.call("disk.slow", id="slow", name="node", latency_s=20.0, calls=["read", "write"], ttl=6.0)
        await world.sleep(5.9)
        assert not await is_in_sync()
        await world.sleep(6)
        return await is_in_sync()

    async def is_in_sync() -> bool:
        return "b1" in await world.cluster.in_sync("events", 0)

    assert world.kernel.run_until_complete(main())
    assert world.processes["b1"].running
    world.switch_off()
