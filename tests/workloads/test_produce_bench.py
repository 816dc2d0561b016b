"""The workload `produce-bench`: due by the clock whatever the system does, and both latencies told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from squall.harness.run.bench_report import BENCH_FILE, told_and_kept
from squall.harness.scenario.interpreter import Interpreter
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import ACKNOWLEDGED, SimOptions, simulate
from squall.harness.simulation.world.kernel import Kernel
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.synthetic.forge import forge_run, healthy
from squall.workloads.core.generator import NANOSECONDS
from squall.workloads.core.latency import SendLatencies
from squall.workloads.core.operation import OK, Completion, Event, Operation
from squall.workloads.produce_bench import BenchResult, ProduceBenchOptions, ProduceBenchWorkload
from squall.workloads.workload import workload_of

SECOND = NANOSECONDS


def workload(**options: object) -> ProduceBenchWorkload:
    made = workload_of(
        ProduceBenchOptions.model_validate({"name": "produce-bench", "producers": 1, **options}), {"events": 1}
    )
    assert isinstance(made, ProduceBenchWorkload)
    return made


class Stalling:
    """Answers at once, but for a stall: what is asked during it is answered at its end."""

    def __init__(self, kernel: Kernel, begins: float, ends: float) -> None:
        self.kernel = kernel
        self.begins = begins
        self.ends = ends

    async def open(self) -> None: ...
    async def setup(self) -> None: ...
    async def teardown(self) -> None: ...
    async def close(self) -> None: ...

    async def invoke(self, operation: Operation) -> Completion:
        now = self.kernel.now / 1e6
        if self.begins <= now < self.ends:
            await asyncio.sleep(self.ends - now)
        return Completion(OK, offset=0)


def run_for(
    seconds: float,
    plan: ProduceBenchWorkload,
    client_of: Callable[[Kernel], Stalling],
    *,
    worker: int = 0,
    workers: int = 1,
) -> list[Event]:
    """The events of a worker's load against one client, in virtual time."""
    kernel = Kernel()
    events: list[Event] = []
    client = client_of(kernel)

    class Clock:
        def now_ns(self) -> int:
            return kernel.now * 1000

    async def load() -> None:
        shard = plan.shard(worker, workers)
        threads = [thread for one in shard.clients for thread in one.threads]
        interpreter = Interpreter(
            shard.generator,
            dict.fromkeys(threads, client),
            dict.fromkeys(threads, 0),
            clock=Clock(),
            record=events.append,
            total_threads=plan.total_threads,
        )
        running = asyncio.get_running_loop().create_task(interpreter.run())
        await asyncio.sleep(seconds)
        interpreter.stop()
        await running

    kernel.run_until_complete(load())
    return events


def latencies_of(events: list[Event]) -> SendLatencies:
    sends = SendLatencies()
    for event in events:
        sends.note(event)
    return sends


def test_nothing_is_left_out_of_a_stall_however_long_it_is() -> None:
    events = run_for(30.0, workload(rate=100, in_flight=10), lambda kernel: Stalling(kernel, 5.0, 25.0))
    begun = [event.operation.at for event in events if event.completion is None]
    steps = {after - before for before, after in pairwise(begun)}
    assert steps == {SECOND // 100}, "every one that was due was begun, and counts from when it was due"
    assert len(begun) in (3000, 3001)


def test_intended_latency_has_the_stall_and_service_latency_hides_most_of_it() -> None:
    events = run_for(30.0, workload(rate=100, in_flight=10), lambda kernel: Stalling(kernel, 5.0, 15.0))
    sends = latencies_of(events)
    intended, service = sends.intended.quantile(0.8), sends.service.quantile(0.8)
    assert intended is not None and service is not None
    assert intended > 3 * SECOND, "a third of all sends was due during the stall"
    assert service < SECOND / 100, "ten of them were in flight; the others had not begun"
    assert sends.intended.quantile(1.0) == pytest.approx(10 * SECOND, rel=0.05)


def test_random_arrivals_keep_the_rate_and_are_not_even() -> None:
    plan = workload(rate=100, in_flight=50, arrivals="poisson")
    events = run_for(60.0, plan, lambda kernel: Stalling(kernel, 0.0, 0.0))
    begun = [event.operation.at / SECOND for event in events if event.completion is None]
    gaps = [after - before for before, after in pairwise(begun)]
    assert mean(gaps) == pytest.approx(0.01, rel=0.05)
    assert mean(gap**2 for gap in gaps) / mean(gaps) ** 2 == pytest.approx(2.0, rel=0.1), "as exponential gaps have it"


def due_times(worker: int) -> list[int]:
    """When the sends of one of two workers are due."""
    plan = workload(rate=100, producers=2, in_flight=50, arrivals="poisson")
    events = run_for(5.0, plan, lambda kernel: Stalling(kernel, 0.0, 0.0), worker=worker, workers=2)
    return [event.operation.at for event in events if event.completion is None]


def test_workers_do_not_send_at_the_same_moments() -> None:
    """Else all of them together would send in bursts, which is no Poisson process."""
    one, other = due_times(0)[1:], due_times(1)[1:]
    assert len(one) > 100 and len(other) > 100
    assert not set(one) & set(other)


def test_random_arrivals_of_a_worker_are_the_same_every_time() -> None:
    assert due_times(1) == due_times(1)


def result(begun: int, acknowledged: int) -> BenchResult:
    sends = SendLatencies(begun=begun)
    for _ in range(acknowledged):
        sends.intended.note(2_000_000)
        sends.service.note(1_000_000)
    return BenchResult(100.0, 10.0, sends)


def test_both_latencies_are_told_side_by_side() -> None:
    rates, intended, service = result(1000, 1000).lines()
    assert rates == "due 1 000 · begun 1 000 · acknowledged 1 000 (100/s of 100/s)"
    assert intended.startswith("intended") and "p99.9 2.0" in intended
    assert service.startswith("service") and "p50 1.0" in service


def test_what_never_had_its_turn_is_told() -> None:
    told = result(400, 400)
    assert told.never_begun == 600
    assert told.lines()[-1].startswith("600 sends were due and never begun")
    assert len(result(995, 995).lines()) == 3, "the last few are always under way"


def scenario(workload: dict[str, object]) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "bench",
            "cluster": {"topics": {"events": {"partitions": 2, "replication_factor": 3, "min_insync_replicas": 2}}},
            "workload": workload,
            "fault_free": True,
            "time": {"load": "5s", "settle": "10s"},
            "min_acknowledged": 100,
        }
    )


def test_figures_stay_in_the_runs_directory_and_other_workloads_have_none(tmp_path: Path) -> None:
    bench = scenario({"name": "produce-bench", "rate": "100/s"})
    lines = told_and_kept(bench, result(1000, 1000).latencies, 10.0, tmp_path)
    assert lines[0].startswith("bench  due 1 000") and lines[1].startswith("       intended")
    assert '"never_begun": 0' in (tmp_path / BENCH_FILE).read_text()
    assert told_and_kept(scenario({"name": "log"}), SendLatencies(), 10.0, tmp_path) == []


def test_its_history_is_judged_like_any_other() -> None:
    bench = scenario({"name": "produce-bench", "rate": "100/s", "producers": 1})
    healthy = simulate(bench, 1, SimOptions())
    assert (healthy.verdict, healthy.problem) == ("valid", "")
    assert healthy.counts[ACKNOWLEDGED] >= 490


def test_the_report_of_a_run_shows_its_figures(tmp_path: Path) -> None:
    """Both latencies with each quantile, and what was due, begun and acknowledged."""
    run = forge_run(tmp_path / "run", healthy(1))
    latencies = SendLatencies()
    for value in (1_000_000, 2_000_000, 77_770_000):
        latencies.intended.note(value)
        latencies.service.note(value // 2)
        latencies.begun += 1
    (run / BENCH_FILE).write_text(json.dumps(BenchResult(4.0, 1.0, latencies).to_json()))
    check_run(run, InProcess())
    page = (run / "report.html").read_text()
    section = page[page.index('id="bench"') : page.index('id="timeline"')]
    figures = ("4 sends were due", "3 acknowledged", "3/s of 4/s", "77.95 ms", "39.23 ms")
    for words in ("intended", "service", "p99.9", *figures):
        assert words in section, section


def test_the_report_of_another_run_has_no_figures_of_a_benchmark(tmp_path: Path) -> None:
    run = forge_run(tmp_path / "run", healthy(1))
    (run / BENCH_FILE).write_text("{")
    check_run(run, InProcess())
    assert 'id="bench"' not in (run / "report.html").read_text()
