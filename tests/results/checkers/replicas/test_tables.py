"""The table of replicas says what was put into it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from squall.results.checkers.replicas.replica import BATCH_COLUMNS, Batches
from squall.results.checkers.replicas.tables import replica_table, replicas_in, topic_partitions_in
from squall.results.history.table_schemas import REPLICA_SCHEMA
from squall.results.synthetic.forge_replicas import healthy_replicas


@pytest.mark.parametrize("seed", range(5))
def test_replicas_come_back_as_they_were(seed: int) -> None:
    replicas = [
        *healthy_replicas(seed),
        *(replace(one, partition=1, in_sync=False, required=-1) for one in healthy_replicas(seed + 100)),
    ]
    replicas[2] = replace(replicas[2], batches=Batches(), end=0, collected=False, problem="no answer")
    table = replica_table((one, {}) for one in replicas)
    assert table.schema == REPLICA_SCHEMA
    back = list(replicas_in(table))
    for one, other in zip(replicas, back, strict=True):
        assert replace(one, batches=other.batches) == other
        assert all((getattr(one.batches, name) == getattr(other.batches, name)).all() for name in BATCH_COLUMNS)


def test_topics_of_one_name_and_several_ids_are_several_logs() -> None:
    old = [replace(one, topic_id="old") for one in healthy_replicas(1)]
    found = list(topic_partitions_in(replica_table((one, {}) for one in [*healthy_replicas(2), *old])))
    assert [len(one) for one in found] == [3, 3]
    assert {one.topic_id for one in found[0]} != {one.topic_id for one in found[1]}


def test_an_empty_table_holds_nothing() -> None:
    assert list(topic_partitions_in(replica_table(()))) == []
