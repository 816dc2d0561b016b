"""Names of metrics: one to one with Kafka's, and the table in docs/metrics.md says the same as the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.nodes.node.metrics.metric_names import COUNTER, GAUGE, METRICS, SUMMARY, prometheus_name

TABLE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `([a-z_]+)` \| (gauge|counter|summary) \| (?:`(.+)`|—) \| (.+) \|$", re.MULTILINE)

NAMES = {
    "kafka.controller:type=KafkaController,name=ActiveControllerCount": "kafka_controller_active_controller_count",
    "kafka.server:type=raft-metrics,attribute=current-epoch": "kafka_server_raft_current_epoch",
    "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec": "kafka_server_isr_shrinks_total",
    "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=": "kafka_network_total_time_ms",
    "kafka.network:type=RequestChannel,name=ControlPlaneRequestQueueSize": (
        "kafka_network_control_plane_request_queue_size"
    ),
}


@pytest.mark.parametrize(("jmx", "name"), NAMES.items())
def test_a_name_follows_from_the_one_in_jmx(jmx: str, name: str) -> None:
    assert prometheus_name(jmx) == name


def test_what_is_no_name_of_kafkas_is_refused() -> None:
    with pytest.raises(ValueError, match="is not domain:type"):
        prometheus_name("ActiveControllerCount")


def test_no_two_metrics_share_a_name_or_a_counterpart() -> None:
    names = [metric.name for metric in METRICS]
    counterparts = [metric.jmx for metric in METRICS if metric.jmx is not None]
    assert len(set(names)) == len(names)
    assert len(set(counterparts)) == len(counterparts)


def test_names_and_kinds_are_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name), metric
        assert metric.kind in (GAUGE, COUNTER, SUMMARY), metric
        assert metric.about and "\n" not in metric.about, metric


def test_the_table_for_people_says_what_the_code_does() -> None:
    rows = [match.groups() for match in ROW.finditer(TABLE.read_text())]
    expected = [(metric.name, metric.kind, metric.jmx, metric.about) for metric in METRICS]
    assert rows == expected, "docs/metrics.md: bring the table into line with nodes/node/metrics/metric_names.py"


NAMED = """current-state current-leader current-vote current-epoch high-watermark log-end-offset commit-latency-avg
election-latency-avg ActiveControllerCount FencedBrokerCount OfflinePartitionsCount EventQueueTimeMs
LastAppliedRecordOffset LastAppliedRecordLagMs TimedOutBrokerHeartbeatCount UnderReplicatedPartitions
UnderMinIsrPartitionCount IsrShrinksPerSec IsrExpandsPerSec ControlPlaneRequestQueueSize ControlPlaneResponseQueueSize
ControlPlaneNetworkProcessorAvgIdlePercent ControlPlaneRequestHandlerAvgIdlePercent
ControlPlaneExpiredConnectionsKilledCount"""


@pytest.mark.parametrize("name", NAMED.split())
def test_the_metrics_that_the_requirements_name_are_there(name: str) -> None:
    """CL-18, and the metrics that docs/requirements.md names."""
    assert any(metric.jmx is not None and re.search(rf"[=]{name}(,|$)", metric.jmx) for metric in METRICS)
