"""Plans are balanced, rack aware and move little; plan files are those of kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squall.harness.errors import UsageError
from squall.harness.operator.facts import PartitionFacts
from squall.harness.operator.planning import Move, load_plan, plan, plan_as_json
from tests.facts import naming


def partition(number: int, replicas: tuple[int, ...], topic: str = "t") -> PartitionFacts:
    return PartitionFacts(topic, number, replicas[0], 0, replicas, replicas)


def after(partitions: list[PartitionFacts], moves: tuple[Move, ...]) -> list[tuple[int, ...]]:
    moved = {(one.topic, one.partition): one.new for one in moves}
    return [moved.get((one.topic, one.partition), one.replicas) for one in partitions]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[PartitionFacts], list[int], int]:
    """Topic-partitions anywhere on up to 8 brokers, and brokers they shall move to."""
    factor = draw(st.integers(1, 3))
    old = st.permutations(range(1, 9)).map(lambda order: tuple(order[:factor]))
    partitions = [partition(number, draw(old)) for number in range(draw(st.integers(1, 30)))]
    chosen = draw(st.sets(st.integers(1, 10), min_size=factor, max_size=8))
    return partitions, sorted(chosen), factor


@given(clusters())
@settings(max_examples=200, deadline=None)
def test_without_racks_replicas_are_spread_evenly_over_the_brokers_given(
    given_cluster: tuple[list[PartitionFacts], list[int], int],
) -> None:
    partitions, brokers, factor = given_cluster
    result = after(partitions, plan(partitions, dict.fromkeys(brokers)))
    assert all(len(set(one)) == len(one) == factor and set(one) <= set(brokers) for one in result)
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(replica for one in result for replica in one)
    assert max(load.values()) - min(load.values()) <= 1, load


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_a_plan_for_its_own_result_moves_nothing(given_cluster: tuple[list[PartitionFacts], list[int], int]) -> None:
    partitions, brokers, _ = given_cluster
    racks = dict.fromkeys(brokers)
    result = after(partitions, plan(partitions, racks))
    assert plan([partition(number, one) for number, one in enumerate(result)], racks) == ()


@given(clusters(), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_every_topic_partition_is_on_as_many_racks_as_can_be(
    given_cluster: tuple[list[PartitionFacts], list[int], int], rack_count: int
) -> None:
    partitions, brokers, factor = given_cluster
    racks = {broker: f"r{broker % rack_count}" for broker in brokers}
    result = after(partitions, plan(partitions, racks))
    most = min(factor, len(set(racks.values())))
    assert all(len({racks[replica] for replica in one}) == most for one in result)


def test_preferred_leaders_are_shared_out() -> None:
    partitions = [partition(number, (1, 2, 3)) for number in range(9)]
    leaders = Counter(one[0] for one in after(partitions, plan(partitions, {1: None, 2: None, 3: None})))
    assert leaders == {1: 3, 2: 3, 3: 3}


def test_what_is_well_placed_stays() -> None:
    partitions = [partition(0, (1, 2)), partition(1, (2, 3)), partition(2, (3, 1))]
    assert plan(partitions, {1: None, 2: None, 3: None}) == ()
    moves = plan(partitions, {1: None, 2: None, 4: None})
    assert [move.adding for move in moves] == [(4,), (4,)], "only broker 3 is replaced"


def test_the_replication_factor_can_be_changed() -> None:
    (grown,) = plan([partition(0, (1,))], {1: None, 2: None, 3: None}, replication_factor=3)
    assert grown.old == (1,) and set(grown.new) == {1, 2, 3} and grown.removing == ()
    (shrunk,) = plan([partition(0, (1, 2, 3))], {1: None, 2: None, 3: None}, replication_factor=1)
    assert len(shrunk.new) == 1 and shrunk.adding == ()


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(UsageError, match=naming("--brokers 1,2", "2 brokers", "3 replicas")):
        plan([partition(0, (1, 2, 3))], {1: None, 2: None})


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_plan_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    targets = {("orders", 1): (2, 3), ("orders", 0): (1, 2)}
    file = tmp_path / "plan.json"
    file.write_text(plan_as_json(targets))
    assert load_plan(file) == targets


def test_kafkas_own_form_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    row = {"topic": "foo", "partition": 0, "replicas": [3, 4], "log_dirs": ["any", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [row]}))
    assert load_plan(file) == {("foo", 0): (3, 4)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "partitions: a list is missing"),
        ('{"version": 2, "partitions": []}', "version: 2 is not known"),
        ('{"partitions": []}', "the list is empty"),
        ('{"partitions": [7]}', r"partitions\[0\]: 7 is not an object"),
        ('{"partitions": [{"topic": "", "partition": 0, "replicas": [1]}]}', r"partitions\[0\].topic: ''"),
        ('{"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}', r"partitions\[0\].partition: -1"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', r"partitions\[0\].replicas: \[\]"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "names a broker twice"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]}',
            r"partitions\[0\].log_dirs",
        ),
    ],
)
def test_a_wrong_plan_file_is_refused_by_file_field_and_value(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=said) as refusal:
        load_plan(file)
    assert str(file) in str(refusal.value)
