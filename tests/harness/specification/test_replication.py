"""The specification of a topic-partition refuses what it must (DA-08)."""

from __future__ import annotations

from typing import Any

import pytest

from squall.harness.specification.broken import SpecificationBroken
from squall.harness.specification.replication import Replication


def event(name: str, broker: int, **fields: Any) -> tuple[str, dict[str, Any]]:
    return name, {"broker": broker, "topic": "events", "partition": 0, **fields}


BEGUN = [
    event("leader", 1, epoch=0, end=0, high_watermark=0),
    event("isr", 1, isr=[1, 2], partition_epoch=1, leader_epoch=0),
    event("follower", 2, leader=1, epoch=0, end=0),
    event("append", 1, first=0, last=1, epoch=0),
]
REPLICATED = [*BEGUN, event("append", 2, first=0, last=1, epoch=0)]
COMMITTED = [*REPLICATED, event("high_watermark", 1, offset=2, end=2, epoch=0, led=True)]


def followed(events: list[tuple[str, dict[str, Any]]]) -> list[str | None]:
    spec = Replication()
    return [spec.step(name, fields) for name, fields in events]


def test_events_are_actions_by_their_names_in_the_specification() -> None:
    assert followed(COMMITTED) == [
        "ReceiveMetadataUpdate", "ReceiveMetadataUpdate", "ReceiveMetadataUpdate", "WriteRecordToLeader",
        "ReceiveFetchResponse", "ReceiveFetchRequest",
    ]  # fmt: skip


def test_a_follower_that_restarts_with_less_of_its_log_goes_on() -> None:
    back = [event("follower", 2, leader=1, epoch=0, end=1), event("append", 2, first=1, last=1, epoch=0)]
    assert followed([*COMMITTED, *back])[-1] == "ReceiveFetchResponse"


@pytest.mark.parametrize(
    ("events", "action"),
    [
        pytest.param([*BEGUN, event("leader", 2, epoch=0, end=0, high_watermark=0)], "ReceiveMetadataUpdate",
                     id="two leaders in an epoch"),
        pytest.param([*BEGUN, event("high_watermark", 1, offset=2, end=2, epoch=0, led=True)], "ReceiveFetchRequest",
                     id="a high watermark above a member of the ISR"),
        pytest.param([*COMMITTED, event("leader", 3, epoch=1, end=0, high_watermark=0)], "ReceiveMetadataUpdate",
                     id="a leader that lacks committed records"),
        pytest.param([*BEGUN, event("append", 2, first=0, last=5, epoch=0)], "ReceiveFetchResponse",
                     id="records that no leader wrote"),
        pytest.param([*BEGUN, event("truncate", 1, to=0, end=2, high_watermark=0)], "ReceiveFetchResponse",
                     id="a leader that truncates"),
        pytest.param([*BEGUN, event("isr_proposed", 2, isr=[2], partition_epoch=1)], "SendAlterPartitionRequest",
                     id="a follower that proposes an ISR"),
    ],
)  # fmt: skip
def test_what_the_specification_forbids_is_broken(events: list[tuple[str, dict[str, Any]]], action: str) -> None:
    with pytest.raises(SpecificationBroken, match=rf"^{action}\("):
        followed(events)
