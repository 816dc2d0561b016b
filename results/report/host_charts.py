"""Make charts of what hosts and nodes used and did, from the samples of a run; a line for each host."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from squall.results.charts.chart import Axis, Chart, Series
from squall.results.checkers.kernels.series import Frame
from squall.results.history.host_samples import METRICS, HostSample, thinned
from squall.results.report.run_charts import Setting

MOST_POSITIONS: Final = 1800
METRICS_SECONDS: Final = 5
"""Nodes' own metrics are read this seldom at most; a line must not be broken between two of them."""
HEIGHT: Final = 130
TITLES: Final = {
    "process_cpu": "Processors, of the node's process",
    "process_memory": "Memory, of the node's process",
    "process_written": "Written to disk, by the node's process",
    "process_read": "Read from disk, by the node's process",
    "network_received": "Network, received by the host",
    "network_sent": "Network, sent by the host",
    "machine_cpu": "Processors, of the whole machine",
    "machine_stolen": "Processors taken by a hypervisor",
    "machine_memory": "Memory, of the whole machine",
    "machine_written": "Written to disk, by the whole machine",
    "machine_read": "Read from disk, by the whole machine",
}


def host_charts(samples: Sequence[HostSample], frame: Frame, setting: Setting) -> dict[str, Chart]:
    """Return a chart for each metric that was sampled and was ever anything but zero, by the metric's name."""
    seconds = max(1, math.ceil(setting.end / MOST_POSITIONS))
    own = [one for one in METRICS if one.startswith(("kafka_", "squall_"))]
    charts = {}
    for names, width in (
        (tuple(one for one in METRICS if one not in own), seconds),
        (own, max(METRICS_SECONDS, seconds)),
    ):
        values = _values(samples, frame, width, setting.end, names)
        for name in names:
            hosts = values.get(name, {})
            if any(value for found in hosts.values() for value in found.values()):
                charts[name] = _chart(name, hosts, width, setting)
    return charts


def _values(
    samples: Sequence[HostSample], frame: Frame, width: int, end: float, names: Sequence[str]
) -> dict[str, dict[str, dict[int, float]]]:
    """Return values by metric, host and number of the stretch, within the chart."""
    found: defaultdict[str, defaultdict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for host, second, name, value in thinned(samples, frame.start, width * 10**9, names):
        if 0 <= second <= end:
            found[name][host][round(second / width)] = value
    return {name: dict(hosts) for name, hosts in found.items()}


def _chart(name: str, hosts: dict[str, dict[int, float]], width: int, setting: Setting) -> Chart:
    metric = METRICS[name]
    numbers = range(min(min(one) for one in hosts.values()), max(max(one) for one in hosts.values()) + 1)
    positions = [number * width for number in numbers]
    drawn = tuple(
        Series(host, positions, [values.get(number) for number in numbers]) for host, values in sorted(hosts.items())
    )
    title = TITLES.get(name, f"{metric.meaning[:1].upper()}{metric.meaning[1:]} ({name})")
    return Chart(title, setting.x, Axis(metric.meaning, unit=metric.unit), drawn, setting.bands, height=HEIGHT)
