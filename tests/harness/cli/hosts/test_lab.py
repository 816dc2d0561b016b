"""`squall lab`: what its options ask for, what it tells of racks, and the way onto a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.cli.hosts.lab import judged, shape_from_file, shape_from_options, ssh_arguments
from squall.harness.errors import UsageError
from squall.harness.hosts.network import LabNetwork, process_started
from squall.harness.lab.lab import Lab, lab_hosts
from squall.harness.lab.round_trips import RoundTrip, representatives
from squall.harness.scenario.lab_topology import LabTopology

FAR = LabTopology(racks=3, between_racks="10ms").in_racks()  # type: ignore[arg-type]


def trip(seconds: float | None, target: str = "r2") -> RoundTrip:
    return RoundTrip("r1", target, ("c1", "c2"), seconds)


@pytest.mark.parametrize("seconds", [0.0202, 0.0185, 0.5])
def test_a_way_as_long_as_asked_or_longer_is_as_it_should_be(seconds: float) -> None:
    good, said = judged(trip(seconds), FAR)
    assert good and said.startswith("✔ r1-r2") and "asked for 20 ms" in said


@pytest.mark.parametrize("seconds", [0.0001, 0.010, 0.0175])
def test_a_way_shorter_than_asked_is_not(seconds: float) -> None:
    good, said = judged(trip(seconds), FAR)
    assert not good and said.startswith("✘ r1-r2")


@pytest.mark.parametrize("jitter", ["jitter=50ms", "jitter=50ms,distribution=pareto"])
def test_what_jitter_adds_is_chance_and_not_held_against_a_way(jitter: str) -> None:
    racks = LabTopology.model_validate({"racks": 2, "between_racks": f"latency=10ms,{jitter}"}).in_racks()
    good, said = judged(trip(0.021), racks)
    assert good and "asked for 70 ms in the mean" in said
    assert not judged(trip(0.017), racks)[0]


def test_no_answer_is_not_what_was_asked_for() -> None:
    assert judged(trip(None), FAR) == (False, judged(trip(None), FAR)[1])
    assert "no answer" in judged(trip(None), FAR)[1]


def test_within_a_rack_nothing_is_asked() -> None:
    good, said = judged(trip(0.0001, "r1"), FAR)
    assert good and "within r1" in said and "asked" not in said


def test_one_host_of_each_rack_asks_and_another_of_it_is_asked() -> None:
    hosts = lab_hosts(LabTopology(controllers=3, brokers=4, racks=3), Path("keys"))
    chosen = {rack: [host.name for host in two] for rack, two in representatives(hosts).items()}
    assert chosen == {"r1": ["c1", "b1"], "r2": ["c2", "b2"], "r3": ["c3", "b3"]}


def test_hosts_without_a_rack_are_not_asked() -> None:
    assert representatives(lab_hosts(LabTopology(), Path("keys"))) == {}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"racks": 2, "between_racks": "far"}, "--between-racks: 'far' must be a latency"),
        ({"between_racks": "2ms"}, "lab up: between_racks and links need at least two racks"),
        ({"racks": 2, "between_racks": "loss=2"}, "--between-racks.loss: '2'"),
    ],
)
def test_wrong_options_are_told_by_their_names(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        shape_from_options(given)


def test_a_shape_comes_from_options_or_from_a_file_and_not_from_both(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("lab: {brokers: 5, racks: 2}\n")
    assert shape_from_file(file, {}).brokers == 5
    with pytest.raises(UsageError, match=r"--inventory .* and --brokers both say"):
        shape_from_file(file, {"brokers": 3})


def test_hosts_that_are_there_are_no_lab_to_bring_up(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("all: {children: {controllers: {hosts: {a: {}}}, brokers: {hosts: {b: {}}}}}\n")
    with pytest.raises(UsageError, match="no lab to bring up"):
        shape_from_file(file, {})


def test_ssh_uses_the_labs_keys_and_nothing_of_the_users() -> None:
    import os

    network = LabNetwork(os.getpid(), process_started(os.getpid()) or 0)
    lab = Lab("x", Path("state"), Path("data"), lab_hosts(LabTopology(), Path("state")), 1, network, 0.1)
    argv = ssh_arguments(lab, "b2", ["nft", "list", "ruleset"])
    assert argv[0] == "nsenter" and argv[-4:] == ["root@10.77.0.15", "nft", "list", "ruleset"]
    assert (
        "state/id_ed25519" in argv
        and "UserKnownHostsFile=state/known_hosts" in argv
        and argv[argv.index("-F") + 1] == "none"
    )
    with pytest.raises(UsageError, match=r"no host .*b9"):
        ssh_arguments(lab, "b9", [])
