"""Read a node's metrics endpoint, as values by name and labels.

metrics = scrape("127.0.0.1", 9404) metrics.value("kafka_controller_active_controller_count")
metrics.value("kafka_network_total_time_ms", request="Produce", quantile="0.99")
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT_S = 10.0
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)",?')
_UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


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
    """Parse Prometheus' text format. Raises ValueError for an invalid line."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise ValueError(f"line {number} is not a sample: {line!r}")
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(matched[2] or "")}
        lines.append(Line(matched[1], labels, float(matched[3])))
    return Metrics(lines)


def _unescaped(value: str) -> str:
    return re.sub(r'\\[\\"n]', lambda matched: _UNESCAPED[matched[0]], value)


def scrape(host: str, port: int) -> Metrics:
    """Read the metrics of one node. Raises OSError."""
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        return parse(answer.read().decode())
