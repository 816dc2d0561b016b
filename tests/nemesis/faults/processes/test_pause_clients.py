"""Clients asleep: whom the fault chooses, what proves it, and that cut-off runs wake them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.ports import LoadHost
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import build_schedule
from tests.facts import naming
from tests.nemesis.conftest import FakeHost, FakeWorld

Drive = Callable[[Coroutine[Any, Any, Any]], Any]
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)


class ClientHost(FakeHost):
    """A host with several processes, each known by its name."""

    asleep: dict[str, str]
    deaf = False

    def _answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match verb:
            case "proc.pause":
                if not self.deaf:
                    self.asleep[arguments["id"]] = arguments["name"]
                return {}
            case "heal":
                id = arguments.get("id")
                gone = [one for one in self.asleep if id in (None, one)]
                for one in gone:
                    del self.asleep[one]
                return {"healed": gone}
            case "journal":
                return {"entries": [{"id": id} for id in self.asleep]}
            case "proc.status":
                stopped = arguments["name"] in self.asleep.values()
                return {"state": "stopped" if stopped else "running", "pid": hash(arguments["name"]), "started": 1}
        return super()._answer(verb, arguments)


@pytest.fixture
def clients(world: FakeWorld) -> dict[str, ClientHost]:
    hosts = {name: ClientHost(world, name, "10.77.1.1") for name in ("l1", "l2")}
    for host in hosts.values():
        host.asleep = {}
    return hosts


def runner_of(world: FakeWorld, clients: dict[str, ClientHost], **written: Any) -> NemesisRunner:
    entry = ENTRY.validate_python({"fault": "pause-clients", "at": 1, "for": 3, **written})
    names = {"l1": ("load-0", "load-2"), "l2": ("load-1",)}
    return NemesisRunner(
        build_schedule([entry], 60, 7),
        world.hosts,
        world,
        now_ns=world.time.now_ns,
        sleep=world.time.sleep,
        report=lambda event: None,
        loads={name: LoadHost(host, names[name]) for name, host in clients.items()},
    )


def test_all_load_workers_sleep_and_wake(world: FakeWorld, clients: dict[str, ClientHost], drive: Drive) -> None:
    (record,) = drive(runner_of(world, clients).run())
    assert record.proven and record.healed, record.detail
    assert record.targets == ("l1", "l2") and record.detail == "3 load workers stopped"
    states = {who: seen["state"] for who, seen in record.evidence_during["processes"].items()}
    assert states == dict.fromkeys(("l1/load-0", "l1/load-2", "l2/load-1"), "stopped")
    assert not any(host.asleep for host in clients.values())


def test_one_sleeps_by_lot_and_the_others_go_on(world: FakeWorld, clients: dict[str, ClientHost], drive: Drive) -> None:
    (record,) = drive(runner_of(world, clients, which="one").run())
    assert record.proven and len(record.targets) == 1
    pauses = [arguments["name"] for host in clients.values() for verb, arguments in host.calls if verb == "proc.pause"]
    assert len(pauses) == 1 and record.role == pauses[0]


def test_workers_that_go_on_are_no_proof(world: FakeWorld, clients: dict[str, ClientHost], drive: Drive) -> None:
    clients["l2"].deaf = True
    (record,) = drive(runner_of(world, clients).run())
    assert not record.proven and "l2/load-1: the process is running" in record.detail


def test_without_client_hosts_there_is_nobody_to_aim_at(world: FakeWorld, drive: Drive) -> None:
    (record,) = drive(runner_of(world, {}).run())
    assert not record.proven and "no load worker runs on a client host" in record.detail


def test_a_run_that_is_cut_off_wakes_them(world: FakeWorld, clients: dict[str, ClientHost], drive: Drive) -> None:
    async def cut_off() -> bool:
        task = asyncio.get_running_loop().create_task(runner_of(world, clients).run())
        await world.time.sleep(2)
        asleep = any(host.asleep for host in clients.values())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return asleep

    assert drive(cut_off())
    assert not any(host.asleep for host in clients.values())


@pytest.mark.parametrize("length", ["16s", {"from": "1s", "to": "20s"}])
def test_they_may_not_sleep_so_long_that_they_give_up(length: Any) -> None:
    with pytest.raises(ValidationError, match=naming("15 s")):
        ENTRY.validate_python({"fault": "pause-clients", "at": 1, "for": length})
