"""Report what a run of the workload `produce-bench` measured: lines at the end of its load, and `bench.json`."""

from __future__ import annotations

import json
from pathlib import Path

from squall.harness.scenario.suite import Scenario
from squall.results.history.whole_file import write_whole
from squall.results.report.report import BENCH_FILE
from squall.workloads.core.latency import SendLatencies
from squall.workloads.produce_bench import BenchResult, ProduceBenchOptions


def bench_result(scenario: Scenario, latencies: SendLatencies, seconds: float) -> BenchResult | None:
    """Return the result of a load of `seconds`; None if the scenario's workload measures nothing."""
    if not isinstance(scenario.workload, ProduceBenchOptions):
        return None
    return BenchResult(scenario.workload.rate, seconds, latencies)


def told_and_kept(scenario: Scenario, latencies: SendLatencies, seconds: float, directory: Path) -> list[str]:
    """Save the figures in the run's directory. Return lines for people, none if nothing was measured."""
    result = bench_result(scenario, latencies, seconds)
    if result is None:
        return []
    write_whole(directory / BENCH_FILE, json.dumps(result.to_json(), indent=2) + "\n")
    return [f"{'bench' if number == 0 else '':<7}{line}" for number, line in enumerate(result.lines())]
