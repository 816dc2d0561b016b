"""Brokers restarted with other settings: what hosts are asked for, what proves it, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from squall.nemesis.core.evidence import FaultRecord
from squall.nemesis.core.ports import OperationRefused, VerbFailed
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.runner import NemesisRunner
from squall.nemesis.schedule import build_schedule
from tests.facts import assert_names
from tests.nemesis.conftest import FakeWorld
from tests.nemesis.faults.processes.test_rounds import PORTS, Stopping

Drive = Callable[[Coroutine[Any, Any, Any]], Any]
ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
KEY, LISTENERS = "control.plane.listener.name", "listeners"
SET = {KEY: "CONTROLLER", LISTENERS: "CONTROLLER://{address}:9093"}


class Configured(Stopping):
    """A host whose node reads its settings when it starts."""

    deaf = False
    """Whether the node ignores what is in its file."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.file: dict[str, dict[str, str]] = {}
        self.settings = {KEY: "", LISTENERS: "PLAINTEXT://:9092", "node.id": self.name}

    def _answer(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if verb == "proc.reconfigure":
            self.file[arguments["id"]] = arguments["settings"]
            return {}
        if verb == "proc.start" and self.stopped:
            changes = {key: value for one in self.file.values() for key, value in one.items()}
            original = {KEY: "", LISTENERS: "PLAINTEXT://:9092", "node.id": self.name}
            self.settings = original if self.deaf else original | changes
        return super()._answer(verb, arguments)

    def _heal(self, id: str | None) -> list[str]:
        ended = [one for one in self.file if id in (None, one)]
        for one in ended:
            del self.file[one]
        return [*ended, *super()._heal(id)]

    @property
    def steps(self) -> list[str]:
        return [verb for verb, _ in self.calls if verb in ("proc.reconfigure", "proc.term", "proc.start", "heal")]


class Reporting:
    """An operator to whom brokers report their settings."""

    def __init__(self, world: FakeWorld) -> None:
        self.silent: set[str] = set()
        self._world = world

    async def settings_of(self, host: str) -> Mapping[str, str]:
        node = self._world.hosts[host]
        assert isinstance(node, Configured)
        if host in self.silent or node.stopped:
            raise OperationRefused(f"{host} does not respond")
        return dict(node.settings)


@pytest.fixture
def brokers(world: FakeWorld) -> dict[str, Configured]:
    hosts = {name: Configured(world, name, host.address) for name, host in world.hosts.items()}
    world.hosts.update(hosts)
    return hosts


@pytest.fixture
def operator(world: FakeWorld) -> Reporting:
    return Reporting(world)


def suffer(world: FakeWorld, drive: Drive, operator: Reporting | None, **written: Any) -> FaultRecord:
    entry = ENTRY.validate_python({"fault": "reconfigure", "set": SET, "at": 1, "for": "10s", **written})
    runner = NemesisRunner(
        build_schedule([entry], 120, seed=7), world.hosts, world, now_ns=world.time.now_ns, sleep=world.time.sleep,
        report=lambda event: None, ports=PORTS, operator=operator,  # type: ignore[arg-type]
    )  # fmt: skip
    (record,) = drive(runner.run())
    assert isinstance(record, FaultRecord)
    return record


def test_each_broker_gets_the_settings_and_loses_them_by_a_clean_restart(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    record = suffer(world, drive, operator, target="b1, b2")
    assert record.proven and record.healed, record.detail
    there, back = ["proc.reconfigure", "proc.term", "proc.start"], ["proc.term", "heal", "proc.start"]
    assert brokers["b1"].steps == brokers["b2"].steps == [*there, *back]
    assert brokers["b3"].steps == []
    reported = record.evidence_during["reported"]
    assert reported["b1"] == {KEY: "CONTROLLER", LISTENERS: f"CONTROLLER://{brokers['b1'].address}:9093"}
    assert reported["b2"][LISTENERS] == f"CONTROLLER://{brokers['b2'].address}:9093"
    assert record.evidence_after["reported"] == record.evidence_before["reported"]


def test_a_broker_that_reports_other_values_proves_nothing(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    brokers["b2"].deaf = True
    record = suffer(world, drive, operator, target="b1, b2")
    assert not record.proven and record.healed
    assert_names(record.detail, "b2", KEY, "'CONTROLLER'")


def test_settings_that_are_set_already_prove_nothing(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    record = suffer(world, drive, operator, target="b1", set={"node.id": "b1"})
    assert not record.proven and record.detail == "b1: its settings are those from before"


def test_a_broker_that_reports_nothing_proves_nothing(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    operator.silent.add("b1")
    record = suffer(world, drive, operator, target="b1")
    assert not record.proven and record.detail == "b1: does not report its settings"


def test_a_roll_that_stops_half_way_goes_back_where_it_went(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    brokers["b2"].broken["proc.reconfigure"] = VerbFailed("b2", "proc.reconfigure", "failed", "read-only file")
    record = suffer(world, drive, operator, target="b1, b2, b3")
    assert not record.proven and record.healed
    assert_names(record.detail, "b2", "read-only file")
    assert brokers["b1"].file == {} and brokers["b1"].settings[KEY] == ""
    assert brokers["b3"].steps == []


def test_only_brokers_report_their_settings(
    world: FakeWorld, brokers: dict[str, Configured], operator: Reporting, drive: Drive
) -> None:
    record = suffer(world, drive, operator, target="c1")
    assert not record.proven
    assert_names(record.detail, "c1", "no broker")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({}, "at least 1"), ({"a b": "1"}, "pattern"), ({"a": "1\n2"}, "one printable line")],
)
def test_what_no_line_of_a_file_can_hold_is_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ENTRY.validate_python({"fault": "reconfigure", "set": settings, "at": 1})
