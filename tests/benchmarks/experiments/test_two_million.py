"""The two-million experiment (HX-13): znodes and frames are Kafka's, figures and chart are those of the arms."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from squall.benchmarks.experiments import two_million
from squall.benchmarks.experiments.parts import zookeeper_stubs
from squall.benchmarks.experiments.parts.bar_chart import Bar, Panel, bar_chart
from squall.benchmarks.experiments.parts.kafka_controllers import as_newest, is_known
from squall.benchmarks.experiments.parts.quorum_arms import KAFKA_QUORUMS
from squall.benchmarks.experiments.parts.zookeeper_arms import DEFAULTS, KAFKAS_ZOOKEEPER, Conditions
from squall.benchmarks.experiments.parts.zookeeper_stubs import Layout, ZookeeperStub, _parts
from squall.benchmarks.experiments.two_million import (
    BYTES_WITHOUT_PARTITIONS,
    SYSTEMS,
    Arm,
    System,
    chosen,
    comparison,
    comparisons,
    figures_of,
    fits,
    left_out,
    pictures,
    refuse_unused_conditions,
    rules_of_our_quorum,
    run,
    with_our_controller,
    with_quorum,
)
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.errors import UsageError
from squall.nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_record,
    encode_record,
)
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.schema import Message


def arm(system: str, partitions: int, shutdown: float, failover: float) -> Arm:
    return Arm(
        system,
        partitions,
        load=1.0,
        answered=[shutdown],
        applied=[shutdown, shutdown, 9 * shutdown],
        detected=10.0,
        stages={"read": failover / 2},
        failover=10 + failover,
        failover_applied=10 + failover,
        memory={"controller": 500_000_000},
    )


def test_a_topic_is_written_in_transactions_with_its_state_as_kafka_keeps_it() -> None:
    layout = Layout(partitions=1_200, of_a_topic=1_000, brokers=30)
    (first, numbers), (second, rest) = layout.topics()
    assert (first, len(numbers), second, len(rest)) == ("topic-0", 1_000, "topic-1", 200)
    written = [one for part in _parts(second, rest, layout) for one in part]
    contents = {one.path: one.data for one in written}
    assert list(contents)[:2] == ["/brokers/topics/topic-1", "/brokers/topics/topic-1/partitions"]
    topic = json.loads(contents["/brokers/topics/topic-1"])
    assert topic["partitions"]["199"] == [29, 0, 1] and len(topic["topic_id"]) == 22
    state = json.loads(contents["/brokers/topics/topic-1/partitions/199/state"])
    assert (state["leader"], state["isr"]) == (29, [29, 0, 1])
    assert len(contents) == 2 + 2 * 200
    assert max(len(part) for part in _parts(first, numbers, layout)) <= 1_001


@pytest.mark.parametrize(("packets_a_look", "waits_for_them"), [(50, True), (2, False)])
def test_a_controller_that_reads_is_not_quiet_though_brokers_hear_nothing(
    monkeypatch: pytest.MonkeyPatch, packets_a_look: int, waits_for_them: bool
) -> None:
    """It reads for seconds before it sends; a few packets are pings."""
    monkeypatch.setattr(zookeeper_stubs, "LOOK_EVERY_S", 0.001)
    stub = ZookeeperStub(1, None, heard_at=3.0)  # type: ignore[arg-type]  # it asks nothing
    looks = 0

    def received() -> int:
        nonlocal looks
        looks += 1
        return min(looks, 60) * packets_a_look

    assert asyncio.run(zookeeper_stubs.quiet([stub], received, seconds=0.02, timeout_s=20)) == 3.0
    assert (looks >= 60) == waits_for_them


def test_ratios_must_reach_the_published_ones_only_where_there_are_many_topic_partitions() -> None:
    """CS-05, QC-23."""
    for partitions, missed in ((10_000, 0), (500_000, 2)):
        slow, quick = arm("a", partitions, 4.0, 20.0), arm("d", partitions, 2.0, 5.0)
        found = list(comparison(slow, quick))
        assert [one.measured for one in found] == [2.0, 2.0]
        assert sum(not one.passed for one in found) == missed


def test_zookeeper_is_compared_with_each_quorum_kafkas_own_first() -> None:
    """HX-13: the source's claim with the real thing on both sides."""
    arms = [arm(KAFKAS_ZOOKEEPER, 500_000, 8.0, 20.0), arm("Kafka, quorum", 500_000, 1.0, 0.5)]
    arms += [arm("Squall, ZooKeeper", 500_000, 9.0, 9.0), arm("Squall, quorum", 500_000, 2.0, 0.5)]
    arms[1].has_quorum = arms[3].has_quorum = True
    found = {one.name: one.measured for one in comparisons(arms)}
    assert found[f"500 000: controlled shutdown, {KAFKAS_ZOOKEEPER} to Kafka, quorum"] == 8
    assert found[f"500 000: controlled shutdown, {KAFKAS_ZOOKEEPER} to Squall, quorum"] == 4
    assert len(found) == 4
    assert list(comparisons(arms[1:])) == []


TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (PartitionRecord(3, TOPIC_ID, [1, 2], [1], leader=1, leader_epoch=4, partition_epoch=5), 1),
        (PartitionChangeRecord(3, TOPIC_ID, isr=[1], leader=1), 1),
        (RegisterBrokerRecord(broker_id=7, broker_epoch=9, fenced=True), 3),
    ],
)
def test_records_of_kafkas_versions_read_as_those_of_our_nodes(record: Message, version: int) -> None:
    head = bytes((1, record.RECORD_ID, version))
    assert decode_record(as_newest(head + encode_bytes(record, version))) == record
    assert as_newest(encode_record(record)) == encode_record(record)
    assert is_known(head) and not is_known(bytes((1, 27, 0)))


def test_a_line_through_three_numbers_is_extrapolated_to_the_published_one() -> None:
    """ZK-09: the cost is linear in the number of topic-partitions."""
    arms = [arm("a", size, size / 20_000, size / 5_000) for size in (10_000, 500_000, 1_000_000)]
    assert list(fits(arms[:2])) == []
    straight, shutdown, again, failover = fits(arms)
    assert straight.measured == pytest.approx(1) and again.measured == pytest.approx(1)
    assert (shutdown.measured, failover.measured) == (pytest.approx(100), pytest.approx(400))
    assert all(one.passed for one in (straight, shutdown, again, failover))
    bent = [arm("a", size, seconds, seconds) for size, seconds in ((10_000, 1.0), (500_000, 2.0), (1_000_000, 900.0))]
    assert [one.passed for one in fits(bent)][:2] == [False, False]


def test_our_quorum_has_bars_with_two_million_only() -> None:
    """HX-13: failover flat, a shutdown committed within 1.5 s and applied within 3 s."""
    least = arm("Squall, quorum", 10_000, 0.1, 1.0)
    assert list(rules_of_our_quorum([least])) == []
    for partitions, missed in ((1_000_000, 0), (2_000_000, 3)):
        slow = list(rules_of_our_quorum([least, arm("Squall, quorum", partitions, 4.0, 10.0)]))
        assert sum(not one.passed for one in slow) == missed
    kept = list(rules_of_our_quorum([least, arm("Squall, quorum", 2_000_000, 1.4, 5.0)]))
    assert [round(one.measured, 2) for one in kept] == [1.36, 1.4, 1.4]
    assert all(one.passed for one in kept)


def test_every_figure_keeps_its_samples() -> None:
    table = {one.name.strip(): one for one in figures_of(arm("Kafka", 10_000, 2.0, 20.0))}
    applied = table["controlled shutdown, every broker has the changes"]
    assert (applied.measured, applied.samples) == (2.0, (2.0, 2.0, 18.0))
    assert table["detected"].measured == 10
    assert table["resident memory, controller"].measured == 500


def test_the_chart_has_a_bar_for_each_measured_and_published_figure() -> None:
    arms = [arm(system, 10_000, 1.0, 1.0) for system in ("Kafka <&>", "Ours", "Squall", "Early")]
    arms += [arm("Kafka <&>", 500_000, 2.0, 20.0), arm("Ours", 500_000, 3.0, 5.0), arm("Squall", 500_000, 0.5, 2.0)]
    svg = ElementTree.fromstring(pictures([one for each in arms for one in figures_of(each)])["two-million"])
    texts = [one.text for one in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"135 s", "32 s", "503 s", "37 s", "2 s", "0.5 s", "30 s", "12 s"} <= set(texts)
    assert "Kafka <&>, 500 000" in texts and "Kafka <&>, 10 000" not in texts
    assert "Early, 10 000" in texts, "a system that had no room at the greatest number"
    bars = [one for one in svg.iter("{http://www.w3.org/2000/svg}rect") if one.get("stroke")]
    assert len(bars) == 12


def test_the_longest_bar_of_a_panel_fills_it_and_zero_is_still_to_be_seen() -> None:
    svg = ElementTree.fromstring(
        bar_chart("t", [Panel("p", "s", [Bar("a", 4, 0), Bar("b", 1, 1), Bar("c", 0, 2)])], "")
    )
    widths = [float(one.get("width", "")) for one in svg.iter("{http://www.w3.org/2000/svg}rect") if one.get("stroke")]
    assert widths[1] == pytest.approx(widths[0] / 4, abs=0.1) and widths[2] > 1


def check_arm(found: Arm) -> None:
    assert 0 < found.answered[0] <= found.applied[0]
    assert 0 < found.detected <= found.failover <= found.failover_applied
    assert all(seconds >= 0 for seconds in found.stages.values())


def test_a_controller_away_from_zookeeper_shows_its_round_trip_and_is_compared_with_no_quorum() -> None:
    """HX-13: no quorum's way is lengthened."""
    quorum = replace(arm("d", 10_000, 2.0, 5.0), has_quorum=True)
    near = arm(KAFKAS_ZOOKEEPER, 10_000, 4.0, 20.0)
    away = replace(near, is_away=True, round_trips=[0.0015, 0.0014, 0.9])
    assert list(comparisons([near, quorum])) and not list(comparisons([away, quorum]))
    shown = {one.name.strip(): one.measured for one in figures_of(away)}
    assert shown["round trip from the controller to ZooKeeper"] == 0.0015
    assert not any("round trip" in one.name for one in figures_of(quorum))


def test_the_real_thing_is_measured_on_both_sides() -> None:
    """HX-13: Apache Kafka with ZooKeeper and two of its quorums; ours with ZooKeeper in two ways, and our quorum."""
    assert len(SYSTEMS) == 4 + len(KAFKA_QUORUMS) == 6
    assert next(iter(SYSTEMS)) == "kafka-zookeeper"


def test_systems_are_chosen_by_name_and_measured_in_one_order() -> None:
    assert list(chosen(["squall-quorum", "kafka-zookeeper"])) == ["kafka-zookeeper", "squall-quorum"]
    assert list(chosen([])) == list(SYSTEMS)
    with pytest.raises(UsageError, match=r"--system=squall-quorun: no such system.*squall-quorum"):
        chosen(["squall-quorun"])


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [("zookeeper_servers", "--zookeeper-servers", 3), ("zookeeper_round_trip", "--zookeeper-round-trip", 1.0)],
)
def test_a_condition_of_zookeeper_is_refused_if_no_system_has_zookeeper(option: str, name: str, value: float) -> None:
    with pytest.raises(UsageError, match=rf"{name}={value}: none of the chosen.*\(squall-quorum\)\n.*kafka-zookeeper"):
        next(run(system=["squall-quorum"], **{option: value}))  # type: ignore[arg-type]
    conditions = replace(DEFAULTS, servers=3, round_trip_ms=1.0)
    refuse_unused_conditions(chosen(["squall-quorum", "squall-zookeeper"]), conditions)
    refuse_unused_conditions(chosen(["squall-quorum"]), DEFAULTS)


def test_a_system_without_room_is_left_out_with_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """HX-13: as far as memory allows each system, the limit said."""
    monkeypatch.setattr(two_million, "SYSTEMS", {"large": System(_arm, 10**12), "none": System(_arm, 0)})
    found = list(run(partitions=5_000))
    assert found[0] == left_out("large", 5_000, 5 * 10**15 + BYTES_WITHOUT_PARTITIONS, available_of(found[0]))
    assert found[1].name == "some, 5 000: topic-partitions are there"


def test_what_is_asked_of_zookeeper_reaches_each_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Conditions] = []

    def noting(partitions: int, rounds: int, conditions: Conditions) -> Arm:
        given.append(conditions)
        return arm("some", partitions, 1.0, 1.0)

    monkeypatch.setattr(two_million, "SYSTEMS", {"one": System(noting, 0)})
    list(run(partitions=5_000))
    list(run(partitions=5_000, equal_timeouts=True, zookeeper_servers=3, zookeeper_round_trip=0.5))
    assert given == [Conditions(18_000, 18_000), Conditions(2_000, 9_000, 3, 0.5)]
    assert [str(one) for one in given] == ["", ", 3 servers, 0.5 ms away"]


def test_a_system_that_fails_misses_a_rule_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(partitions: int, rounds: int, _conditions: Conditions) -> Arm:
        raise TimeoutError(f"{partitions} in {rounds} rounds")

    monkeypatch.setattr(two_million, "SYSTEMS", {"broken": System(broken, 0), "some": System(_arm, 0)})
    found = list(run(partitions=5_000))
    assert (found[0].name, found[0].passed) == ("broken, 5 000: measured without an error", False)
    assert "5000 in 3 rounds" in found[0].reference
    assert found[1].name == "some, 5 000: topic-partitions are there"


def available_of(line: Measurement) -> int:
    return int(line.reference.split()[0]) * 10**9


def _arm(partitions: int, _rounds: int, _conditions: Conditions) -> Arm:
    return arm("some", partitions, 1.0, 1.0)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("zookeeper")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_shuts_a_broker_down_and_replaces_a_controller(name: str) -> None:
    found = SYSTEMS[name].measure(1_000, 1, DEFAULTS)
    check_arm(found)
    assert 0 < found.broker_failure_detected <= found.broker_failure


@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.xdist_group("zookeeper")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("partitions", [10_000, 100_000])
def test_both_of_ours_are_measured_with_many_topic_partitions(partitions: int) -> None:
    """HX-13, both sizes within a minute: the systems wait at the same time, and sessions are shorter than by default.

    They are not as short as two seconds, which are few on a machine that hesitates.
    """
    with ThreadPoolExecutor() as threads:
        quorum = threads.submit(with_quorum, partitions, 1, short=True)
        zookeeper = threads.submit(with_our_controller, partitions, 1, Conditions(4_000, 9_000), short=True)
    check_arm(quorum.result())
    check_arm(zookeeper.result())
    assert zookeeper.result().failover_applied > quorum.result().failover_applied
