"""The project's scenarios in simulation: healthy nodes are valid in each of them, on every seed.

One seed in CI of all but the longest, twenty in `make test-full`. These are also the healthy twins of the mutants in
test_matrix.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest

from squall.harness.cli.simulation.simulate import told
from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.observer.invariants import Observer
from squall.harness.simulation.run.parallel import simulate_many
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.world.process import SimProcess
from squall.results.check import verdict_of
from squall.results.history.history import History
from squall.results.history.manifest import Manifest
from squall.results.history.segments import FUNCTIONS, TYPES
from squall.workloads.clients.common.client import GENERATION_STRIDE
from squall.workloads.core.operation import Event
from squall.workloads.log import LogOptions

SUITES = Path(__file__).resolve().parents[4] / "suites"

# Made for hosts: many records in real time, which take long to simulate and find nothing that the others do not.
ON_HOSTS = {
    *("any-cluster", "baseline-quiet", "follower-damage", "idle-nemesis", "partitions", "quickstart", "smoke"),
    *("zookeeper-one-server", "zookeeper-three-servers"),
    *("zookeeper-reordered-requests", "zookeeper-reordered-requests-three-servers"),
    "control-listener-backlog-three-servers",
}
LONGEST_LOAD_SECONDS = 60


def is_for_simulation(scenario: Scenario) -> bool:
    """Whether it is about one kind of trouble on our own nodes, short, without mutants, and expected to be valid."""
    cluster = scenario.cluster
    if not cluster.system.ours or cluster.mutants or scenario.expect.verdict != "valid" or scenario.swarm:
        return False
    return scenario.time.load <= LONGEST_LOAD_SECONDS and scenario.scenario not in ON_HOSTS


def healthy() -> list[Scenario]:
    found = [scenario for path in sorted(SUITES.glob("*.yaml")) for scenario in load_suite(path).own]
    return [one for one in found if is_for_simulation(one)]


# Those that take longest. Each exercises for longer what shorter ones exercise, or runs in the lab's tests as well.
LONG = {
    "control-listener-backlog",
    "control-listener-backlog-off",
    "control-listener-backlog-rejected",
    "failure-ladder-brokers",
    "failure-ladder-controllers",
    "leader-kill-lagging",
    "leader-kill-loop",
    "minority-active-controller",
    "reassign-chaos",
    "restless-clients",
    "rolling-controlled-shutdown",
    "two-hop-failover",
    "zombie-leader",
    "zookeeper-failures",
    "zookeeper-isr-limbo",
    "zookeeper-late-fetch-answer",
    "zookeeper-late-isr",
    "zookeeper-late-orders",
    "zookeeper-late-update",
    "zookeeper-rolling-restart",
    "zookeeper-starved-follower",
}
HEALTHY = healthy()
BY_NAME = [pytest.param(scenario, id=scenario.scenario) for scenario in HEALTHY]

# Those that a test below runs on the same seed, and finds valid, to look at more.
LOOKED_AT = {"clock-skew", "deposed-log-end", "last-replica-standing"}
IN_CI = [
    pytest.param(scenario, id=scenario.scenario, marks=[pytest.mark.full] * (scenario.scenario in LONG | LOOKED_AT))
    for scenario in HEALTHY
]


def test_no_two_scenarios_have_the_same_name() -> None:
    """They are found by name alone."""
    names = [one.scenario for path in sorted(SUITES.glob("*.yaml")) for one in load_suite(path).own]
    assert not [name for name in names if names.count(name) > 1]


def test_the_scenarios_of_issue_3_are_here() -> None:
    """P02, P03, P05, P11, P13, P15, P17 with its control, P18."""
    assert {
        "leader-kill-loop",
        "zombie-leader",
        "two-hop-failover",
        "metadata-starved-follower",
        "isr-limbo-shrink",
        "isr-limbo-expand",
        "wiped-disk-fast-rejoin",
        "fenced-follower-proposed",
        "last-replica-standing",
        "last-replica-standing-kill",
        "last-replica-standing-kill-elr-off",
        "failure-ladder-brokers",
        "failure-ladder-controllers",
    } <= {scenario.scenario for scenario in HEALTHY}


@pytest.mark.parametrize("scenario", IN_CI)
def test_healthy_nodes_are_valid(scenario: Scenario) -> None:
    found = simulate(scenario, 1)
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    assert not [fault for fault in found.faults if " unproven " in fault]


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param("control-plane", 15, marks=pytest.mark.full),
        pytest.param("control-plane", 23, marks=pytest.mark.full),
        pytest.param("control-plane", 107, marks=pytest.mark.full),
        ("kitchen-sink", 393),
    ],
)
def test_seeds_that_were_invalid_once_are_valid(name: str, seed: int) -> None:
    """15: a disk was wiped when, after an operator's change of min ISR, nobody but its broker was known to have all.
    23: the observer took it amiss that a broker which led nothing was let go while others still knew its deleted topic.
    393: the observer took what a snapshot had replaced for what was committed then.
    107: a disk was robbed while another broker, about to crash, counted as back.
    """
    (scenario,) = load_suite(SUITES / f"{name}.yaml").only(name).scenarios
    found = simulate(scenario, seed)
    assert found.verdict == "valid", told(found, name, SimOptions())


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", BY_NAME)
def test_healthy_nodes_are_valid_on_twenty_seeds(scenario: Scenario) -> None:
    wrong = [one for one in simulate_many(scenario, range(1, 21), processes=2) if one.verdict != "valid"]
    assert not wrong, "\n".join(told(one, scenario.scenario, SimOptions()) for one in wrong)


def scenario_of(suite: str, name: str) -> Scenario:
    (found,) = load_suite(SUITES / f"{suite}.yaml").only(name).scenarios
    return found


class Blindfold(Observer):
    """Notes how logs are opened and asserts nothing, so that a run goes to its end and the checkers judge it."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self.opened: list[int] = []

    def event(self, name: str, **fields: object) -> None:
        if name == "log_opened" and str(fields["log"]).endswith("events-0"):
            self.opened.append(int(fields["end"]))  # type: ignore[call-overload]

    def look(self, process: SimProcess) -> None: ...

    def client_event(self, event: Event, number: int = 0, at: int = 0) -> None: ...

    def final(self) -> None: ...


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_without_elr_exactly_what_the_last_replica_had_not_synced_is_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N09, the documented limit of Kafka before KIP-966, and the reason why P17 means something."""
    observers: list[Blindfold] = []

    def blindfolded(**options: bool) -> Blindfold:
        observers.append(Blindfold(**options))
        return observers[-1]

    monkeypatch.setattr("squall.harness.simulation.run.run.Observer", blindfolded)
    scenario = scenario_of("last-replica-standing", "last-replica-standing-elr-off")
    found = simulate(scenario, seed, SimOptions(keep=tmp_path))
    assert found.verdict == "invalid" and "lost_write" in found.broken, found.problem

    synced = observers[0].opened[-1]
    assert synced > 0, f"seed {seed}: nothing was synced, so that this would show nothing"
    table = History.load(tmp_path / f"seed-{seed}").table
    rows = list(zip(*(table[name].to_pylist() for name in ("f", "type", "value", "offset", "values")), strict=True))
    sends = [(value, offset) for f, kind, value, offset, _ in rows if (f, kind) == (FUNCTIONS["send"], TYPES["ok"])]
    read = {value for f, _, _, _, values in rows if f == FUNCTIONS["final_poll"] for value in values or ()}
    lost = {offset for value, offset in sends if value not in read}
    assert lost == set(range(synced, max(lost) + 1)), f"seed {seed}: synced to {synced}, lost {sorted(lost)}"


def test_with_elr_nothing_of_it_is_lost() -> None:
    """P17, on the same seeds: valid, and not because the power loss took nothing."""
    found = simulate(scenario_of("last-replica-standing", "last-replica-standing"), 1)
    assert found.verdict == "valid", told(found, "last-replica-standing", SimOptions())
    assert not [fault for fault in found.faults if " unproven " in fault]
    (loss,) = [fault for fault in found.faults if "power-loss" in fault and " proven " in fault]
    assert " and 0 bytes" not in loss, loss


def test_clients_delete_records_list_offsets_and_alter_topics_under_load(tmp_path: Path) -> None:
    """Clients produce with retries and idempotence, fetch, and do admin operations."""
    scenario = Scenario.model_validate(
        {
            "scenario": "busy-clients",
            "cluster": {"topics": {"events": {"partitions": 2}}, "config": {"default.replication.factor": 3}},
            "workload": {
                "name": "log", "producers": 1, "consumers": 2, "rate": "40/s", "in_flight": 2,
                "list_offsets": 0.1, "delete_records": 0.05, "admin": "2/s",
            },
            "nemesis": [{"fault": "kill", "target": "leader of events/0", "at": "4s", "for": "2s"}],
            "time": {"load": "12s", "settle": "20s"},
            "min_acknowledged": 100,
        }
    )  # fmt: skip
    found = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, "busy-clients", SimOptions())
    table = History.load(tmp_path / "seed-1").table
    done = set(zip(table["f"].to_pylist(), table["type"].to_pylist(), strict=True))
    for name in ("list_offsets", "delete_records", "create_topic", "create_partitions", "delete_topic"):
        assert (FUNCTIONS[name], TYPES["ok"]) in done, name
    assert max(start or 0 for start in table["log_start"].to_pylist()) > 0, "no log began later"


def test_clients_that_crash_and_go_back_do_so_and_lose_nothing(tmp_path: Path) -> None:
    """Crash and reopen clients; seek. Beside `test_healthy_nodes_are_valid`: that it was done at all."""
    found = simulate(scenario_of("restless-clients", "restless-clients"), 2, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, "restless-clients", SimOptions())
    table = History.load(tmp_path / "seed-2").table
    done = Counter(zip(table["f"].to_pylist(), table["type"].to_pylist(), strict=True))
    assert done[FUNCTIONS["seek"], TYPES["ok"]] > 10 and done[FUNCTIONS["reopen"], TYPES["ok"]] > 10
    reopened = table.filter(pc.equal(table["f"], FUNCTIONS["reopen"]))
    assert min(reopened["client"].to_pylist()) >= GENERATION_STRIDE, "another client took its place"
    polls = table.filter(pc.and_(pc.equal(table["f"], FUNCTIONS["poll"]), pc.equal(table["type"], TYPES["ok"])))
    assert len(set(zip(polls["client"].to_pylist(), polls["session"].to_pylist(), strict=True))) > 10


def test_a_leader_deposed_without_knowing_it_states_old_log_ends_and_may(tmp_path: Path) -> None:
    """HX-07: of records that it appended itself and that its successor committed, served as of its own epoch."""
    scenario = scenario_of("deposed-log-end", "deposed-log-end")
    found = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    assert not [fault for fault in found.faults if " unproven " in fault]
    assert verdict_of(tmp_path / "seed-1").coverage.stale_log_ends > 0, "it had to state some"


# -- the control plane ------------------------------------------------------------------------------------------------


def test_the_scenarios_of_issue_4_are_here() -> None:
    """P07, P08, P09 and P12; P06 is longer than a minute and tested below."""
    assert {
        "minority-active-controller",
        "voter-crash-storm",
        "split-vote-crash",
        "lagging-voter",
        "figure8-metadata",
        "quorum-power-loss",
        "clock-skew",
    } <= {scenario.scenario for scenario in HEALTHY}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_clocks_that_are_wrong_cause_no_election_and_fence_nobody(seed: int) -> None:
    """P12, FD-05: timers run on monotonic time alone."""
    scenario = scenario_of("clock-skew", "clock-skew")
    undisturbed = scenario.model_copy(update={"nemesis": (), "fault_free": True})
    found, twin = simulate(scenario, seed), simulate(undisturbed, seed)
    assert found.verdict == "valid", told(found, "clock-skew", SimOptions())
    assert not [fault for fault in found.faults if " unproven " in fault]
    names = ("elections", "leader changes", "ISR changes", "ELR changes")
    assert {name: found.counts[name] for name in names} == {name: twin.counts[name] for name in names}, f"seed {seed}"
    assert found.counts["elections"] == 1, f"seed {seed}"


def acknowledged_between(run: Path, first: float, last: float) -> int:
    """Sends acknowledged from second `first` of the load to second `last`."""
    start = Manifest.load(run).load_started or 0
    table = History.load(run).table
    rows = zip(*(table[name].to_pylist() for name in ("f", "type", "completed")), strict=True)
    done = [(at - start) / 1e9 for f, kind, at in rows if (f, kind) == (FUNCTIONS["send"], TYPES["ok"])]
    return sum(first <= at < last for at in done)


BLACKOUT_RATE = 100
"""Sends per second in simulation, where the suite's 1000 would take minutes and processors are never busy."""


def blackout(*further: dict[str, object]) -> Scenario:
    """P06 at that rate, with further faults."""
    scenario = scenario_of("control-plane-blackout", "control-plane-blackout")
    assert isinstance(scenario.workload, LogOptions)
    assert scenario.workload.rate >= 1000, "at a few records a second a claim about the rate could not fail"
    changed = scenario.model_dump() | {"min_acknowledged": 1000}
    changed["workload"]["rate"] = BLACKOUT_RATE
    changed["nemesis"] = [*changed["nemesis"], *further]
    return Scenario.model_validate(changed)


@pytest.mark.timeout(300)
def test_without_controllers_clients_notice_nothing_until_a_follower_dies(tmp_path: Path) -> None:
    """P06, DP-10, DA-02: afterwards its topic-partitions acknowledge nothing, until the quorum has decided."""
    scenario = blackout()
    found = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    run = tmp_path / "seed-1"
    assert acknowledged_between(run, 11, 70) >= 0.9 * BLACKOUT_RATE * 59
    assert acknowledged_between(run, 72, 130) == 0, "every topic-partition has the dead follower in its ISR"
    assert acknowledged_between(run, 140, 150) > 0, "the quorum is back, and has taken it out"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_claim_that_clients_notice_nothing_can_fail(tmp_path: Path) -> None:
    """P06: a leader that sleeps for ten of the sixty seconds costs a sixth of the rate, and a gap of ten seconds."""
    asleep = {"fault": "pause", "target": "leader of events/0", "at": 30.0, "for": 10.0}
    found = simulate(blackout(asleep), 1, SimOptions(keep=tmp_path))
    assert found.verdict == "invalid"
    verdict = verdict_of(tmp_path / "seed-1")
    broken = [one.text for one in verdict.statements if one.holds is False]
    assert len(broken) == 2 and not verdict.anomalies, (broken, verdict.anomalies)
