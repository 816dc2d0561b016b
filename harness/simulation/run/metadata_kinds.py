"""The kinds of controller under which a simulated data plane runs, and which scenarios make sense under which (DA-04).

    quorum      KRaft: a quorum of controllers
    zookeeper   one of the brokers, elected by a simulated ensemble
    memory      a single process without any replica of the metadata (`world/memory`)

A scenario states its kind; `squall simulate --metadata` puts another one in its place and changes nothing else, except
that the time after which a silent broker is given up has another name under ZooKeeper (`settings_under`). It is refused
where faults, settings or shape of the scenario are about what the other kind does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args

from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Scenario
from squall.harness.yaml_source import suggestion

Metadata = Literal["quorum", "zookeeper", "memory"]
KINDS: Final[tuple[Metadata, ...]] = get_args(Metadata)
TO_CONTROLLERS: Final = frozenset({"AlterPartition", "AllocateProducerIds", "BrokerHeartbeat", "BrokerRegistration"})
"""What a broker asks of a controller by request; under ZooKeeper it asks the ensemble."""
OF_QUORUM: Final = ("QC-", "SN-", "FM-02")
"""How the ids of requirements of a replicated metadata log begin: elections, commitment, snapshots, its size."""
OF_KIP_966: Final = frozenset({"EL-01", "EL-02", "EL-03", "EL-04", "EL-06"})
"""Requirements of eligible leader replicas. EL-05, a return after an unclean stop, happens under each kind."""
ELIGIBLE: Final = ("eligible.leader.replicas.version", "unclean.recovery.strategy")
NO_ELIGIBLE_LEADERS: Final = "is about eligible leader replicas, which came after ZooKeeper"
OF_BROKERS: Final = "broker.session.timeout.ms"
OF_SESSIONS: Final = "zookeeper.session.timeout.ms"
VOTER_FAULTS: Final = frozenset({"add-voter", "remove-voter"})


def kind_of(text: str) -> Metadata:
    """Return the kind of this name. Raises UsageError."""
    for kind in KINDS:
        if text == kind:
            return kind
    raise UsageError(
        f"--metadata {text}: is no kind of controller{suggestion(text, KINDS)}", remedy=f"use {', '.join(KINDS)}"
    )


def refuse_kind(scenario: Scenario, kind: Metadata) -> None:
    """Raise UsageError if the scenario is about something that this kind of controller does not have."""
    if (why := why_not(scenario, kind)) is not None:
        raise UsageError(f"--metadata {kind}: {scenario.scenario} {why}", remedy="leave out --metadata, or use another")


def why_not(scenario: Scenario, kind: Metadata) -> str | None:
    """Return why a scenario makes no sense under a kind of controller, None if it does."""
    cluster = scenario.cluster
    if kind == cluster.metadata:
        return None
    if cluster.metadata == "zookeeper":
        return "is about a controller that ZooKeeper elects"
    if cluster.dynamic_voters or cluster.combined or cluster.replication != "pull":
        return "is about the voters of a quorum"
    if scenario.swarm:  # it has whatever faults there are under the kind
        return _swarm_not(scenario, kind)
    if covered := [one for one in scenario.covers if one.startswith(OF_QUORUM)]:
        return f"is about a quorum ({covered[0]})"
    faults = list(_mappings(scenario.model_dump()["nemesis"]))
    if any(one.get("fault") in VOTER_FAULTS for one in faults):
        return "changes the voters of a quorum"
    selectors = [text for one in faults for text in one.values() if isinstance(text, str) and "controller" in text]
    several = [text for text in selectors if text not in ("active controller", "all controllers")]
    if several:
        return f"tells controllers from each other ({several[0]})"
    if kind == "memory":
        return None
    return _not_under_zookeeper(scenario, faults, selectors)


def _swarm_not(scenario: Scenario, kind: Metadata) -> str | None:
    if scenario.swarm == "worlds":
        return "draws its own cluster"
    return NO_ELIGIBLE_LEADERS if scenario.swarm == "switches" and kind == "zookeeper" else None


def settings_under(scenario: Scenario, kind: Metadata) -> dict[str, Any]:
    """Return a scenario's settings under a kind of controller: how long a silent broker counts has two names."""
    settings = dict(scenario.cluster.config)
    if kind == "zookeeper" and OF_BROKERS in settings:
        settings.setdefault(OF_SESSIONS, settings[OF_BROKERS])
    return settings


def _not_under_zookeeper(scenario: Scenario, faults: list[Mapping[str, Any]], selectors: list[str]) -> str | None:
    if "all controllers" in selectors:
        return "names the controllers, which are all brokers then"
    asked = [one.get("api") for one in faults if one.get("api") in TO_CONTROLLERS]
    if asked:
        return f"holds {asked[0]}, which a broker asks of the ensemble then"
    if OF_KIP_966 & set(scenario.covers) or any(key in ELIGIBLE for key in scenario.cluster.config):
        return NO_ELIGIBLE_LEADERS
    if any(one.get("fault") == "set-feature" for one in faults):
        return "sets a feature of the cluster"
    if any(one.get("fault") == "reassign" for one in faults):
        return "moves topic-partitions to brokers that may be dead, which that controller refuses"
    return None


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Return every mapping in a value, however deep: faults may be combined."""
    if isinstance(value, Mapping):
        yield value
        for one in value.values():
            yield from _mappings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _mappings(one)
