"""Operations listed one by one: done in their time, in order, by their process, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from squall.harness.errors import UsageError
from squall.harness.scenario.suite import read_suite
from squall.harness.yaml_source import parse_yaml
from squall.workloads.core.generator import Answer, Context, Generator, Pending
from squall.workloads.core.operation import OK, Completion, Event, Operation
from squall.workloads.core.scripted import ScriptedOperation, operation_at, scripted
from squall.workloads.log import LogOptions, LogWorkload
from tests.facts import naming

TOPICS = {"events": 2}
START = 7_000_000_000


def operations(*lines: str) -> tuple[ScriptedOperation, ...]:
    """`1.5 0 send events/0` as an operation."""
    made = []
    for line in lines:
        at, process, f, where = line.split()
        made.append(ScriptedOperation.model_validate({"at": at, "process": int(process), f: where}))
    return tuple(made)


def context(now_s: float, *busy: int, threads: int = 4) -> Context:
    mask = (1 << threads) - 1
    free = mask & ~sum(1 << thread for thread in busy)
    processes = {thread: thread for thread in range(threads)}
    return Context(START + round(now_s * 1e9), free, mask, processes, processes)


def ask(generator: Generator, at: Context) -> tuple[Answer, Generator]:
    return generator.op(at)


def test_an_operation_is_due_to_the_microsecond_and_not_before() -> None:
    _, generator = ask(scripted(operations("1.000001 0 send events/0"), frozenset(range(4))), context(0))
    answer, generator = ask(generator, context(1.0))
    assert answer == Pending(START + 1_000_001_000)
    answer, _ = ask(generator, context(1.000001))
    assert isinstance(answer, Operation)
    assert (answer.f, answer.topic, answer.partition, answer.at) == ("send", "events", 0, START + 1_000_001_000)


def test_simultaneous_operations_keep_the_files_order_and_the_list_ends() -> None:
    generator: Generator = scripted(operations("1s 2 send events/0", "1s 0 send events/0"), frozenset(range(4)))
    _, generator = ask(generator, context(0))
    first, generator = ask(generator, context(1))
    second, generator = ask(generator, context(1, 2))
    assert isinstance(first, Operation) and isinstance(second, Operation)
    assert (first.thread, second.thread) == (2, 0)
    assert ask(generator, context(1))[0] is None


def test_a_due_operation_waits_for_its_busy_process_and_delays_no_other() -> None:
    listed = operations("1s 0 send events/0", "2s 0 send events/0", "3s 1 send events/0")
    generator: Generator = scripted(listed, frozenset(range(4)))
    _, generator = ask(generator, context(0))
    answer, generator = ask(generator, context(1))
    assert isinstance(answer, Operation) and answer.thread == 0
    answer, generator = ask(generator, context(2, 0))
    assert answer == Pending(START + 3_000_000_000)
    answer, generator = ask(generator, context(3, 0))
    assert isinstance(answer, Operation) and answer.thread == 1
    answer, generator = ask(generator, context(3.5, 0))
    assert answer == Pending(None)
    answer, generator = ask(generator, context(4))
    assert isinstance(answer, Operation) and (answer.thread, answer.at) == (0, START + 2_000_000_000)


def test_values_are_unique_though_a_process_sends_many() -> None:
    listed = operations(*(f"1s {thread} send events/0" for thread in (0, 0, 1, 1)))
    generator: Generator = scripted(listed, frozenset(range(4)))
    _, generator = ask(generator, context(0))
    values = set()
    for _ in listed:
        answer, generator = ask(generator, context(2))
        assert isinstance(answer, Operation)
        values.add(answer.value)
        event = Event(answer, START, Completion(OK), START)
        generator = generator.update(context(2), event)
    assert len(values) == 4


def test_an_operation_that_was_recorded_is_due_again_at_the_same_microsecond() -> None:
    for due in (0, 1_000, 123_456_789_000, 59_999_999_000):
        assert operation_at(due, Operation("send", 3, 3, 0, due, "events", 1)).due == due


def test_a_seek_that_was_recorded_goes_to_the_same_offset_again() -> None:
    again = operation_at(1_000, Operation("seek", 3, 3, 0, 1_000, "events", 1, 17))
    assert (again.f, again.topic_partition, again.to) == ("seek", ("events", 1), 17)
    _, generator = ask(scripted((again,), frozenset({3})), context(0))
    answer, _ = ask(generator, context(2))
    assert isinstance(answer, Operation) and (answer.f, answer.value) == ("seek", 17)


def test_a_seek_says_where_to_and_nothing_else_does() -> None:
    for wrong in ({"seek": "events/0"}, {"poll": "events/0", "to": 3}):
        with pytest.raises(ValidationError, match=naming("`seek`", "`to`")):
            ScriptedOperation.model_validate({"at": "1s", "process": 0, **wrong})


def test_each_worker_does_the_operations_of_its_clients_and_no_others() -> None:
    options = LogOptions(
        producers=2, consumers=0, in_flight=1, operations=operations("1s 0 send events/0", "1s 3 send events/1")
    )
    workload = LogWorkload(options, TOPICS)
    shards = [workload.shard(worker, 2) for worker in range(2)]
    done = []
    for shard in shards:
        answer, after = shard.generator.op(context(0))
        answer, _ = after.op(context(1))
        assert isinstance(answer, Operation)
        done.append(answer.thread)
    assert done == [0, 3]


def test_places_and_threads_are_inverse() -> None:
    workload = LogWorkload(LogOptions(producers=3, consumers=2, in_flight=4), {"events": 3, "other": 2})
    for thread in range(3 * 5 * 4 + 2 * 5):
        place = workload.thread_place(thread)
        assert place is not None
        assert workload.thread_at(place) == thread
    assert workload.thread_place(3 * 5 * 4 + 2 * 5) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{at: 1s, process: 0}", "exactly one of"),
        ("{at: 1s, process: 0, send: events/0, poll: events/0}", "exactly one of"),
        ("{at: soon, process: 0, send: events/0}", "is not a time"),
        ("{at: 1s, process: 0, send: events}", "is not a topic-partition"),
        ("{at: 1s, process: 99, send: events/0}", "the workload has processes 0 to 3"),
        ("{at: 1s, process: 1, send: events/0}", "process 1 is for send events/1"),
        (
            "{at: 1s, process: 0, poll: events/0}",
            "is for send events/0, of producer 0; this is poll",
        ),
    ],
)
def test_an_operation_that_cannot_be_is_refused_with_its_line(line: str, problem: str) -> None:
    text = f"""scenario: some
cluster: {{topics: {{events: {{partitions: 2}}}}}}
fault_free: true
workload:
  producers: 1
  consumers: 1
  in_flight: 1
  operations:
    - {line}
"""
    with pytest.raises(UsageError, match=r"some\.yaml:9: ") as refused:
        read_suite(parse_yaml(text, "some.yaml"), Path("some.yaml"))
    assert problem in str(refused.value)


def test_operations_and_a_rate_are_too_much() -> None:
    text = "scenario: some\nfault_free: true\nworkload: {rate: 5/s, operations: []}\n"
    with pytest.raises(UsageError, match="either operations, which are done as listed, or rate"):
        read_suite(parse_yaml(text, "some.yaml"), Path("some.yaml"))


def test_a_strange_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        ScriptedOperation.model_validate({"at": 1, "process": 0, "send": "events/0", "valeu": 3})
