"""What a system under test lacks beside our own nodes: a scenario that needs it is refused before anything starts.

A system states its limits as a class attribute, so that a suite can be refused without its programs at hand:

    class ApacheKafka:
        name = "kafka"
        limits = SystemLimits(lacks={MUTANTS: "it has no seeded bugs"}, faults={"power-loss": "…"}, versions=("4.4.0",))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MUTANTS: Final = "mutants"
REPLICAS: Final = "replicas"
DYNAMIC_VOTERS: Final = "dynamic_voters"
JVM: Final = "jvm"
CONTROLLERS: Final = "controllers"


def any_topic(name: str, topic: Any) -> str | None:
    """Accept every topic."""
    return None


def any_load(options: Any) -> str | None:
    """Accept every workload: its clients speak Kafka's protocol, as the system does."""
    return None


def any_setting(key: str, value: str, version: str) -> str | None:
    """Accept every setting: the system itself refuses what it does not know, as it is configured."""
    return None


def any_metadata(key: str, metadata: str) -> str | None:
    """Accept every setting with every keeper of the metadata."""
    return None


@dataclass(frozen=True)
class SystemLimits:
    """What a system does not have, and why."""

    versions: tuple[str, ...] = ()
    """The versions that a suite may name, the newest first; without one the newest. Empty if there is no choice."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Why it has no `mutants`, no `replicas` to compare, no `dynamic_voters`, no `controllers` beside its brokers; what
    is not named it has.
    """
    faults: Mapping[str, str] = field(default_factory=dict)
    """Why a fault of this name cannot be carried out on it."""
    disturbing: Mapping[str, str] = field(default_factory=dict)
    """Why a fault of this name may end a leadership on it, though nothing else is struck: a scenario with it
    cannot require `elections` or `calm`.
    """
    no_faults: str = ""
    """Why no fault at all can be carried out on it; empty if some can."""
    reached: bool = False
    """Whether it runs already and is reached by its addresses: nothing is deployed, and no hosts are needed."""
    jvm: bool = False
    """Whether its nodes are Java processes, whose options a suite may set."""
    start_seconds: float = 0.0
    """How much longer than ours its nodes may take until they serve: faults wait so much longer to be seen to end."""
    wrong_with_setting: Callable[[str, str, str], str | None] = any_setting
    """Why it does not take a key of `cluster.config` with this value, in the version that a suite names; None if it
    does.
    """
    on_zookeeper: tuple[str, ...] = ()
    """The versions that can have their metadata in ZooKeeper (`cluster: {metadata: zookeeper}`)."""
    wrong_with_metadata: Callable[[str, str], str | None] = any_metadata
    """Why a key of `cluster.config` does nothing where a quorum, or ZooKeeper, keeps the metadata; None if it does."""
    programs: tuple[str, ...] = ()
    """The workloads for which it brings a program as their client. It does not speak Kafka's protocol if there are any,
    and no other client can be used.
    """
    wrong_with_topic: Callable[[str, Any], str | None] = any_topic
    """Why it cannot have a topic of this name and these options; None if it can."""
    wrong_with_load: Callable[[Any], str | None] = any_load
    """Why its clients cannot carry out a workload with these options; None if they can."""

    def why_not(self, fault: str) -> str | None:
        """Why a fault cannot be carried out; None if nothing is known against it."""
        return self.no_faults or self.faults.get(fault)


UNLIMITED: Final = SystemLimits()


def limits_of(system: Any) -> SystemLimits:
    """The limits that a class, or an object of it, states; those of a system that states none are found on hosts."""
    stated = getattr(system, "limits", UNLIMITED)
    return stated if isinstance(stated, SystemLimits) else UNLIMITED
