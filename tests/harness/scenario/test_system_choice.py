"""Which system a suite or a command chooses, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.plan import Refused, RunPlan, planned
from squall.harness.scenario.suite import Suite, read_suite
from squall.harness.systems.kafka.versions import VERSIONS
from squall.harness.yaml_source import parse_yaml
from tests.facts import assert_names, naming

CALM = "scenario: it\nfault_free: true\n"


def suite(text: str) -> Suite:
    return read_suite(parse_yaml(text, "suite.yaml"), Path("suite.yaml"))


def of_run(text: str, system: str | None = "kafka") -> RunPlan | Refused:
    (run,) = planned(suite(text).on_system(system), 1, Path("runs"))
    return run


@pytest.mark.parametrize(
    ("written", "name", "options"),
    [
        ("kafka", "kafka", {}),
        ("{name: kafka, version: 4.4.0}", "kafka", {"version": "4.4.0"}),
        ("{name: kafka, jvm: -Xmx1g}", "kafka", {"jvm": "-Xmx1g"}),
        ("squall", "squall", {}),
    ],
)
def test_a_suite_chooses_a_system_by_name_or_with_options(written: str, name: str, options: dict[str, str]) -> None:
    chosen = suite(CALM + f"cluster: {{system: {written}}}").scenarios[0].cluster.system
    assert (chosen.name, chosen.options) == (name, options)


def test_a_choice_by_name_is_kept_as_that_name() -> None:
    """Hashes of scenarios from before there was a choice stay as they are."""
    (ours,) = suite(CALM).scenarios
    assert '"system":"squall"' in ours.model_dump_json()
    (theirs,) = suite(CALM).on_system("kafka:4.4.0").scenarios
    assert '"system":{"name":"kafka","version":"4.4.0"}' in theirs.model_dump_json()


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("kafak", 'suite.yaml:3: cluster.system: "kafak" is not a system; did you mean `kafka`?'),
        ("{name: kafka, version: 1.0.0}", f"kafka has no version 1.0.0; known are {', '.join(VERSIONS)}"),
        ("{name: squall, version: 4.4.0}", "squall has no version 4.4.0; there is only one"),
        ("{name: squall, jvm: -Xmx1g}", "nodes of squall are no Java processes"),
        ("{name: kafka, verson: 4.4.0}", "cluster.system.verson: unknown key; did you mean `version`?"),
    ],
)
def test_an_unknown_system_or_option_is_refused_with_its_place(written: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        suite(CALM + f"cluster: {{system: {written}}}")
    assert problem in str(refused.value)


def test_a_command_names_each_version_and_an_unknown_one_is_answered_with_all() -> None:
    for version in VERSIONS:
        assert suite(CALM).on_system(f"kafka:{version}").scenarios[0].cluster.system.version == version
    with pytest.raises(UsageError, match=naming("--system", "kafka:3.9.1", *VERSIONS)):
        suite(CALM).on_system("kafka:3.9.1")


@pytest.mark.parametrize("named", ["kafak", "kafka:1.0.0", "kafka:"])
def test_the_command_line_names_a_system_and_a_version(named: str) -> None:
    if named == "kafka:":
        assert suite(CALM).on_system(named).scenarios[0].cluster.system.version == ""
        return
    with pytest.raises(UsageError, match="--system: "):
        suite(CALM).on_system(named)


def test_the_command_that_repeats_a_run_names_the_system() -> None:
    run = of_run(CALM)
    assert isinstance(run, RunPlan) and run.command() == "squall run suite.yaml --seed 1 --system kafka"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("cluster: {mutants: [hw-before-isr-ack]}", "cluster.mutants: kafka: it has no seeded bugs"),
        ("cluster: {config: {turn.bytes.max: 1}}", "cluster.config.turn.bytes.max: kafka: 1: Apache Kafka"),
    ],
)
def test_what_the_system_lacks_is_refused_before_anything_starts(more: str, problem: str) -> None:
    run = of_run(CALM + more)
    assert isinstance(run, Refused) and problem in run.problem
    assert isinstance(of_run(CALM + more, None), RunPlan)


@pytest.mark.parametrize(
    ("system", "more", "words"),
    [
        ("kafka:3.9.2", "config: {eligible.leader.replicas.version: 1}", ("eligible.leader.replicas.version", "3.9.2")),
        ("kafka:3.9.2", "config: {zookeeper.session.timeout.ms: 4000}", ("zookeeper.session.timeout.ms", "metadata")),
        ("kafka:4.4.0", "config: {zookeeper.session.timeout.ms: 4000}", ("zookeeper.session.timeout.ms", "4.4.0")),
        ("kafka:4.4.0", "metadata: zookeeper", ("cluster.metadata", "kafka 4.4.0", "3.9.2")),
        ("kafka", "metadata: zookeeper", ("cluster.metadata", "kafka 4.4.0", "3.9.2")),
        ("cluster:a:1", "metadata: zookeeper", ("cluster.metadata", "cluster")),
    ],
)
def test_what_a_version_lacks_is_refused_by_name(system: str, more: str, words: tuple[str, ...]) -> None:
    run = of_run(CALM + f"cluster: {{{more}}}", system)
    assert isinstance(run, Refused)
    assert_names(run.problem, *words)


def test_kafka_on_zookeeper_refuses_settings_of_a_quorum() -> None:
    zookeeper = "cluster: {metadata: zookeeper, config: {broker.session.timeout.ms: 3000}}"
    run = of_run(CALM + zookeeper, "kafka:3.9.2")
    assert isinstance(run, Refused)
    assert_names(run.problem, "cluster.config.broker.session.timeout.ms", "does nothing")
    assert isinstance(of_run(CALM + "cluster: {metadata: zookeeper}", "kafka:3.9.2"), RunPlan)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("metadata: zookeeper, system: kafka", ("kafka 4.4.0", "3.9.2")),
        ("metadata: zookeeper, system: {name: kafka, version: 4.0.2}", ("kafka 4.0.2", "3.9.2")),
        ("metadata: zookeeper, system: {name: kafka, version: 3.9.2}, dynamic_voters: true", ("dynamic_voters",)),
    ],
)
def test_a_suite_chooses_zookeeper_only_where_the_version_has_it(cluster: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=naming("metadata: zookeeper", *words)):
        suite(CALM + f"cluster: {{{cluster}}}")


def test_calm_under_faults_of_clocks_is_required_only_of_a_system_whose_timers_ignore_them() -> None:
    clocks = (
        "scenario: it\nnemesis: [{fault: clock, target: all nodes, offset: 1h, at: 1s, for: 1s}]\ntime: {load: 10s}\n"
    )
    asked = of_run(clocks + "require: {elections: 0, calm: true}")
    assert isinstance(asked, Refused) and "require.elections: kafka: under clock: its quorum's timers" in asked.problem
    assert "require.calm" in asked.problem
    assert isinstance(of_run(clocks), RunPlan), "the fault alone is no trouble"
    assert isinstance(of_run(clocks + "require: {elections: 0, calm: true}", None), RunPlan)


def test_a_fault_that_it_cannot_have_is_refused_at_any_depth() -> None:
    run = of_run(
        "scenario: it\nnemesis:\n  - {fault: kill, target: one broker, at: 1s, for: 1s}\n"
        "  - parallel:\n      - {fault: pause, target: b1, for: 1s}\n      - {fault: power-loss, target: b2, for: 1s}\n"
        "    at: 5s\n"
    )
    assert isinstance(run, Refused) and "power-loss: its nodes keep no ledger" in run.problem


@pytest.mark.parametrize(("system", "compared"), [(None, True), ("kafka", True), ("cluster:a:1", False)])
def test_replicas_are_compared_only_where_the_system_describes_them(system: str | None, compared: bool) -> None:
    assert suite(CALM).on_system(system).scenarios[0].compares_replicas is compared
    asked = of_run(CALM + "replicas: true", system)
    assert isinstance(asked, RunPlan) is compared
