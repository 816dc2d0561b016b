"""Acknowledged records lost when the last replica standing loses power, with and without eligible leaders (EL-01, P17).

Three replicas, min ISR 2, acks=all. One follower is cut off, then the leader of the other; the leader, alone in the
ISR, dies with what it had not synced, and returns. The scenarios of `suites/last-replica-standing.yaml` in simulation:
with eligible leader replicas (KIP-966) the follower that left last leads and nothing is lost; without, the controller
waits for the one that lost its records. A kill alone loses nothing in either case: it is the disk that matters.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.simulation.run.run import SimOptions, SimResult, simulate
from squall.harness.simulation.run.scenarios import find_scenario

SUITES = Path(__file__).resolve().parents[2] / "suites"
ARMS = {
    "power loss, eligible leaders": "last-replica-standing",
    "kill, eligible leaders": "last-replica-standing-kill",
    "power loss, none": "last-replica-standing-elr-off",
    "kill, none": "last-replica-standing-kill-elr-off",
}
LOSES = "power loss, none"
SEEDS, SEEDS_SHORT = 5, 1
_LOST = re.compile(r"lost_write \((\d+)\)|(\d[\d ,]*) acknowledged records are missing")


def lost_in(result: SimResult) -> int:
    """The acknowledged records that final reads lack, by the checker's own words."""
    found = _LOST.search(result.problem)
    return 0 if found is None else int(re.sub(r"\D", "", found.group(1) or found.group(2)))


def run(short: bool = False) -> Iterator[Measurement]:
    """Run each scenario with some seeds, judged by what clients saw, as on hosts."""
    for arm, name in ARMS.items():
        scenario, _ = find_scenario(name, SUITES)
        seeds = range(1, 1 + (SEEDS_SHORT if short else SEEDS))
        yield figure(arm, [simulate(scenario, seed, SimOptions(observed=False)) for seed in seeds])


def figure(arm: str, results: Sequence[SimResult]) -> Measurement:
    """The records lost by the seeds of one arm. A run that proves nothing is no measurement."""
    unproven = [one.problem for one in results if one.verdict == "unknown"]
    assert not unproven, "\n".join(unproven)
    lost = tuple(float(lost_in(one)) for one in results)
    loses = arm == LOSES
    return Measurement(
        f"acknowledged and lost: {arm}", statistics.median(lost), "records", must=1 if loses else 0,
        higher_is_better=loses, samples=lost,
        reference="what was not synced (prototype: 500 of 500)" if loses else "0 (source)",
    )  # fmt: skip


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: records lost in each case."""
    found = by_name(measurements)
    values = {"lost": [found[f"acknowledged and lost: {arm}"].measured for arm in ARMS]}
    title = "Acknowledged records lost when the last replica standing dies"
    return {"last-replica-standing": bars(title, list(ARMS), values, "records", "")}
