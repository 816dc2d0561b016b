"""Read a node's metrics endpoint, as values by name and labels.

Example of use:

    metrics = scrape("127.0.0.1", 9404)
    metrics.value("kafka_controller_active_controller_count")
    metrics.value("kafka_network_total_time_ms", request="Produce", quantile="0.99")

The parser is that of Prometheus' Python client.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Line:
    """One sample."""

    name: str
    labels: Mapping[str, str]
    value: float


class Metrics:
    """The samples of one scrape."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def value(self, name: str, **labels: str) -> float:
        """Return the one sample that has this name and at least these labels. Raises LookupError."""
        found = [one.value for one in self.lines if one.name == name and labels.items() <= one.labels.items()]
        if len(found) != 1:
            raise LookupError(f"{len(found)} samples of {name} with {labels}")
        return found[0]

    def values(self, name: str, **labels: str) -> list[float]:
        """Return all samples that have this name and at least these labels."""
        return [one.value for one in self.lines if one.name == name and labels.items() <= one.labels.items()]


def parse(text: str) -> Metrics:
    """Parse Prometheus' text format. Raises ValueError for an invalid line.

    The parser does not see the comments: it renames each sample of a declared counter whose name lacks `_total`.
    """
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    families = text_string_to_metric_families(lines)
    return Metrics([Line(one.name, one.labels, float(one.value)) for family in families for one in family.samples])


def scrape(host: str, port: int) -> Metrics:
    """Read the metrics of one node. Raises OSError."""
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        return parse(answer.read().decode())
