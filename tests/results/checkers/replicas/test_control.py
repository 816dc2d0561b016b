"""ELECT, HWM and EPOCH on hosts, by metadata logs and control traces written by hand (HX-06)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.results.checkers.replicas.anomalies import TWO_LEADERS
from squall.results.checkers.replicas.control import (
    LINES_LOST,
    NODE_STARTED,
    NOT_TRACED,
    TORN_LINE,
    WITHOUT_TRACE,
    TraceEvent,
    judge_control,
)
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.metadata import MetadataRecord, replayed
from squall.results.checkers.replicas.tables import control_in, control_table
from squall.results.synthetic.forge_replicas import CONTROL_NEAR_MISSES, ControlPlane, healthy_control, host

CHANGES = (
    MetadataRecord(offset=0, what="topic", topic_id="id", topic="events"),
    MetadataRecord(
        offset=1,
        what="partition",
        topic_id="id",
        partition=0,
        leader=1,
        isr=(1, 2, 3),
        leader_epoch=0,
        partition_epoch=0,
    ),
    MetadataRecord(offset=2, what="change", topic_id="id", partition=0, leader=2, isr=(2, 3)),
    MetadataRecord(offset=3, what="change", topic_id="id", partition=0, isr=(2, 3, 1)),
    MetadataRecord(offset=4, what="change", topic_id="id", partition=0, leader=3),
)


def judged(plane: ControlPlane) -> Findings:
    return judge_control(plane.quorum, plane.logs, plane.records, plane.events, Findings("control-plane.parquet"))


def event(node: int, name: str, **facts: object) -> TraceEvent:
    return TraceEvent(host=host(node), node=node, incarnation=1, event=name, **facts)  # type: ignore[arg-type]


def test_epochs_move_by_one_for_each_change_and_each_leader_named() -> None:
    """EP-01, EP-02: what brokers report is held against this."""
    states = replayed(CHANGES, committed=5)
    now = states.now["id", 0]
    assert (now.leader, now.isr, now.leader_epoch, now.partition_epoch) == (3, (2, 3, 1), 2, 3)
    assert states.leaders["id", 0] == {0: 1, 1: 2, 2: 3}


def test_what_is_not_committed_is_not_replayed() -> None:
    assert replayed(CHANGES, committed=3).now["id", 0].partition_epoch == 1


def test_a_topic_that_was_removed_has_no_state() -> None:
    removed = MetadataRecord(offset=5, what="topic_removed", topic_id="id")
    assert replayed((*CHANGES, removed), committed=6).now == {}


def test_a_healthy_control_plane_is_counted() -> None:
    findings = judged(healthy_control(1))
    assert not findings.anomalies
    assert not findings.undecided
    assert findings.looked_at["metadata logs"] == 6
    assert findings.looked_at["ISR changes"] > 3


def test_two_controllers_that_led_one_epoch_break_elect() -> None:
    """EP-05, by their own traces; the second may have been deposed long before anybody looks."""
    plane = healthy_control(1)
    first = next(one for one in plane.events if one.event == "state")
    other = next(node for node in (101, 102, 103) if node != first.node)
    findings = judged(replace(plane, events=(*plane.events, event(other, "state", role="leader", epoch=first.epoch))))
    assert findings.anomalies[TWO_LEADERS] == 1
    assert findings.witnesses[0].place == "__cluster_metadata-0"


def test_a_node_without_a_trace_is_named() -> None:
    plane = healthy_control(1)
    without = replace(plane, events=tuple(one for one in plane.events if one.node != 2))
    assert judged(without).undecided == ["no control trace of b2 was collected"]


def test_nodes_whose_system_writes_no_trace_are_judged_by_their_logs() -> None:
    """As of Apache Kafka: what was committed is compared, who led is not known from a trace."""
    plane = healthy_control(1)
    nodes = {one.node: one.host for one in plane.events}
    untraced = tuple(TraceEvent(host=host, node=node, incarnation=0, event=NOT_TRACED) for node, host in nodes.items())
    findings = judged(replace(plane, events=untraced))
    assert (findings.undecided, findings.anomalies) == ([], {})
    assert findings.noted[WITHOUT_TRACE] == len(nodes) and findings.looked_at["trace events"] == 0


def test_lost_and_torn_lines_are_noted_and_no_more() -> None:
    plane = healthy_control(1)
    spoilt = replace(plane, events=(*plane.events, event(2, LINES_LOST, offset=7), event(1, TORN_LINE)))
    findings = judged(spoilt)
    assert findings.noted == {"torn trace lines": 1, "lost trace lines": 7}
    assert not findings.undecided


def test_without_a_word_of_the_quorum_nothing_is_known() -> None:
    assert "no controller said" in judged(replace(healthy_control(1), quorum=None)).undecided[0]


def test_a_leader_whose_log_was_not_read_leaves_it_open() -> None:
    plane = healthy_control(1)
    logs = tuple(replace(one, collected=one.node != 101) for one in plane.logs)
    assert judged(replace(plane, logs=logs)).undecided == [
        "the metadata log of node 101, which led the quorum, could not be read"
    ]


def test_a_majority_that_might_be_there_is_not_denied() -> None:
    """One voter lacks committed records, another could not be looked at."""
    plane = CONTROL_NEAR_MISSES["a voter lags with a tail that was never committed"](healthy_control(1), None)  # type: ignore[arg-type]
    unseen = tuple(replace(one, collected=one.node != 102) for one in plane.logs)
    findings = judged(replace(plane, logs=unseen))
    assert not findings.anomalies
    assert "whether a majority of voters has what is committed is not known" in findings.undecided[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_table_says_what_was_put_into_it(seed: int) -> None:
    plane = healthy_control(seed)
    quorum, logs, records, events = control_in(control_table(plane.quorum, plane.logs, plane.records, plane.events))
    assert quorum == plane.quorum
    assert tuple(records) == plane.records
    assert tuple(events) == plane.events
    assert [one.node for one in logs] == [one.node for one in plane.logs]
    assert all(
        (one.batches.digest == other.batches.digest).all() and one.end == other.end
        for one, other in zip(logs, plane.logs, strict=True)
    )


def test_a_started_node_is_part_of_every_healthy_trace() -> None:
    assert {one.node for one in healthy_control(1).events if one.event == NODE_STARTED} == {1, 2, 3, 101, 102, 103}
