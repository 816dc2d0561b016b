"""Systems under test by name: Squall's own ones, and those of installed packages (`squall.systems`).

    cluster: {system: kafka}                      cluster: {system: {name: kafka, version: 4.4.0}}

The contract of a system is `System` in `hosts/system.py`, which also makes the system of a name;
docs/writing-a-system.md has an example. Squall's own systems are named here as entry points are, and imported like
those: only when a suite names them.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any, Final

from squall.harness.plugins.plugins import SYSTEMS, Plugins
from squall.harness.plugins.system_limits import SystemLimits, limits_of
from squall.harness.yaml_source import suggestion

OURS: Final = "squall"
OWN: Final[Mapping[str, str]] = {
    OURS: "squall.harness.hosts.system:SquallNodes",
    "kafka": "squall.harness.systems.kafka.system:ApacheKafka",
    "nats": "squall.harness.systems.nats.system:NatsJetStream",
    "etcd": "squall.harness.systems.etcd.system:Etcd",
    "cluster": "squall.harness.systems.cluster.system:ReachedCluster",
}
ON_ZOOKEEPER: Final[Mapping[str, str]] = {
    OURS: "squall.harness.systems.zookeeper.system:SquallOnZooKeeper",
    "kafka": "squall.harness.systems.zookeeper.kafka_on_zookeeper:KafkaOnZooKeeper",
}
"""The systems where ZooKeeper keeps the metadata; chosen by `cluster: {metadata: zookeeper}` beside their names."""
NEEDED = ("name", "bundle", "configure")


def wrong_with_system(name: str, made: Any) -> str | None:
    """Why an object does not make a system; None if it does, as far as can be seen."""
    if not callable(made):
        return f"names {made!r}, which cannot be called"
    missing = [one for one in NEEDED if isinstance(made, type) and not hasattr(made, one)]
    return f"names the class {made.__name__}, which lacks {', '.join(missing)}" if missing else None


SYSTEM_PLUGINS = Plugins(
    SYSTEMS,
    tuple(OWN),
    "a class that follows System of squall.harness.hosts.system (docs/writing-a-system.md)",
    wrong_with_system,
)


def system_names() -> tuple[str, ...]:
    """The names of all systems: Squall's own, then those of installed packages."""
    return tuple(dict.fromkeys((*OWN, *SYSTEM_PLUGINS.names)))


def known_system(name: str) -> str:
    """The name, if there is such a system. Raises ValueError."""
    if name not in system_names():
        raise ValueError(f"is not a system{suggestion(name, system_names())}")
    if name in SYSTEM_PLUGINS.names:
        SYSTEM_PLUGINS.load(name)
    return name


def system_class(name: str) -> Any:
    """What makes the system of this name: a class or a function. Raises ValueError, which says what is wrong."""
    if name in OWN and name not in SYSTEM_PLUGINS.names:
        return importlib.metadata.EntryPoint(name, OWN[name], SYSTEMS).load()
    return SYSTEM_PLUGINS.load(name)


def limits_of_system(name: str) -> SystemLimits:
    """What the system of this name lacks. Raises ValueError."""
    return limits_of(system_class(name))


def on_zookeeper(name: str) -> Any:
    """Return the class of the system of this name where ZooKeeper keeps the metadata. Raises ValueError."""
    if name not in ON_ZOOKEEPER:
        raise ValueError(f"{name} cannot have its metadata in ZooKeeper; {' and '.join(ON_ZOOKEEPER)} can")
    return importlib.metadata.EntryPoint(name, ON_ZOOKEEPER[name], SYSTEMS).load()
