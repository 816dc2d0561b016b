"""The file of a night, and the items that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.nightly.plan.night_file import items_of, load_night

SUITE = """
suite: two
scenarios:
  - {scenario: quiet, fault_free: true, time: {load: 30s}, repeat: 2}
  - {scenario: broken, fault_free: true, seeds: [5], expect: invalid}
  - {scenario: drawn, swarm: true}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "two.yaml").write_text(SUITE)
    return tmp_path


def load(place: Path, text: str) -> list[str]:
    path = place / "night.yaml"
    path.write_text(text)
    night, suites = load_night(str(path))
    return [one.id for one in items_of(night, suites, seed=40, world=night.world, repeat=night.repeat)[0]]


def test_a_suite_is_a_night_of_its_scenarios_each_with_its_seeds(place: Path) -> None:
    night, suites = load_night(str(place / "two.yaml"))
    items, impossible = items_of(night, suites, seed=40, world="hosts")
    assert [(one.id, one.seed) for one in items] == [("quiet-1", 40), ("quiet-2", 41), ("broken", 5)]
    assert items[0].kind == "scenario" and items[0].usual_s == 55 and items[2].expected == "invalid"
    assert [name for name, _ in impossible] == ["drawn"] and "only the simulation" in impossible[0][1]


def test_a_night_on_another_system_leaves_out_what_that_system_cannot_have_with_its_reason(place: Path) -> None:
    (place / "faults.yaml").write_text("""
scenarios:
  - {scenario: kill, nemesis: [{fault: kill, target: leader of events/0, at: 2s, for: 3s}]}
  - {scenario: power, nemesis: [{fault: power-loss, target: leader of events/0, at: 2s, for: 3s}]}
""")
    night, suites = load_night(str(place / "faults.yaml"), "kafka:4.4.0")
    (item,), ((name, why),) = items_of(night, suites, seed=7, world="hosts")
    assert (item.name, item.system, item.tested) == ("kill", "kafka:4.4.0", "kafka")
    assert item.repeat.endswith("--only kill --seed 7 --system kafka:4.4.0")
    assert name == "power" and "power-loss" in why
    assert not items_of(night, suites, seed=7, world="simulation")[0], "the simulation has only our own nodes"


def test_an_unknown_system_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="kafak"):
        load_night(str(place / "two.yaml"), "kafak")


def test_a_repetition_has_the_next_seeds(place: Path) -> None:
    night, suites = load_night(str(place / "two.yaml"))
    items, _ = items_of(night, suites, seed=40, world="simulation", repeat=2)
    quiet = [one.seed for one in items if one.name == "quiet"]
    assert quiet == [40, 41, 42, 43]
    assert {one.kind for one in items} == {"simulation"} and {"drawn-1", "drawn-2"} <= {one.id for one in items}


def test_other_parts_are_items_beside_those_of_suites(place: Path) -> None:
    text = """
night: mixed
suites: [{suite: two.yaml, only: [broken]}]
parts: [{simulate: worlds, seeds: 50}, {mutants: 2}, {forge: 3}, {command: "true", name: smoke-test}]
"""
    assert load(place, text) == ["broken", "simulate-worlds", "mutants", "forge", "smoke-test"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{night: n}", "nothing to run"),
        ("{night: n, parts: [{simulate: worlds, forge: 3}]}", "exactly one of"),
        ("{night: a/b, parts: [{forge: 3}]}", "night"),
        ("{night: n, parts: [{command: 'true', name: x}, {command: 'true', name: x}]}", "two parts .* called x"),
        ("{night: n, suites: [no-such-suite]}", r"night.yaml:1: suites\[0\]: no suite file or scenario"),
        ("{night: n, parts: [{forge: 3}], bugdet: 3}", "did you mean `budget`"),
        ("{night: n, parts: [{forge: 3}], budget: {time: soon}}", "is not a duration"),
        ("{night: n, parts: [{forge: 3}], retry: 2}", "retry"),
    ],
)
def test_a_wrong_file_is_refused_with_place_and_remedy(place: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load(place, text)


def test_a_control_that_only_hosts_have_is_not_simulated() -> None:
    night, suites = load_night("idle-nemesis")
    items, impossible = items_of(night, suites, seed=1, world="simulation")
    assert not items and "control of hosts" in impossible[0][1]
