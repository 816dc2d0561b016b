"""Reading Prometheus' text: values by name and labels, and refusals in words."""

from __future__ import annotations

import pytest

from squall.harness.loopback.scraping import parse
from squall.nodes.node.metrics.metric_names import METRICS
from tests.facts import naming

TEXT = """# HELP size bytes
# TYPE size gauge
size{topic="a\\"b\\\\c",partition="0"} 12
size{topic="plain",partition="0"} NaN
up 1.5
"""


def test_a_value_is_found_by_name_and_by_labels_that_tell_it_from_others() -> None:
    metrics = parse(TEXT)
    assert metrics.value("up") == 1.5
    assert metrics.value("size", topic='a"b\\c') == 12
    assert len(metrics.values("size", partition="0")) == 2


def test_declared_counters_keep_their_names() -> None:
    text = "# TYPE fences_count counter\nfences_count 3\n# TYPE sends_total counter\nsends_total 4\n"
    assert [(one.name, one.value) for one in parse(text).lines] == [("fences_count", 3), ("sends_total", 4)]


def test_every_metric_of_a_node_is_found_by_its_own_name() -> None:
    declared = "".join(f"# HELP {one.name} about\n# TYPE {one.name} {one.kind}\n{one.name} 7\n" for one in METRICS)
    found = parse(declared)
    assert [found.value(one.name) for one in METRICS] == [7.0] * len(METRICS)


def test_whole_values_are_floats() -> None:
    assert isinstance(parse(TEXT).value("size", topic='a"b\\c'), float)


def test_what_is_not_one_sample_is_an_error() -> None:
    with pytest.raises(LookupError, match=naming("2 samples", "size")):
        parse(TEXT).value("size", partition="0")
    with pytest.raises(LookupError, match=naming("0 samples", "down")):
        parse(TEXT).value("down")


def test_a_line_that_is_no_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="topic=plain"):
        parse("size{topic=plain 12\n")
