"""The workload `log`: who does what with which threads, and when a final read is complete."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from squall.workloads.core.generator import Context, Generator
from squall.workloads.core.operation import FINAL_POLL, INFO, MARKER, OK, Completion, Event, Operation
from squall.workloads.log import LogOptions, LogWorkload, final_states

TOPICS = {"events": 3, "other": 1}


def workload(**options: object) -> LogWorkload:
    return LogWorkload(LogOptions.model_validate({"producers": 3, "consumers": 2, **options}), TOPICS)


def context_of(plan: LogWorkload, threads: int, now: int = 0) -> Context:
    processes = {thread: thread for thread in range(plan.total_threads)}
    return Context(now, threads, threads, processes, dict.fromkeys(processes, 0))


@pytest.mark.parametrize(("written", "rate"), [("2000/s", 2000.0), ("120/min", 2.0), (50, 50.0), ("7", 7.0)])
def test_rates_are_written_as_people_write_them(written: object, rate: float) -> None:
    assert LogOptions.model_validate({"rate": written}).rate == rate


def test_a_rate_without_meaning_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a rate"):
        LogOptions.model_validate({"rate": "fast"})


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_thread_belongs_to_one_client_of_one_worker(workers: int) -> None:
    plan = workload()
    shards = [plan.shard(worker, workers) for worker in range(workers)] + [plan.final_shard()]
    threads = [thread for shard in shards for client in shard.clients for thread in client.threads]
    assert sorted(threads) == list(range(plan.total_threads))
    clients = [client.client for shard in shards for client in shard.clients]
    assert len(set(clients)) == len(clients)


def test_a_topic_partition_without_answers_does_not_starve_the_others() -> None:
    plan = workload(producers=1, consumers=0, in_flight=2, rate=4000)
    shard = plan.shard(0, 1)
    free = sum(1 << thread for client in shard.clients for thread in client.threads)
    generator: Generator = shard.generator
    hit: dict[tuple[str | None, int | None], int] = {}
    now = 0
    for _ in range(200):
        answer, generator = generator.op(context_of(plan, free, now))
        now += 1_000_000
        if isinstance(answer, Operation):
            where = (answer.topic, answer.partition)
            hit[where] = hit.get(where, 0) + 1
            if where == ("events", 1):
                free &= ~(1 << answer.thread)
    assert hit.pop(("events", 1)) == 2
    assert len(hit) == 3 and all(count > 20 for count in hit.values())


def test_the_final_read_of_a_topic_partition_ends_at_its_acknowledged_marker() -> None:
    plan = LogWorkload(LogOptions(producers=1, consumers=1), {"events": 1})
    shard = plan.final_shard()
    free = sum(1 << thread for client in shard.clients for thread in client.threads)
    generator: Generator = shard.generator

    def answer_with(completion: Completion, expected: str) -> None:
        nonlocal generator
        operation, generator = generator.op(context_of(plan, free))
        assert isinstance(operation, Operation) and operation.f == expected
        generator = generator.update(context_of(plan, free), Event(operation, 0))
        generator = generator.update(context_of(plan, free), Event(operation, 0, completion, 1))

    answer_with(Completion(INFO, error="message_timed_out"), MARKER)
    answer_with(Completion(OK, offset=41), MARKER)
    answer_with(Completion(OK, offsets=(0, 40), values=(1, 2)), FINAL_POLL)
    assert not final_states(generator)[0].complete
    answer_with(Completion(OK, offsets=(41, 42), values=(3, 4)), FINAL_POLL)
    state = final_states(generator)[0]
    assert (state.marker_offset, state.complete) == (41, True)
    assert generator.op(context_of(plan, free))[0] is None


def final_read_of(completions: Sequence[Completion]) -> list[str]:
    """The final operations that are answered so, and whether all was read then."""
    plan = LogWorkload(LogOptions(producers=1, consumers=1), {"events": 1})
    generator: Generator = plan.final_shard().generator
    free = sum(1 << thread for client in plan.final_shard().clients for thread in client.threads)
    done: list[str] = []
    for completion in completions:
        operation, generator = generator.op(context_of(plan, free))
        assert isinstance(operation, Operation)
        done.append(operation.f)
        generator = generator.update(context_of(plan, free), Event(operation, 0))
        generator = generator.update(context_of(plan, free), Event(operation, 0, completion, 1))
    return [*done, "complete" if final_states(generator)[0].complete else "incomplete"]


def test_a_final_read_writes_another_marker_if_retention_removes_one_before_it_is_read() -> None:
    """Without it, nothing would show what was lost: `worlds` seed 1029767."""
    removed = [Completion(OK, offset=41), Completion(OK, position=42, log_start=42)]
    read = [Completion(OK, offset=42), Completion(OK, offsets=(42,), values=(9,))]
    assert final_read_of([*removed, *read]) == [MARKER, FINAL_POLL, MARKER, FINAL_POLL, "complete"]
    assert final_read_of([*removed, *read[:1]]) == [MARKER, FINAL_POLL, MARKER, "incomplete"]
    begins_at_it = [Completion(OK, offset=41), Completion(OK, position=41, log_start=41)]
    assert final_read_of([*begins_at_it, *read[1:]]) == [MARKER, FINAL_POLL, FINAL_POLL, "complete"]


def test_a_final_read_ends_if_every_marker_is_removed_at_once() -> None:
    """By retention, under a clock that was set: `worlds` seed 999133."""
    each = [(Completion(OK, offset=at), Completion(OK, position=at + 1, log_start=at + 1)) for at in (41, 42, 43)]
    answers = [completion for one in each for completion in one]
    assert final_read_of(answers) == [*[MARKER, FINAL_POLL] * 3, "complete"]


def test_final_reads_give_up_in_time_and_say_that_they_are_incomplete() -> None:
    plan = LogWorkload(LogOptions(final_timeout=5), {"events": 1})
    shard = plan.final_shard()
    free = sum(1 << thread for client in shard.clients for thread in client.threads)
    _, generator = shard.generator.op(context_of(plan, free))
    answer, generator = generator.op(context_of(plan, free, now=6_000_000_000))
    assert answer is None
    assert not final_states(generator)[0].complete


def test_producers_without_acks_all_are_not_idempotent_but_markers_are() -> None:
    plan = workload(acks="1")
    assert not plan.shard(0, 1).clients[0].idempotent
    markers = plan.final_shard().clients[0]
    assert markers.acks == "all" and markers.idempotent


def test_producers_have_as_many_batches_in_flight_as_the_option_says() -> None:
    assert {plan.batches_in_flight for plan in workload().shard(0, 1).clients} == {1}
    plans = workload(batches_in_flight=5).shard(0, 1).clients
    assert {plan.batches_in_flight for plan in plans if plan.role == "producer"} == {5}


@pytest.mark.parametrize("batches", [0, 6])
def test_more_batches_in_flight_than_brokers_remember_are_refused(batches: int) -> None:
    with pytest.raises(ValidationError, match="batches_in_flight"):
        LogOptions.model_validate({"batches_in_flight": batches})
