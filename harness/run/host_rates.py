"""Make values of what agents answer: rates of two counters, levels, sums over labels.

A rate needs two answers about the same process: the counters of a node that was started anew begin at zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from squall.harness.loopback.scraping import Line

Answer = Mapping[str, Any]
Timed = tuple[float, Answer]

TAIL: Final = "0.99"
COUNTER: Final = "_total"


def sampled_values(before: Answer | None, now: Answer) -> dict[str, float]:
    """Return the values of an answer of `probe.samples`, given the one before."""
    values: dict[str, float] = {}
    process, machine, network = now["process"], now["machine"], now["network"]
    if process is not None:
        values["process_memory"] = process["resident_bytes"]
    then = None if before is None else (before["at_s"], before)
    at = now["at_s"]
    if then is not None and _same_process(then[1]["process"], process):
        names = {"cpu_s": "process_cpu", "read_bytes": "process_read", "written_bytes": "process_written"}
        values |= _rates((then[0], then[1]["process"]), (at, process), names)
    if then is not None and network is not None and then[1]["network"] is not None:
        names = {"received_bytes": "network_received", "sent_bytes": "network_sent"}
        values |= _rates((then[0], then[1]["network"]), (at, network), names)
    if now["shared"]:  # the machine is the control node's, which is sampled itself
        return values
    return values | machine_rates(None if then is None else (then[0], then[1]["machine"]), (at, machine))


def machine_rates(before: Timed | None, now: Timed) -> dict[str, float]:
    """Return the values of a whole machine, given its counters before."""
    memory = now[1]["memory_bytes"]
    values: dict[str, float] = {} if memory is None else {"machine_memory": memory}
    if before is None:
        return values
    names = {"busy_s": "machine_cpu", "stolen_s": "machine_stolen"}
    names |= {"read_bytes": "machine_read", "written_bytes": "machine_written"}
    return values | _rates(before, now, names)


def metric_values(before: tuple[float, Sequence[Line]] | None, now: tuple[float, Sequence[Line]]) -> dict[str, float]:
    """Return the values of a node's metrics: counters as rates, of summaries the 99th percentile."""
    levels = _levels(now[1])
    values = {name: value for name, value in levels.items() if not name.endswith(COUNTER)}
    if before is not None and now[0] > before[0]:
        earlier = _levels(before[1])
        for name, value in levels.items():
            if name.endswith(COUNTER) and name in earlier and value >= earlier[name]:
                values[f"{name.removesuffix(COUNTER)}_per_s"] = (value - earlier[name]) / (now[0] - before[0])
    return values


def _levels(lines: Sequence[Line]) -> dict[str, float]:
    """Add up the lines of a metric over its labels. NaN means that there is no value."""
    sums: defaultdict[str, float] = defaultdict(float)
    for one in lines:
        quantile = one.labels.get("quantile")
        if one.value == one.value and quantile in (None, TAIL):
            sums[one.name if quantile is None else f"{one.name}_p99"] += one.value
    return dict(sums)


def _same_process(before: Answer | None, now: Answer | None) -> bool:
    if before is None or now is None:
        return False
    return (before["pid"], before["started"]) == (now["pid"], now["started"])


def _rates(before: Timed, now: Timed, names: Mapping[str, str]) -> dict[str, float]:
    """Return the rates of counters that both have. A counter that fell was reset, and has no rate."""
    seconds = now[0] - before[0]
    if seconds <= 0:
        return {}
    pairs = {name: (before[1].get(counter), now[1].get(counter)) for counter, name in names.items()}
    return {
        name: (later - earlier) / seconds
        for name, (earlier, later) in pairs.items()
        if earlier is not None and later is not None and later >= earlier
    }
