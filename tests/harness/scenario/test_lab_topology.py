"""What a lab may be asked to look like: racks, what lies between them, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from squall.harness.errors import UsageError
from squall.harness.lab.lab import lab_hosts
from squall.harness.scenario.inventory import load_inventory
from squall.harness.scenario.lab_topology import NAMED_PROFILES, LabTopology, LinkProfile, Racks


def shape(**told: object) -> LabTopology:
    return LabTopology.model_validate(told)


def test_a_lab_has_no_racks_unless_asked() -> None:
    racks = shape().in_racks()
    assert racks.count == 0 and racks.names == () and racks.dealt(0) is None
    assert {host.rack for host in lab_hosts(shape(), Path("keys"))} == {None}


def test_hosts_are_dealt_to_racks_in_turn_each_kind_by_itself() -> None:
    hosts = lab_hosts(shape(controllers=3, brokers=4, clients=2, racks=3), Path("keys"))
    assert {host.name: host.rack for host in hosts} == {
        "c1": "r1",
        "c2": "r2",
        "c3": "r3",
        "b1": "r1",
        "b2": "r2",
        "b3": "r3",
        "b4": "r1",
        "load1": "r1",
        "load2": "r2",
    }


def test_each_rack_is_a_network_of_its_own_and_no_address_is_there_twice() -> None:
    hosts = lab_hosts(shape(controllers=2, brokers=4, racks=2), Path("keys"))
    assert all(host.address.startswith(f"10.77.{(host.rack or '')[1:]}.") for host in hosts)
    assert len({host.address for host in hosts}) == len(hosts)


def test_addresses_without_racks_stay_what_they_were() -> None:
    hosts = lab_hosts(shape(controllers=1, brokers=2), Path("keys"))
    assert [host.address for host in hosts] == ["10.77.0.11", "10.77.0.12", "10.77.0.13"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2ms", {"latency": 0.002}),
        (0.5, {"latency": 0.5}),
        ("latency=2ms,jitter=500ms,loss=0.01", {"latency": 0.002, "jitter": 0.5, "loss": 0.01}),
        ("bandwidth=1MB/s", {"bandwidth": 1_000_000}),
        ({"latency": "20ms", "distribution": "pareto", "jitter": "1ms"}, None),
    ],
)
def test_a_profile_is_a_latency_or_all_that_it_has(written: object, meant: dict[str, object] | None) -> None:
    profile = shape(racks=2, between_racks=written).between_racks
    assert profile is not None
    if meant is not None:
        assert profile.model_dump(exclude_defaults=True, mode="python").keys() == meant.keys()
        assert all(getattr(profile, name) == value for name, value in meant.items())
    else:
        assert (profile.latency, profile.distribution) == (0.02, "pareto")


@pytest.mark.parametrize("name", NAMED_PROFILES)
def test_named_profiles_are_valid(name: str) -> None:
    profile = shape(racks=2, between_racks=name).in_racks().profile("r1", "r2")
    assert profile is not None and profile.latency > 0


def test_a_link_of_its_own_goes_before_what_lies_between_all_racks() -> None:
    racks = shape(racks=3, between_racks="2ms", links={"r3-r1": "20ms"}).in_racks()
    assert [(one, other, p and p.latency) for one, other in racks.pairs() for p in [racks.profile(one, other)]] == [
        ("r1", "r2", 0.002),
        ("r1", "r3", 0.02),
        ("r2", "r3", 0.002),
    ]
    assert racks.profile("r1", "r1") is None


def test_racks_may_be_as_near_as_hosts_of_one() -> None:
    racks = shape(racks=2).in_racks()
    assert racks.profile("r1", "r2") is None


def test_a_round_trip_takes_the_latency_twice_and_half_the_jitter_each_way() -> None:
    assert LinkProfile(latency=0.01, jitter=0.004).round_trip == pytest.approx(0.024)


def test_racks_survive_files_and_pickles() -> None:
    racks = shape(racks=3, between_racks="zones", links={"r1-r3": "latency=1ms,bandwidth=1MiB/s"}).in_racks()
    assert Racks.model_validate(racks.model_dump(mode="json")) == racks
    assert pickle.loads(pickle.dumps(racks)) == racks


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"between_racks": "2ms"}, "at least two racks"),
        ({"racks": 1, "links": {"r1-r2": "2ms"}}, "at least two racks"),
        ({"racks": 2, "links": {"r1-r3": "2ms"}}, "there is no rack r3; racks are r1 to r2"),
        ({"racks": 2, "links": {"r1": "2ms"}}, "must name two racks"),
        ({"racks": 2, "links": {"r1-r1": "2ms"}}, "must name two racks"),
        ({"racks": 2, "links": {"r1-r2": "2ms", "r2-r1": "3ms"}}, "given twice"),
        ({"racks": 2, "between_racks": "far"}, "must be a latency"),
        ({"racks": 2, "between_racks": "0ms"}, "as near as one"),
        ({"racks": 2, "between_racks": "-2ms"}, "must be a latency"),
        ({"racks": 2, "between_racks": "latency=2ms,lag=1ms"}, "Extra inputs"),
        ({"racks": 2, "between_racks": "loss=1"}, "less than 1"),
        ({"racks": 51}, "less than or equal to 50"),
    ],
)
def test_what_makes_no_sense_is_refused(told: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        shape(**told)


def test_an_inventory_may_ask_for_a_lab_in_racks(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("lab: {brokers: 3, racks: 3, between_racks: {latency: 2ms, loss: 0.001}, links: {r1-r3: 20ms}}\n")
    found = load_inventory(file).lab
    assert found is not None and found.in_racks().count == 3


def test_a_wrong_inventory_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("lab:\n  racks: 3\n  between_racks: soon\n")
    with pytest.raises(UsageError, match=r"lab.yaml:3: lab.between_racks: \"soon\" must be a latency"):
        load_inventory(file)


def test_a_lab_may_have_an_ensemble_instead_of_controllers_or_servers_that_are_all_alike() -> None:
    found = shape(brokers=1, zookeeper=2)
    assert found.names() == [("b1", "brokers"), ("z1", "zookeeper"), ("z2", "zookeeper")]
    assert shape(controllers=0, brokers=2).names() == [("b1", "brokers"), ("b2", "brokers")]
