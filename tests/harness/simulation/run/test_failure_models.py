"""FM-03: the data plane waits for all in sync, the metadata quorum for a majority. A slow replica tells them apart."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from squall.harness.cli.simulation.simulate import told
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.results.history.history import History
from squall.results.history.segments import FUNCTIONS, TYPES

SLOW_S = 0.2
FROM_S, UNTIL_S = 8, 20
ADMIN = ("create_topic", "create_partitions", "delete_topic")


def with_a_slow_host(target: str, among: str) -> Scenario:
    slow = {"fault": "slow-link", "target": target, "to": among, "latency": "200ms"}
    return Scenario.model_validate(
        {
            "scenario": "one-slow-host",
            "cluster": {
                "topics": {"events": {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2}},
                "config": {"default.replication.factor": 3, "replica.lag.time.max.ms": 10_000},
            },
            "workload": {
                "name": "log", "producers": 1, "consumers": 1, "rate": "20/s", "in_flight": 1, "admin": "4/s"
            },
            "nemesis": [{**slow, "at": f"{FROM_S}s", "for": f"{UNTIL_S - FROM_S}s"}],
            "time": {"load": "24s", "settle": "20s"},
            "min_acknowledged": 50,
        }
    )  # fmt: skip


def medians(scenario: Scenario, tmp_path: Path, functions: tuple[str, ...]) -> tuple[float, float]:
    """Seconds from invocation to success: in the middle of operations before the link was slow, and while it was."""
    found = simulate(scenario, 1, SimOptions(keep=tmp_path))
    assert found.verdict == "valid", told(found, scenario.scenario, SimOptions())
    wanted = {FUNCTIONS[name] for name in functions}
    table = History.load(tmp_path / "seed-1").table
    columns = (table[name].to_pylist() for name in ("f", "type", "invoked", "completed"))
    rows = [row for row in zip(*columns, strict=True) if row[0] in wanted and row[1] == TYPES["ok"]]
    began = min(invoked for _, _, invoked, _ in rows)
    at = [((invoked - began) / 1e9, (completed - invoked) / 1e9) for _, _, invoked, completed in rows]
    before = [took for moment, took in at if moment < FROM_S - 1]
    during = [took for moment, took in at if FROM_S + 1 < moment < UNTIL_S - 1]
    assert len(before) >= 10 and len(during) >= 10
    return median(before), median(during)


def test_a_slow_replica_in_sync_slows_every_acknowledgement(tmp_path: Path) -> None:
    before, during = medians(with_a_slow_host("one follower of events/0", "all brokers"), tmp_path, ("send",))
    assert before < SLOW_S / 2
    assert during > SLOW_S


def test_a_slow_voter_slows_commits_of_metadata_only_if_it_leads(tmp_path: Path) -> None:
    rises = []
    for controller in ("c1", "c2", "c3"):
        before, during = medians(with_a_slow_host(controller, "all controllers"), tmp_path / controller, ADMIN)
        rises.append(during - before)
    flat, flat_too, risen = sorted(rises)
    assert abs(flat) < SLOW_S / 20 and abs(flat_too) < SLOW_S / 20
    assert risen > SLOW_S
