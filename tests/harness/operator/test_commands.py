"""`squall cluster …` against a cluster that is only answers: what is asked, printed, and returned as exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.harness.cli.main import status_of
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from squall.nodes.protocol.messages.metadata import MetadataRequest
from tests.harness.operator.conftest import FakeKafka

AT = ("--bootstrap", "127.0.0.1:9091,127.0.0.1:9092")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(fake: FakeKafka, capsys: pytest.CaptureFixture[str]) -> Run:
    """Carry out a command; its status, output and complaints."""

    def carry_out(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = status_of(["cluster", *arguments, *AT])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return carry_out


def as_json(run: Run, *arguments: str) -> Any:
    status, out, err = run(*arguments, "--json")
    assert status == 0, err
    return json.loads(out)


# -- describe ------------------------------------------------------------------------------------------------------


def test_describe_counts_what_is_on_each_broker(run: Run) -> None:
    status, out, _ = run("describe")
    assert status == 0
    assert (
        "cluster     fake" in out and "controller  101, epoch 4" in out and "every topic-partition has a leader" in out
    )
    facts = as_json(run, "describe")
    counts = {one["id"]: (one["partitions"], one["leaders"], one["rack"]) for one in facts["brokers"]}
    assert counts == {1: (2, 1, "r1"), 2: (2, 1, "r2"), 3: (0, 0, "r3")}


def test_describe_tells_what_is_under_replicated_and_offline(fake: FakeKafka, run: Run) -> None:
    fake.replicas[("lonely", 0)] = [2]
    fake.down = {2}
    facts = as_json(run, "describe")
    assert facts["under_replicated"] == ["lonely-0", "orders-0", "orders-1"]
    assert facts["offline"] == ["lonely-0"]
    assert {one["id"]: one["state"] for one in facts["brokers"]}[2] == "fenced or stopped"
    assert "✘ 3 under-replicated, 1 offline" in run("describe")[1]


def test_a_cluster_without_a_quorum_is_described_by_its_metadata(fake: FakeKafka, run: Run) -> None:
    """An older Kafka: Metadata up to version 8, no DescribeQuorum."""
    fake.versions = {int(ApiKey.API_VERSIONS): (0, 2), int(ApiKey.METADATA): (0, 8)}
    assert as_json(run, "describe")["controller"] == 1
    assert {version for _, message, version in fake.asked if isinstance(message, MetadataRequest)} == {8}


def test_a_broker_that_does_not_answer_is_passed_over(fake: FakeKafka, run: Run) -> None:
    fake.unreachable = {9091}
    assert run("describe")[0] == 0
    fake.unreachable = {9091, 9092}
    status, _, err = run("describe")
    assert status == 254 and "127.0.0.1:9091: Connection refused" in err and "127.0.0.1:9092" in err


# -- topics and quorum ---------------------------------------------------------------------------------------------


def test_topics_shows_all_that_is_known_of_a_topic_partition(fake: FakeKafka, run: Run) -> None:
    fake.behind, fake.eligible = {2}, [2]
    fake.moves[("orders", 0)], fake.looks = [1, 3], 99
    (topic,) = as_json(run, "topics", "orders")
    assert topic["configs"] == {"min.insync.replicas": "2"}, "only what was set for this topic"
    assert topic["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "leader_epoch": 7,
        "replicas": [1, 2],
        "isr": [1],
        "elr": [2],
        "last_known_elr": [],
        "adding_replicas": [3],
        "removing_replicas": [2],
        "start_offset": 10,
        "end_offset": 100,
    }
    assert topic["partitions"][1]["elr"] == [2], "the second page is asked for"
    assert "adding" in run("topics")[1]


def test_a_topic_that_is_not_there_is_told_with_the_nearest_name(run: Run) -> None:
    status, _, err = run("topics", "order")
    assert status == 254 and "no topic 'order'; did you mean `orders`?" in err


def test_quorum_shows_lag_behind_the_leader(run: Run) -> None:
    facts = as_json(run, "quorum")
    assert (facts["leader"], facts["leader_epoch"], facts["high_watermark"]) == (101, 4, 48)
    assert [one["lag"] for one in facts["voters"]] == [0, 2, None]
    assert [one["lag"] for one in facts["observers"]] == [10]
    assert "observer" in run("quorum")[1]


def test_quorum_of_a_cluster_that_has_none_is_refused(fake: FakeKafka, run: Run) -> None:
    del fake.versions[int(ApiKey.DESCRIBE_QUORUM)]
    status, _, err = run("quorum")
    assert status == 254 and "does not serve DescribeQuorum (API key 55)" in err


# -- reassign ------------------------------------------------------------------------------------------------------


def test_a_plan_is_printed_and_nothing_is_done_without_a_word(fake: FakeKafka, run: Run) -> None:
    status, out, err = run("reassign", "--topics", "orders", "--brokers", "2,3")
    assert status == 254 and "orders-0" in out and "give --yes" in err
    assert fake.messages(AlterPartitionReassignmentsRequest) == []


def test_a_plan_is_carried_out_and_waited_for(fake: FakeKafka, run: Run) -> None:
    status, out, _ = run("reassign", "--topics", "orders", "--brokers", "2,3", "--yes", "--wait")
    assert status == 0 and "✔ 2 topic-partitions are where they shall be" in out
    assert all(set(one) == {2, 3} for one in fake.replicas.values())
    status, out, _ = run("reassign", "--topics", "orders", "--brokers", "2,3")
    assert status == 0 and "nothing to move" in out


def test_a_saved_plan_can_be_carried_out_later(fake: FakeKafka, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert run("reassign", "--topics", "orders", "--brokers", "1,3", "--save", str(file))[0] == 0
    assert fake.messages(AlterPartitionReassignmentsRequest) == []
    assert run("reassign", str(file), "--yes", "--wait")[0] == 0
    assert all(set(one) == {1, 3} for one in fake.replicas.values())


def test_a_move_that_somebody_cancels_meanwhile_fails(fake: FakeKafka, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}')
    original, fake.looks = fake._list, 99

    def cancelled_after_a_look(request: Any) -> Any:
        answer = original(request)
        fake.moves.clear()
        return answer

    fake._list = cancelled_after_a_look  # type: ignore[method-assign]
    status, out, _ = run("reassign", str(file), "--yes", "--wait")
    assert status == 1 and "orders-0 has replicas 1,2, not 1,3: cancelled?" in out


def test_a_move_that_does_not_end_in_time_fails_and_goes_on(fake: FakeKafka, run: Run) -> None:
    fake.looks = 1_000_000
    status, out, _ = run("reassign", "--topics", "orders", "--brokers", "2,3", "--yes", "--wait", "--timeout", "1")
    assert status == 1 and "not over after 1 s" in out and fake.moves


def test_every_refusal_is_told(fake: FakeKafka, run: Run) -> None:
    fake.refusals = {("orders", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT, ("orders", 1): ErrorCode.POLICY_VIOLATION}
    status, _, err = run("reassign", "--topics", "orders", "--brokers", "2,3", "--yes")
    assert status == 254
    assert "orders-0 cannot be moved: INVALID_REPLICA_ASSIGNMENT" in err
    assert "orders-1 cannot be moved: POLICY_VIOLATION" in err


def test_moves_are_listed_and_cancelled(fake: FakeKafka, run: Run) -> None:
    fake.looks, fake.moves = 99, {("orders", 0): [1, 3], ("orders", 1): [3, 1]}
    assert [one["adding_replicas"] for one in as_json(run, "reassign", "--list")] == [[3], [3]]
    status, _, err = run("reassign", "--cancel")
    assert status == 254 and "give --yes" in err and len(fake.moves) == 2
    status, out, _ = run("reassign", "--cancel", "--topics", "orders", "--yes")
    assert status == 0 and "2 moves are cancelled" in out and not fake.moves
    assert "no topic-partition is being moved" in run("reassign", "--list")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "not said what shall move"),
        (("--topics", "orders"), "not said what shall move"),
        (("--topics", "orders", "--brokers", "1,x"), "--brokers 1,x: 'x' is not a broker id"),
        (("--topics", "orders", "--brokers", "1,7"), "broker 7 is not running"),
        (("--topics", "orders", "--brokers", "1"), "1 brokers cannot hold 2 replicas"),
        (("--list", "--cancel"), "--list stands alone"),
        (("--cancel", "--brokers", "1"), "--brokers has no meaning"),
        (("plan.json", "--topics", "orders"), "plan.json is a plan"),
        (("plan.json",), "plan.json: No such file"),
    ],
)
def test_wrong_usage_is_refused(run: Run, arguments: tuple[str, ...], said: str) -> None:
    status, _, err = run("reassign", *arguments)
    assert status == 254 and said in err


def test_a_plan_for_a_topic_partition_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"partitions": [{"topic": "orders", "partition": 9, "replicas": [1]}]}')
    status, _, err = run("reassign", str(file), "--yes")
    assert status == 254 and "orders has no topic-partition 9" in err and "it has 2, from 0" in err


@pytest.mark.parametrize("address", ["host:", ":9092", "host:0", "host:99999", "host:x", ","])
def test_an_address_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert status_of(["cluster", "describe", "--bootstrap", address]) == 254
    assert "--bootstrap" in capsys.readouterr().err


def test_two_places_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["cluster", "describe", "--bootstrap", "a:1", "--lab", "x"]) == 254
    assert "--bootstrap and --lab name two different places" in capsys.readouterr().err
