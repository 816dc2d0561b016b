"""Client programs by JSON lines: commands go in, outcomes come out, and an error names its cause."""

from __future__ import annotations

import json
import queue
import sys
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from squall.harness.errors import UsageError
from squall.harness.gallery.core.clients import ClientProgram
from squall.harness.gallery.core.entry import Client
from squall.harness.gallery.core.trouble import NotReproduced
from squall.harness.gallery.kafka import librdkafka_program
from squall.harness.gallery.kafka.librdkafka_program import Load, Program, read_commands
from squall.harness.gallery.kafka.programs import command_of, settings_of
from tests.facts import naming

ECHO = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    op, do = command["op"], command["do"]
    if do == "open":
        print(json.dumps({"op": op, "client": "echo 1.0"}), flush=True)
    elif do == "send":
        values = range(command["first"], command["first"] + command["each"] * len(command["partitions"]))
        for at, value in enumerate(values):
            fate = {"type": "ok", "offset": at} if at % 2 == 0 else {"type": "info", "error": "timed out"}
            partition = command["partitions"][at % len(command["partitions"])]
            row = {"op": op, "value": value, "partition": partition, "invoked": 1, "completed": 2, **fate}
            print(json.dumps(row), flush=True)
    elif do == "stop":
        print(json.dumps({"op": op, "error": "no such load"}), flush=True)
    elif do == "close":
        sys.exit("the disk is full")
"""


def program(tmp_path: Path, source: str = ECHO) -> ClientProgram:
    return ClientProgram([sys.executable, "-c", source], tmp_path / "client.log")


def test_each_record_gets_its_fate_and_values_are_never_given_twice(tmp_path: Path) -> None:
    with program(tmp_path) as client:
        assert client.open({}) == "echo 1.0"
        first = client.send("a", [0, 1], each=2)
        second = client.send("b", [7])
        assert [(one.topic, one.partition, one.type) for one in client.wait_for(first, 4, 10)] == [
            ("a", 0, "ok"),
            ("a", 1, "info"),
            ("a", 0, "ok"),
            ("a", 1, "info"),
        ]
        client.wait_for(second, 1, 10)
        values = [one.value for one in client.sent]
        assert len(values) == len(set(values)) == 5
        assert {one.error for one in client.sent} == {None, "timed out"}


def test_a_record_without_a_fate_in_time_ends_the_reproduction(tmp_path: Path) -> None:
    with program(tmp_path) as client:
        operation = client.send("a", [0])
        client.wait_for(operation, 1, 10)
        with pytest.raises(NotReproduced, match="only 1 of 2 sends"):
            client.wait_for(operation, 2, 0.1)


def test_what_a_program_refuses_is_told(tmp_path: Path) -> None:
    with program(tmp_path) as client, pytest.raises(NotReproduced, match=naming("stop", "no such load")):
        client.stop(1)


def test_a_program_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    with program(tmp_path) as client:
        with pytest.raises(NotReproduced, match=naming("ended", "the disk is full")):
            client.close()
        with pytest.raises(NotReproduced, match="ended"):
            client.wait_for(99, 1, 10)


def test_a_line_that_is_no_answer_is_told(tmp_path: Path) -> None:
    with program(tmp_path, "print('hello')") as client, pytest.raises(NotReproduced, match="no answer"):
        client.open({})


def test_what_a_program_said_before_it_ended_is_told_to_who_asks_it_too_late(tmp_path: Path) -> None:
    with program(tmp_path, "print('hello')") as client:
        client._process.wait(10)
        with pytest.raises(NotReproduced, match="no answer"):
            client.open({})


class FakeProducer:
    """Calls back at the next poll."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.waiting: list[Any] = []
        self.sent: list[tuple[str, int, bytes]] = []

    def produce(self, topic: str, content: bytes, *, partition: int, on_delivery: Any) -> None:
        self.sent.append((topic, partition, content))
        self.waiting.append((on_delivery, len(self.sent) - 1))

    def poll(self, seconds: float) -> None:
        for report, offset in self.waiting:
            report(None, type("Message", (), {"offset": lambda _, offset=offset: offset})())
        self.waiting.clear()

    def flush(self, seconds: float) -> None:
        self.poll(seconds)

    def init_transactions(self, seconds: float) -> None:
        self.transactions: list[str] = []

    def begin_transaction(self) -> None:
        self.transactions.append("begin")

    def commit_transaction(self, seconds: float) -> None:
        self.transactions.append("commit")
        if "refuse" in self.settings:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(48))

    def abort_transaction(self, seconds: float) -> None:
        self.transactions.append("abort")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> tuple[Program, list[dict[str, Any]]]:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(librdkafka_program.confluent_kafka, "Producer", FakeProducer)
    one = Program(given.append)
    one.step({"op": 1, "do": "open", "settings": {"acks": "all"}})
    return one, given


def test_the_librdkafka_program_fills_records_up_and_reports_offsets(
    answers: tuple[Program, list[dict[str, Any]]],
) -> None:
    one, given = answers
    assert given[0]["client"].startswith("librdkafka ")
    one.step({"op": 2, "do": "send", "topic": "a", "partitions": [3, 4], "each": 2, "first": 10, "size": 6})
    fates = [(row["value"], row["partition"], row["type"], row["offset"]) for row in given if "value" in row]
    assert fates == [(10, 3, "ok", 0), (11, 4, "ok", 1), (12, 3, "ok", 2), (13, 4, "ok", 3)]
    assert all(row["invoked"] <= row["completed"] for row in given if "value" in row)
    assert one._producer.sent[0] == ("a", 3, b"10    ")  # type: ignore[union-attr]


def test_what_is_open_at_the_close_ends_as_info(answers: tuple[Program, list[dict[str, Any]]]) -> None:
    one, given = answers
    one._producer.poll = lambda seconds: None  # type: ignore[union-attr, method-assign]  # nothing is delivered
    one.step({"op": 2, "do": "send", "topic": "a", "partitions": [0], "each": 1, "first": 1, "size": 0})
    one.step({"op": 3, "do": "close"})
    assert [(row["value"], row["type"]) for row in given if "value" in row] == [(1, "info")]
    assert given[-1] == {"op": 3, "done": True}


@pytest.mark.parametrize(
    ("end", "settings", "fates"),
    [
        ("commit", {}, [("ok", 0), ("ok", 1)]),
        ("abort", {}, [("fail", None), ("fail", None)]),
        ("commit", {"refuse": "yes"}, [("info", None), ("info", None)]),
    ],
)
def test_records_share_the_fate_of_their_transaction(
    monkeypatch: pytest.MonkeyPatch, end: str, settings: dict[str, str], fates: list[tuple[str, int | None]]
) -> None:
    """A record that the broker has acknowledged is not committed, and has no outcome before its transaction ends."""
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(librdkafka_program.confluent_kafka, "Producer", FakeProducer)
    one = Program(given.append)
    one.step({"op": 1, "do": "open", "settings": {"transactional.id": "t", **settings}})
    one.step({"op": 2, "do": "begin"})
    one.step({"op": 3, "do": "send", "topic": "a", "partitions": [0, 1], "each": 1, "first": 7, "size": 0})
    assert [row["appended"] for row in given if "appended" in row] == [7, 8]
    assert not [row for row in given if "value" in row]
    one.step({"op": 4, "do": end})
    assert [(row["type"], row.get("offset")) for row in given if "value" in row] == fates
    assert ("error" in given[-1]) == bool(settings), "the command itself failed, or not"


def test_a_record_within_a_transaction_can_be_waited_for(tmp_path: Path) -> None:
    source = ECHO.replace('if do == "open"', 'if do == "position"').replace('"client": "echo 1.0"', '"done": True')
    told = source.replace(
        'elif do == "send":', 'elif do == "send":\n        print(json.dumps({"op": op, "appended": 1}))'
    )
    with program(tmp_path, told) as client:
        client.position("g", "a", 0, 5)
        client.wait_until_appended(client.send("a", [0]), 1, 10)
        with pytest.raises(NotReproduced, match="only 1 of 2 records of a transaction"):
            client.wait_until_appended(2, 2, 0.1)


def test_the_librdkafka_program_names_what_it_does_not_know(answers: tuple[Program, list[dict[str, Any]]]) -> None:
    one, given = answers
    one.step({"op": 9, "do": "dance"})
    assert given[-1]["op"] == 9 and "dance" in given[-1]["error"]


def test_a_load_is_due_at_its_rate_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(librdkafka_program.time, "monotonic", lambda: now[0])
    load = Load({"partitions": [0, 1], "rate": 10, "first": 100})
    assert load.due() == []
    now[0] = 0.35
    assert load.due() == [(0, 100), (1, 101), (0, 102)]
    assert load.due() == []
    now[0] = 0.4
    assert load.due() == [(1, 103)]


def test_commands_come_in_order_and_end() -> None:
    commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    read_commands([json.dumps({"op": 1}), json.dumps({"op": 2})], commands)
    assert [commands.get(), commands.get(), commands.get()] == [{"op": 1}, {"op": 2}, None]


def test_another_version_than_the_installed_one_is_refused() -> None:
    with pytest.raises(UsageError, match=naming("1.0.0", "is installed")):
        command_of(Client(name="librdkafka", version="1.0.0"))
    with pytest.raises(UsageError, match=naming("9.9.9", "4.1.1", "4.1.2")):
        command_of(Client(name="java", version="9.9.9"))


def test_settings_of_an_entry_take_precedence() -> None:
    client = Client(name="librdkafka", version="2.16.0", settings={"acks": "1", "linger.ms": "0"})
    assert settings_of(client, "h:1") == {"bootstrap.servers": "h:1", "acks": "1", "linger.ms": "0"}
