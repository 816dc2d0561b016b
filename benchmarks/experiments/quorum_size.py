"""Commit latency with three and five voters, one of them slow, beside data with one slow replica (FM-03, FM-04).

Simulated nodes. Metadata: a client writes ten times a second to three and to five controllers, with no slow voter,
with one and with two whose links are 200 ms slower; from the leader's trace, append to commit. Data: a producer with
acks=all to three replicas in sync, before and while one follower's links are 200 ms slower.

The source claims that metadata can afford more replicas, since a quorum waits for the fastest majority, while data
waits for all that are in sync; and that this is why metadata, which is sensitive to latency, uses a quorum.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.experiments.parts.quorum_course import QuorumCourse
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.scenario.suite import Scenario
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.results.history.history import History
from squall.results.history.segments import FUNCTIONS, TYPES

SLOW_S = 0.2
EVERY_S = 0.1
SECONDS, SECONDS_SHORT = 60.0, 4.0
QUORUMS = ((3, 0), (3, 1), (5, 0), (5, 1), (5, 2))
"""Voters, and slow ones among the followers."""
SLOW_FROM_S, SLOW_FOR_S, LOAD_S = 6, 10, 18


def commit_times(voters: int, slow: int, seconds: float, seed: int = 1) -> list[float]:
    """Milliseconds from each append at the leader until it is committed."""
    course = QuorumCourse(voters, seed).start()
    for host in course.followers()[:slow]:
        course.slow(host, SLOW_S)
    course.run(3.0)
    began = course.kernel.now
    leader = next(node for node, name in course.names.items() if name == course.leader)
    course.write(seconds, EVERY_S)
    events = [one for one in course.trace.events if one.at >= began and one.fields.get("node") == leader]
    course.close()
    times, waiting = [], []
    for one in events:
        if one.name == "append":
            waiting.append((one.at, one.number("last")))
        elif one.name == "high_watermark":
            offset = one.number("offset")
            times += [(one.at - at) / 1000 for at, last in waiting if last < offset]
            waiting = [entry for entry in waiting if entry[1] >= offset]
    return times


def one_slow_replica() -> Scenario:
    slow = {"fault": "slow-link", "target": "one follower of events/0", "to": "all brokers", "latency": "200ms"}
    return Scenario.model_validate(
        {
            "scenario": "one-slow-replica",
            "cluster": {
                "topics": {"events": {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 2}},
                "config": {"replica.lag.time.max.ms": 10_000},
            },
            "workload": {"name": "log", "producers": 1, "consumers": 1, "rate": "20/s", "in_flight": 1},
            "nemesis": [{**slow, "at": f"{SLOW_FROM_S}s", "for": f"{SLOW_FOR_S}s"}],
            "time": {"load": f"{LOAD_S}s", "settle": "20s"},
            "min_acknowledged": 50,
        }
    )


def send_times() -> tuple[list[float], list[float]]:
    """Milliseconds of acknowledged sends before one replica was slow, and while it was."""
    with tempfile.TemporaryDirectory() as folder:
        found = simulate(one_slow_replica(), 1, SimOptions(keep=Path(folder)))
        assert found.verdict == "valid", found.problem
        table = History.load(Path(folder) / "seed-1").table
        columns = (table[name].to_pylist() for name in ("f", "type", "invoked", "completed"))
        rows = [row for row in zip(*columns, strict=True) if row[0] == FUNCTIONS["send"] and row[1] == TYPES["ok"]]
    began = min(invoked for _, _, invoked, _ in rows)
    at = [((invoked - began) / 1e9, (completed - invoked) / 1e6) for _, _, invoked, completed in rows]
    before = [took for moment, took in at if moment < SLOW_FROM_S - 1]
    until = SLOW_FROM_S + SLOW_FOR_S
    return before, [took for moment, took in at if SLOW_FROM_S + 1 < moment < until - 1]


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure all quorums, then data."""
    medians: dict[tuple[int, int], float] = {}
    for voters, slow in QUORUMS:
        times = commit_times(voters, slow, SECONDS_SHORT if short else SECONDS)
        medians[voters, slow] = statistics.median(times)
        yield _median(name_of(voters, slow), times)
        yield Measurement(f"    p99, {name_of(voters, slow)}", percentile(times, 0.99), "ms")
    yield Measurement("five voters beside three", medians[5, 0] / medians[3, 0], "times", must=1.5,
                      higher_is_better=False, reference="metadata affords more replicas (source)")  # fmt: skip
    for voters, slow in ((3, 1), (5, 1), (5, 2)):
        yield Measurement(
            f"{slow} slow of {voters} beside none", medians[voters, slow] / medians[voters, 0], "times", must=1.5,
            higher_is_better=False, reference="a quorum does not wait for the slowest (source)",
        )  # fmt: skip
    before, during = send_times()
    yield _median("data: acks=all, three replicas in sync", before)
    yield Measurement(
        "data: the same, one replica slow", statistics.median(during), "ms", must=SLOW_S * 1000, samples=tuple(during),
        reference="waits for all in sync (source)",
    )  # fmt: skip


def name_of(voters: int, slow: int) -> str:
    return f"metadata: {voters} voters, {slow or 'none'} slow"


def percentile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _median(name: str, samples: Sequence[float]) -> Measurement:
    return Measurement(name, statistics.median(samples), "ms", samples=tuple(samples), higher_is_better=False)


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: the median of each quorum, and of data."""
    found = by_name(measurements)
    groups = [f"{voters} voters, {slow} slow" for voters, slow in QUORUMS] + ["data, none slow", "data, 1 slow"]
    values = [found[name_of(voters, slow)].measured for voters, slow in QUORUMS]
    values += [found["data: acks=all, three replicas in sync"].measured]
    values += [found["data: the same, one replica slow"].measured]
    title = "Median commit: metadata waits for a majority, data for all in sync (slow: +200 ms each way)"
    return {"quorum-size": bars(title, groups, {"median": values}, "ms", "", log=True)}
