"""What has to be deployed for three brokers that outlive any one host, with ZooKeeper and with a quorum (ZK-17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan, SquallNodes, System
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.zookeeper.system import SquallOnZooKeeper

BROKERS = tuple(HostSpec(f"b{number}", f"10.0.0.{number}", ("brokers",)) for number in (1, 2, 3))
COMBINED = tuple(HostSpec(one.name, one.address, ("brokers", "controllers")) for one in BROKERS)
SETTINGS = (".properties", ".cfg")
SERVERS = tuple(HostSpec(f"z{number}", f"10.0.0.1{number}", ("zookeeper",)) for number in (1, 2, 3))


@dataclass(frozen=True)
class Effort:
    """Numbers of what an operator has to keep running, and to know."""

    processes: int
    programs: int
    files_of_settings: int
    keys_of_settings: int


def planned(system: System, hosts: tuple[HostSpec, ...]) -> dict[str, NodePlan]:
    places = {
        one.name: HostPaths("python3", "/home/operator", "/home/operator/bundle", programs="/jars") for one in hosts
    }
    return system.configure(Inventory("inventory.yaml", hosts), places, ClusterSettings("run-1"))


def effort(plans: Mapping[str, NodePlan]) -> Effort:
    settings = [(path, text) for plan in plans.values() for path, text in plan.files.items() if path.endswith(SETTINGS)]
    return Effort(
        processes=len(plans),
        programs=len({plan.process.argv[:4] for plan in plans.values()}),
        files_of_settings=len({PurePath(path).name for path, _ in settings}),
        keys_of_settings=len({line.split("=")[0] for _, text in settings for line in text.splitlines()}),
    )


def test_zookeeper_is_a_second_service_with_processes_and_settings_of_its_own() -> None:
    """ZK-17, by counts; docs/zookeeper.md has them as a table."""
    quorum = effort(planned(SquallNodes(), COMBINED))
    zookeeper = effort(planned(SquallOnZooKeeper(), BROKERS + SERVERS))
    assert (quorum.processes, quorum.programs, quorum.files_of_settings) == (3, 1, 1)
    assert (zookeeper.processes, zookeeper.programs, zookeeper.files_of_settings) == (6, 2, 2)
    assert zookeeper.keys_of_settings > quorum.keys_of_settings
