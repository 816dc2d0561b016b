"""Refuse, before anything starts, what the system of a scenario cannot do: its limits say so (`plugins/system_limits`).

Our own nodes have no limits here but that they bring no client programs: what else they cannot do is refused where it
is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from squall.harness.errors import UsageError
from squall.harness.plugins.system_limits import CONTROLLERS, DYNAMIC_VOTERS, MUTANTS, REPLICAS, SystemLimits
from squall.harness.scenario.suite import Scenario, faults_of, text
from squall.harness.yaml_source import dotted, shown
from squall.workloads.workload import PROGRAM

REMEDY = "leave it out, or test another system"


def refuse_what_system_lacks(suite: Path, scenario: Scenario) -> None:
    """Raise one UsageError for all that a scenario asks of its system in vain."""
    choice = scenario.cluster.system
    wrong = list(_load_in_vain(scenario, choice.limits))
    wrong += [] if choice.ours else list(_asked_in_vain(scenario, choice.limits, choice.version))
    if wrong:
        raise UsageError.joined(
            [
                UsageError(f"{suite}: scenario {scenario.scenario}: {where}: {choice.name}: {why}", remedy=REMEDY)
                for where, why in wrong
            ]
        )


def _asked_in_vain(scenario: Scenario, limits: SystemLimits, version: str) -> Iterator[tuple[str, str]]:
    """Yield the places in a scenario that its system refuses, each with the reason."""
    asked = {
        MUTANTS: bool(scenario.cluster.mutants),
        DYNAMIC_VOTERS: scenario.cluster.dynamic_voters,
        REPLICAS: "replicas" in scenario.model_fields_set and scenario.replicas,
        CONTROLLERS: "controllers" in scenario.cluster.model_fields_set,
    }
    for what, reason in limits.lacks.items():
        if asked.get(what):
            yield (what if what == REPLICAS else f"cluster.{what}"), reason
    cluster = scenario.cluster
    if cluster.metadata == "zookeeper" and (problem := cluster.system.why_not_on_zookeeper):
        yield "cluster.metadata", problem
    for key, value in cluster.config.items():
        why = limits.wrong_with_setting(key, text(value), version) or limits.wrong_with_metadata(key, cluster.metadata)
        if why:
            yield f"cluster.config.{key}", f"{shown(value)}: {why}"
    for name, topic in scenario.cluster.topics.items():
        if why := limits.wrong_with_topic(name, topic):
            yield f"cluster.topics.{name}", why
    for path, entry in faults_of(scenario):
        if why := limits.why_not(entry.fault):
            yield dotted(path), f"{entry.fault}: {why}"
    yield from _calm_in_vain(scenario, limits)


def _calm_in_vain(scenario: Scenario, limits: SystemLimits) -> Iterator[tuple[str, str]]:
    """Yield the requirement of calm that faults of the scenario take from its system, with the reason."""
    asked = {"elections": scenario.require.elections is not None, "calm": scenario.require.calm}
    faults = dict.fromkeys(entry.fault for _, entry in faults_of(scenario) if entry.fault in limits.disturbing)
    for name in (name for name, given in asked.items() if given):
        yield from ((f"require.{name}", f"under {fault}: {limits.disturbing[fault]}") for fault in faults)


def _load_in_vain(scenario: Scenario, limits: SystemLimits) -> Iterator[tuple[str, str]]:
    """Yield what of a scenario's workload its system refuses, with the reason."""
    load = scenario.load
    if limits.programs and load.name not in limits.programs and load.client != PROGRAM:
        yield "workload.name", f"{load.name}: it has clients for {', '.join(limits.programs)} alone"
    elif limits.programs and load.client != PROGRAM:
        yield "workload.client", f"{load.client} speaks Kafka's protocol; leave it out, or give `client: {PROGRAM}`"
    elif load.client == PROGRAM and load.name not in limits.programs and not _command(load):
        yield "workload.program", f"it brings no client program for {load.name}; give a command"
    elif why := limits.wrong_with_load(load):
        yield "workload", why


def _command(load: Any) -> tuple[str, ...]:
    """The command of the client program that the suite gives, if any."""
    program = getattr(load, PROGRAM, None)
    return program.command if program else ()
