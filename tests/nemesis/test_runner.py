"""A schedule is carried out with proof for every fault, and nothing is left broken."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from squall.nemesis.controls import silenced
from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.core.ports import VerbFailed
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisEvent, NemesisRunner, unproven
from squall.nemesis.schedule import Schedule, build_schedule

ENTRIES: TypeAdapter[list[NemesisEntry]] = TypeAdapter(list[NemesisEntry])


def schedule_of(*entries: dict[str, Any], load_s: float = 60, seed: int = 4711) -> Schedule:
    return build_schedule(ENTRIES.validate_python(list(entries)), load_s, seed)


def runner_of(world: Any, schedule: Schedule, **options: Any) -> tuple[NemesisRunner, list[NemesisEvent]]:
    events: list[NemesisEvent] = []
    options = {"hosts": world.hosts, "report": events.append, **options}
    runner = NemesisRunner(
        schedule,
        cluster=world,
        now_ns=world.time.now_ns,
        sleep=world.time.sleep,
        **options,
    )
    return runner, events


def nothing_is_open(world: Any) -> bool:
    return not any(host.open_faults() for host in world.hosts.values())


@pytest.mark.parametrize(
    ("entry", "targets", "role"),
    [
        ({"fault": "isolate", "target": "leader of events/0"}, ("b2",), "leader of events/0"),
        ({"fault": {"isolate": {"from": "everyone"}}, "target": "b4"}, ("b4",), "by name"),
        ({"fault": "halves", "target": "minority of nodes"}, None, "minority of nodes"),
        ({"fault": "halves"}, None, "all nodes"),
        ({"fault": "one-way", "target": "active controller"}, ("c2",), "active controller"),
        ({"fault": "one-way", "target": "b1", "direction": "mute"}, ("b1",), "by name"),
        ({"fault": "majorities-ring"}, None, "all nodes"),
        ({"fault": "bridge", "among": "brokers"}, None, "all brokers"),
        ({"fault": "kill", "target": "active controller"}, ("c2",), "active controller"),
        ({"fault": "pause", "target": "followers of events/0"}, ("b1", "b3"), "followers of events/0"),
        ({"fault": "clock", "target": "b1", "offset": "-3600s"}, ("b1",), "by name"),
        ({"fault": "clock", "target": "b1", "offset": 0, "rate": 1.5}, ("b1",), "by name"),
        (
            {"fault": "leader-kill-lagging", "target": "events/0"},
            ("b2",),
            "leader of events/0, lagging b1, b3",
        ),
    ],
)
def test_every_fault_is_proven_and_healed_in_its_window(
    world: Any, drive: Any, entry: dict[str, Any], targets: tuple[str, ...] | None, role: str
) -> None:
    runner, events = runner_of(world, schedule_of({"at": 5, "for": 10, **entry}))
    began = world.time.now_ns()
    (record,) = drive(runner.run())
    assert record.proven and record.healed, record.detail
    assert record.role == role
    assert targets is None or record.targets == targets
    lasted = (record.healed_at_ns - record.injected_at_ns) / 1e9
    assert (record.injected_at_ns - began) / 1e9 == pytest.approx(5, abs=0.1)
    assert lasted == pytest.approx(11 if record.kind == "leader-kill-lagging" else 10, abs=0.1)
    assert [event.phase for event in events] == ["started", "proven", "healed"]
    assert events[-1].record == record
    assert nothing_is_open(world)


def test_a_record_survives_json(world: Any, drive: Any) -> None:
    runner, _ = runner_of(world, schedule_of({"fault": "kill", "target": "b1", "at": 1}))
    (record,) = drive(runner.run())
    assert FaultRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize("fault", ["isolate", "one-way", "kill", "pause", "clock"])
def test_a_nemesis_that_claims_its_faults_and_does_nothing_is_exposed(world: Any, drive: Any, fault: str) -> None:
    schedule = schedule_of({"fault": fault, "target": "b2", "at": 1, "for": 3})
    runner, events = runner_of(world, schedule, hosts=silenced(world.hosts), ports={"b2": 9092})
    records = drive(runner.run())
    assert unproven(records) == records and len(records) == 1
    assert events[1].phase == "unproven" and events[1].text


def test_a_lagging_leader_kill_that_does_nothing_is_exposed(world: Any, drive: Any) -> None:
    schedule = schedule_of({"fault": "leader-kill-lagging", "target": "events/*", "at": 1})
    runner, _ = runner_of(world, schedule, hosts=silenced(world.hosts))
    (record,) = drive(runner.run())
    assert not record.proven
    assert "should have been paused" in record.detail


def test_the_leader_dies_while_followers_sleep_and_stays_down_after(world: Any, drive: Any) -> None:
    schedule = schedule_of({"fault": "leader-kill-lagging", "target": "events/0", "at": 1, "lag": "1s"})
    runner, _ = runner_of(world, schedule)
    (record,) = drive(runner.run())
    during = record.evidence_during
    assert {host: facts["state"] for host, facts in during["while_lagging"].items()} == {
        "b1": "stopped",
        "b3": "stopped",
    }
    assert {host: facts["state"] for host, facts in during["processes"].items()} == {
        "b1": "running",
        "b2": "absent",
        "b3": "running",
    }
    verbs = [verb for verb, _ in world.hosts["b2"].calls if verb == "proc.kill"]
    assert verbs == ["proc.kill"]


def test_isolation_from_peers_drops_on_both_sides_and_names_no_client(world: Any, drive: Any) -> None:
    runner, _ = runner_of(world, schedule_of({"fault": "isolate", "target": "b2", "at": 1}))
    drive(runner.run())
    drops = {
        name: arguments["sources"]
        for name, host in world.hosts.items()
        for verb, arguments in host.calls
        if verb == "net.drop"
    }
    everyone_else = sorted(host.address for name, host in world.hosts.items() if name != "b2")
    assert sorted(drops.pop("b2")) == everyone_else
    assert set(drops) == set(world.hosts) - {"b2"}
    assert all(sources == [world.hosts["b2"].address] for sources in drops.values())


def test_the_hosts_are_told_a_time_to_live_a_little_longer_than_the_fault(world: Any, drive: Any) -> None:
    runner, _ = runner_of(world, schedule_of({"fault": "pause", "target": "b1", "at": 1, "for": "4s"}))
    drive(runner.run())
    (arguments,) = [arguments for verb, arguments in world.hosts["b1"].calls if verb == "proc.pause"]
    assert arguments["ttl"] == 9.0


def test_overlapping_partitions_are_both_proven_and_heal_alone(world: Any, drive: Any) -> None:
    schedule = schedule_of(
        {"fault": "isolate", "target": "b1", "at": 1, "for": 10},
        {"fault": "isolate", "target": "b2", "at": 4, "for": 10},
    )
    records = drive(runner_of(world, schedule)[0].run())
    assert [record.proven and record.healed for record in records] == [True, True]
    assert nothing_is_open(world)


def test_a_partition_that_was_there_before_proves_nothing(world: Any, drive: Any) -> None:
    world.hosts["b2"].drops["somebody else's firewall"] = [world.hosts["c1"].address]
    runner, _ = runner_of(world, schedule_of({"fault": "isolate", "target": "b2", "at": 1}))
    (record,) = drive(runner.run())
    assert not record.proven
    assert "b2 did not receive from c1 before the fault either" in record.detail


def test_a_one_way_cut_that_cuts_both_ways_is_not_proven(world: Any, drive: Any) -> None:
    def cut_the_other_way_too(event: NemesisEvent) -> None:
        if event.phase == "started":
            world.hosts["b1"].drops["foreign"] = [world.hosts["b2"].address]

    schedule = schedule_of({"fault": "one-way", "target": "b2", "at": 1, "for": 5})
    runner, _ = runner_of(world, schedule, report=cut_the_other_way_too)
    (record,) = drive(runner.run())
    assert not record.proven
    assert "not one-way" in record.detail


def test_the_runner_waits_for_a_leader_before_it_aims_at_one(world: Any, drive: Any) -> None:
    world.leaders[0] = None
    runner, _ = runner_of(world, schedule_of({"fault": "kill", "target": "leader of events/0", "at": 1}))

    async def elected_later() -> list[FaultRecord]:
        running = asyncio.get_running_loop().create_task(runner.run())
        await world.time.sleep(3)
        world.leaders[0] = "b5"
        return await running

    (record,) = drive(elected_later())
    assert record.targets == ("b5",) and record.proven


def test_without_a_target_the_fault_is_on_record_as_not_proven(world: Any, drive: Any) -> None:
    world.active = None
    runner, events = runner_of(world, schedule_of({"fault": "kill", "target": "active controller", "at": 1}))
    (record,) = drive(runner.run())
    assert not record.proven and record.injected_at_ns is None
    assert record.detail == "no target: no controller is active"
    assert [event.phase for event in events] == ["unproven"]


def test_a_verb_that_fails_is_told_healed_and_stops_no_other_fault(world: Any, drive: Any) -> None:
    world.hosts["c1"].broken["net.drop"] = VerbFailed("c1", "net.drop", "unsupported", "no nft here")
    schedule = schedule_of(
        {"fault": "isolate", "target": "b2", "at": 1, "for": 3},
        {"fault": "kill", "target": "b1", "at": 10, "for": 3},
    )
    first, second = drive(runner_of(world, schedule)[0].run())
    assert not first.proven and "no nft here" in first.detail
    assert second.proven and second.healed
    assert nothing_is_open(world)


def test_a_host_that_does_not_heal_is_on_record(world: Any, drive: Any) -> None:
    world.hosts["b1"].broken["clock.clear"] = VerbFailed("b1", "clock.clear", "failed", "stuck")
    runner, events = runner_of(world, schedule_of({"fault": "clock", "target": "b1", "at": 1, "for": 3}))
    (record,) = drive(runner.run())
    assert record.proven and not record.healed
    assert "not healed: b1: clock.clear: stuck" in record.detail
    assert events[-1].phase == "unhealed"


def test_steps_of_a_sequence_wait_for_one_another(world: Any, drive: Any) -> None:
    steps = [
        {"fault": "pause", "target": "b1", "for": "1s"},
        {"fault": "kill", "target": "b1", "for": "2s", "after": "500ms"},
    ]
    records = drive(runner_of(world, schedule_of({"at": 2, "sequence": steps}))[0].run())
    first, second = records
    assert [first.kind, second.kind] == ["pause", "kill"]
    assert second.injected_at_ns >= first.healed_at_ns + 400_000_000
    assert first.proven and second.proven


def test_cancelled_it_heals_every_host_and_completes_the_records(world: Any, drive: Any) -> None:
    schedule = schedule_of(
        {"fault": "isolate", "target": "b2", "at": 1, "for": 20},
        {"fault": "pause", "target": "b1", "at": 2, "for": 20},
        {"fault": "kill", "target": "b3", "at": 30, "for": 5},
    )
    runner, _ = runner_of(world, schedule)

    async def interrupted() -> None:
        running = asyncio.get_running_loop().create_task(runner.run())
        await world.time.sleep(8)
        assert not nothing_is_open(world)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    drive(interrupted())
    assert nothing_is_open(world)
    assert runner.heal_report is not None and runner.heal_report.whole
    assert [(record.kind, record.proven, record.healed) for record in runner.records] == [
        ("isolate", True, True),
        ("pause", True, True),
    ]
    assert all("interrupted" in record.detail for record in runner.records)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"fault": "isolate", "target": "b2"}, "deaf to 7 of 7"),
        ({"fault": {"isolate": {"from": "everyone"}}, "target": "b2"}, "deaf to 7 of 7"),
        ({"fault": "one-way", "target": "b2"}, "deaf to 7 of 7"),
        ({"fault": "halves"}, "32 of 56 directions silent"),
        ({"fault": "kill", "target": "b2"}, "process gone"),
        ({"fault": "clock", "target": "b2"}, "offset +3600.0 s"),
    ],
)
def test_the_proof_is_told_in_a_few_words(world: Any, drive: Any, entry: dict[str, Any], told: str) -> None:
    runner, events = runner_of(world, schedule_of({"at": 1, "for": 3, **entry}))
    drive(runner.run())
    assert events[1].text == told
