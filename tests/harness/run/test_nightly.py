"""What nightly runs do (HX-11): each scenario of the requirements is in suites/nightly.yaml, or is not for a reason."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from squall.harness.scenario.plan import plan_suite
from squall.harness.scenario.suite import Scenario, load_suite
from squall.nemesis.entries import steps_in
from squall.nemesis.registry import FAULT_NAMES, missing_verbs, only_on_hosts

SUITES = Path(__file__).resolve().parents[3] / "suites"
NIGHTLY = SUITES / "nightly.yaml"

SCENARIOS = {
    "P01": "baseline-quiet",
    "P02": "leader-kill-loop",
    "P03": "zombie-leader",
    "P04": "partition-matrix",
    "P05": "two-hop-failover",
    "P06": "control-plane-blackout",
    "P07": "minority-active-controller",
    "P08": "voter-crash-storm",
    "P09": "figure8-metadata",
    "P10": "snapshot-rejoin",
    "P11": "metadata-starved-follower",
    "P12": "clock-skew",
    "P13": "isr-limbo",
    "P14": "rolling-controlled-shutdown",
    "P15": "wiped-disk-fast-rejoin",
    "P16": "reassign-chaos",
    "P17": "last-replica-standing",
    "P18": "failure-ladder",
    "P19": "removed-voter-disruption",
    "P20": "control-listener-backlog",
    "P21": "control-listener-migration",
    "P22": "zk-baseline-safety",
    "P23": "two-million-failover",
    "P24": "nightly-kitchen-sink",
}
"""By what the suites are called that hold them."""


def included() -> set[str]:
    return set(re.findall(r"suite: ([a-z0-9-]+)\.yaml", NIGHTLY.read_text()))


def kitchen_sink() -> Scenario:
    (scenario,) = load_suite(SUITES / "nightly-kitchen-sink.yaml").scenarios
    return scenario


@pytest.mark.parametrize(("number", "name"), SCENARIOS.items())
def test_each_scenario_is_included_or_the_reason_is_given(number: str, name: str) -> None:
    there = (SUITES / f"{name}.yaml").exists()
    reason = re.search(rf"^# {number} {name}: (.+)$", NIGHTLY.read_text(), re.MULTILINE)
    assert (name in included()) == there, "a suite that exists is run at night"
    assert there != bool(reason), "what does not exist has a reason, and only that"


def test_no_suite_says_that_it_is_a_scenario_and_is_left_out() -> None:
    """Suites tell in their first line which scenario of the requirements they are."""
    first_lines = {path.stem: path.read_text().partition("\n")[0] for path in SUITES.glob("*.yaml")}
    named = {name for name, line in first_lines.items() if re.match(r"# P\d\d[ .:,]", line)}
    assert named and named <= included()


def test_hosts_can_do_all_of_it(tmp_path: Path) -> None:
    """Nothing that only the simulation does, and nothing that is wrong only once it is planned."""
    plans = list(plan_suite(load_suite(NIGHTLY), 1, tmp_path))
    assert len(plans) > len(SCENARIOS)
    assert not [fault.id for plan in plans for fault in plan.schedule.faults if missing_verbs(fault.options)]


class TestTheKitchenSink:
    def test_it_takes_half_an_hour_of_five_and_five(self) -> None:
        scenario = kitchen_sink()
        assert (scenario.cluster.controllers, scenario.cluster.brokers, scenario.time.load) == (5, 5, 1800)

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_troubles_come_one_after_the_other_with_stable_periods(self, seed: int, tmp_path: Path) -> None:
        """Eligible leader replicas outlive one loss at a time (EL-01): then a broker has to get back into the ISR."""
        (plan,) = plan_suite(load_suite(SUITES / "nightly-kitchen-sink.yaml"), seed, tmp_path)
        entries: dict[str, tuple[float, float]] = {}
        for fault in plan.schedule.faults:
            turn = fault.id.split("-")[0]
            begins, ends = entries.get(turn, (fault.at_s, fault.ends_at_s))
            entries[turn] = (min(begins, fault.at_s), max(ends, fault.ends_at_s))
        spans = sorted(entries.values())
        assert len(spans) > 75
        assert all(8 <= later[0] - earlier[1] <= 20.001 for earlier, later in pairwise(spans))
        assert spans[-1][1] <= 1770, "the last half minute is quiet"

    def test_most_kinds_of_fault_are_in_it_and_those_that_are_not_are_named(self) -> None:
        """Left out is only what the file says it leaves out."""
        (mix,) = kitchen_sink().nemesis
        used = {fault.fault for _, fault in steps_in(mix)}
        said = (SUITES / "nightly-kitchen-sink.yaml").read_text().partition("scenario:")[0]
        missing = {name for name in FAULT_NAMES if name not in used}
        assert not [name for name in missing if not re.search(rf"\b{name}\b", said)]

    def test_it_has_faults_that_only_hosts_can_have(self) -> None:
        """So the simulation has swarms instead."""
        (mix,) = kitchen_sink().nemesis
        assert any(only_on_hosts(fault) for _, fault in steps_in(mix))
