"""The workload `register`: what is done to which register by whom, and when the last reads are over."""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import ValidationError

from squall.workloads.core.generator import Context, Generator
from squall.workloads.core.operation import ABSENT, CAS, FAIL, INFO, OK, READ, WRITE, Completion, Event, Operation
from squall.workloads.log import final_states
from squall.workloads.register import RegisterOptions, Registers, RegisterWorkload


def workload(**options: object) -> RegisterWorkload:
    return RegisterWorkload(RegisterOptions.model_validate({"name": "register", **options}), {"keys": 1})


def context(now: int = 0, free: int = 0b1) -> Context:
    return Context(now, free, 0b1, {0: 0}, {0: 0})


def told(generator: Generator, operation: Operation, completion: Completion) -> Generator:
    return generator.update(context(), Event(operation, 0, completion, 1))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_thread_belongs_to_one_client_of_one_worker(workers: int) -> None:
    plan = workload(clients=4, in_flight=3, registers=5)
    shards = [plan.shard(worker, workers) for worker in range(workers)] + [plan.final_shard()]
    threads = [thread for shard in shards for client in shard.clients for thread in client.threads]
    assert sorted(threads) == list(range(plan.total_threads)) and plan.total_threads == 4 * 3 + 5


def test_operations_are_drawn_by_their_shares_over_all_registers() -> None:
    generator: Generator = Registers(("r0", "r1", "r2"), reads=0.5, compare=0.25)
    made = []
    for _ in range(1000):
        answer, generator = generator.op(context())
        assert isinstance(answer, Operation)
        made.append(answer)
    counts, registers = Counter(one.f for one in made), Counter(one.register for one in made)
    assert 430 < counts[READ] < 570 and 190 < counts[CAS] < 310 and 190 < counts[WRITE] < 310
    assert set(registers) == {"r0", "r1", "r2"} and min(registers.values()) > 250
    values = [one.value for one in made if one.f != READ]
    assert len(set(values)) == len(values)
    assert all(one.value is None and one.expected is None for one in made if one.f == READ)


def test_a_compare_and_set_expects_what_was_seen_last() -> None:
    generator: Generator = Registers(("r0",), reads=0.0, compare=1.0)
    first, generator = generator.op(context())
    assert isinstance(first, Operation) and first.expected == ABSENT
    for completion, expected in (
        (Completion(INFO), ABSENT),
        (Completion(FAIL, error="lost"), ABSENT),
        (Completion(FAIL, refused=True, found=17), 17),
        (Completion(OK), first.value),
    ):
        after = told(generator, first, completion)
        following, _ = after.op(context())
        assert isinstance(following, Operation) and following.expected == expected


def test_each_register_is_read_until_that_succeeds() -> None:
    plan = workload(clients=1, in_flight=1, registers=1)
    generator = plan.final_shard().generator
    thread = Context(0, 0b10, 0b10, {1: 1}, {1: 1})
    for outcome in (Completion(FAIL, error="late"), Completion(OK, found=3)):
        answer, generator = generator.op(thread)
        assert isinstance(answer, Operation) and (answer.f, answer.register) == (READ, "r0")
        assert not final_states(generator)[0].complete
        generator = generator.update(thread, Event(answer, 0))
        generator = generator.update(thread, Event(answer, 0, outcome, 1))
    assert generator.op(thread)[0] is None
    assert [(one.topic, one.complete) for one in final_states(generator)] == [("r0", True)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"reads": 0.7, "compare": 0.4}, "together more than 1"),
        ({"client": "confluent"}, "program"),
        ({"program": {"command": [], "answer": "soon"}}, "is not a time, such as 10s"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        workload(**options)
