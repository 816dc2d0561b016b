"""Suites as people write them, and what they are told when something in one is wrong."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.suite import Suite, load_suite, read_suite, suite_schema
from squall.harness.yaml_source import parse_yaml
from tests.facts import naming

SUITES = sorted((Path(__file__).resolve().parent.parent.parent.parent / "suites").glob("*.yaml"))

MINIMAL = """\
scenario: one
nemesis:
  - {fault: kill, target: one broker, at: 5s}
"""


def suite(text: str) -> Suite:
    return read_suite(parse_yaml(textwrap.dedent(text), "suite.yaml"), Path("suite.yaml"))


def complaint(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        suite(text)
    return str(caught.value)


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_every_suite_of_the_project_can_be_read(path: Path) -> None:
    assert load_suite(path).scenarios


def test_what_is_left_out_has_sensible_values() -> None:
    scenario = suite(MINIMAL).scenarios[0]
    assert scenario.topics == {"events": 8}
    assert (scenario.cluster.controllers, scenario.cluster.brokers) == (3, 3)
    assert str(scenario.expect) == "valid"
    assert scenario.checks == ("log", "availability")


def test_one_file_may_hold_several_scenarios() -> None:
    found = suite(
        """\
        suite: both
        scenarios:
          - {scenario: quiet, fault_free: true}
          - {scenario: noisy, nemesis: [{fault: pause, target: all brokers, at: 3s}], expect: unknown}
        """
    )
    assert [one.scenario for one in found.scenarios] == ["quiet", "noisy"]
    assert not found.single
    assert [one.scenario for one in found.only("noisy").scenarios] == ["noisy"]


def test_only_names_the_nearest_scenario() -> None:
    with pytest.raises(UsageError, match=naming("`one`")):
        suite(MINIMAL).only("onee")


def test_expect_may_name_anomalies() -> None:
    expect = suite(MINIMAL + "expect: {invalid: [lost_write]}\n").scenarios[0].expect
    assert (expect.verdict, expect.anomalies) == ("invalid", ("lost_write",))


def test_a_scenario_may_run_with_several_seeds() -> None:
    assert suite(MINIMAL + "repeat: 3\n").scenarios[0].seeds_from(10) == (10, 11, 12)
    assert suite(MINIMAL + "seeds: [4, 9]\n").scenarios[0].seeds_from(10) == (4, 9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MINIMAL + "expct: valid\n", "suite.yaml:4: expct: unknown key; did you mean `expect`?"),
        (MINIMAL + "workload: {name: log, rate: fast}\n", 'workload.rate: "fast" is not a rate, such as 2000/s'),
        (MINIMAL + "workload: {producers: 0}\n", "workload.producers"),
        (MINIMAL + "workload: {name: metdata}\n", 'workload.name: "metdata" is not known; did you mean `metadata`?'),
        (
            MINIMAL + "workload: {name: metadata, producers: 2}\n",
            "workload.producers: unknown key; did you mean `processes`",
        ),
        (
            MINIMAL + "workload: {name: idempotence, client: confluent, cut_every: 3}\n",
            "workload.cut_every: only connections of `client: native` can be cut; let faults cut those of confluent",
        ),
        (MINIMAL + "cluster: {mutants: [ack-before-replicatoin]}\n", "did you mean `ack-before-replication`?"),
        (MINIMAL + "checks: [logs]\n", "did you mean `log`?"),
        (MINIMAL + "time: {load: -3s}\n", "must be longer than 0 s"),
        (MINIMAL + "expect: {valid: [lost_write]}\n", "only an invalid history has any"),
        (MINIMAL + "fault_free: true\n", "faults are listed under nemesis"),
        (MINIMAL + "repeat: 2\nseeds: [1]\n", "give either seeds or repeat"),
        ("scenario: one\n", "set `fault_free: true`"),
        ("scenario: One Two\nfault_free: true\n", "scenario"),
        (
            MINIMAL + "cluster: {brokers: 2, topics: {events: {}}}\n",
            "cluster.topics.events.replication_factor: 3 replicas need as many brokers; the cluster has 2",
        ),
        (
            MINIMAL + "cluster: {topics: {events: {min_insync_replicas: 4}}}\n",
            "min_insync_replicas 4 is more than replication_factor 3",
        ),
        ("scenario: one\nnemesis:\n  - {fault: kil, target: one broker, at: 5s}\n", "kil"),
        ("scenarios:\n  - {scenario: a, fault_free: true}\n  - {scenario: a, fault_free: true}\n", "given twice"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_remedy(text: str, said: str) -> None:
    assert said in complaint(text)
    assert complaint(text).startswith("suite.yaml:")


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_suite(tmp_path / "none.yaml")


def test_the_schema_is_json_and_names_the_keys() -> None:
    text = json.dumps(suite_schema())
    assert all(f'"{key}"' in text for key in ("scenario", "nemesis", "rate", "for", "expect"))


REQUIRING = """
scenario: it
cluster:
  topics:
    events: {partitions: 2}
    rest: {partitions: 100, load: false}
fault_free: true
require:
  rate: {during: [10s, 70s], at_least: 0.9, compared_with: [0, 10s]}
  silence: [71s, 129s]
  longest_gap: 1s
"""


def test_a_suite_states_rules_of_availability_for_the_checker(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(REQUIRING)
    stated = load_suite(path).scenarios[0].require.stated()
    assert stated.rate is not None and stated.rate.compared_with == (0.0, 10.0)
    assert (stated.silence, stated.longest_gap) == ((71.0, 129.0), 1.0)


def test_a_window_that_ends_before_it_begins_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(REQUIRING.replace("[71s, 129s]", "[129s, 71s]"))
    with pytest.raises(UsageError, match="ends at 71 s, before it begins"):
        load_suite(path)


def test_a_gap_may_count_in_a_part_of_the_load_only(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(REQUIRING + "  gap_during: [58s, 280s]\n")
    assert load_suite(path).scenarios[0].require.stated().gap_during == (58.0, 280.0)
    path.write_text(REQUIRING.replace("longest_gap: 1s", "gap_during: [58s, 280s]"))
    with pytest.raises(UsageError, match="but no longest_gap"):
        load_suite(path)


def test_topics_may_be_there_without_load(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(REQUIRING)
    scenario = load_suite(path).scenarios[0]
    assert scenario.loaded_topics == {"events": 2}
    assert scenario.topics == {"events": 2, "rest": 100}
