"""HOSTED as the observer asserts it: a broker's host keeps only the logs of what the broker hosts."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.storage.hosted_directories import HostedDirectories
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.protocol.topic_partition import format_id
from squall.nodes.storage.checkpoints import write_properties

HOSTED, DELETED = bytes(15) + b"\x01", bytes(15) + b"\x02"


def at_the_end(
    *directories: tuple[str, bytes | None],
    applied: int = 9,
    busy: bool = False,
    broker: bool = True,
    counted: tuple[str, ...] = ("t",),
) -> None:
    """Broker 1 hosts t-0, and has read metadata up to offset 9.

    Its host has these directories with these topic ids; it counts the traffic of the topics `counted`.
    """
    disk = SimDisk(Random(1))
    for directory, topic_id in directories:
        properties = {"version": "0"} if topic_id is None else {"version": "0", "topic_id": format_id(topic_id)}
        write_properties(disk, f"{directory}/partition.metadata", properties)
    hosted = {(HOSTED, 0): object()}
    replicas = SimpleNamespace(is_busy=busy, by_id=lambda topic_id, number: hosted.get((topic_id, number)))
    image = SimpleNamespace(last_offset=9, topic_ids={"t": HOSTED, "elsewhere": bytes(16)})
    traffic = SimpleNamespace(topics=dict.fromkeys(counted))
    runs = SimpleNamespace(applied_offset=applied, image=image, replicas=replicas, traffic=traffic)
    process: Any = SimpleNamespace(name="b1", disk=disk, node=SimpleNamespace(broker=runs if broker else None))
    cluster: Any = SimpleNamespace(processes={"b1": process})
    HostedDirectories(cluster).at_end()


def test_a_broker_keeps_the_logs_that_it_hosts() -> None:
    at_the_end(("t-0", HOSTED))


@pytest.mark.parametrize(
    ("directory", "topic_id"), [("t-0", DELETED), ("gone-0", DELETED), ("t-1", HOSTED), ("a-b-3", DELETED)]
)
def test_the_log_of_what_it_does_not_host_breaks_it(directory: str, topic_id: bytes) -> None:
    with pytest.raises(InvariantBroken, match=f"^HOSTED: b1 keeps the log {directory} of a .* up to offset 9$"):
        at_the_end((directory, topic_id))


def test_a_directory_that_was_put_aside_may_stay() -> None:
    at_the_end(("gone-0-stray", DELETED))


def test_a_directory_without_an_id_may_stay() -> None:
    at_the_end(("gone-0", None))


def test_other_directories_are_no_logs() -> None:
    at_the_end(("__cluster_metadata-0", DELETED), ("lost+found", DELETED), ("-0", DELETED))


@pytest.mark.parametrize("state", [{"applied": 8}, {"busy": True}, {"broker": False}])
def test_before_it_has_applied_all_metadata_it_may_keep_more(state: dict[str, Any]) -> None:
    at_the_end(("gone-0", DELETED), **state)
    at_the_end(counted=("gone",), **state)


def test_a_broker_that_counts_the_traffic_of_a_topic_that_is_gone_breaks_it() -> None:
    with pytest.raises(InvariantBroken, match=r"^HOSTED: b1 counts the traffic of \['gone'\], .* no topics any more$"):
        at_the_end(counted=("t", "gone"))


def test_it_may_count_what_it_hosted_once() -> None:
    at_the_end(counted=("elsewhere",))
