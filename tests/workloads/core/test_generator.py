"""Generators as specifications: driven by hand, without a clock, a client or a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from squall.workloads.core.generator import (
    NANOSECONDS,
    SEEK_BACK,
    Answer,
    Context,
    Generator,
    GeneratorError,
    InOrder,
    Limit,
    Mix,
    OneAtATime,
    Pending,
    Phases,
    Rate,
    Reads,
    Reserve,
    Seeks,
    Stagger,
    TimeLimit,
    Until,
    Validated,
    Writes,
    acknowledged,
    each_thread,
    random_fraction,
    threads_mask,
    until_acknowledged,
)
from squall.workloads.core.operation import INFO, OK, SEND, Completion, Event, Operation


def context(now: int = 0, free: int = 0b1111, threads: int = 0b1111, last: int = -1) -> Context:
    processes = {thread: thread for thread in range(4)}
    return Context(now, free, threads, processes, dict.fromkeys(range(4), 7), last)


def simulate(generator: Generator, *, seconds: float = 10, latency: float = 0.01, threads: int = 4) -> list[Operation]:
    """Perfect clients that answer ok after `latency`: the operations a generator makes, in order."""
    now, free = 0, (1 << threads) - 1
    everyone = free
    open_operations: list[tuple[int, Event]] = []
    made: list[Operation] = []
    last = -1
    while now < seconds * NANOSECONDS:
        answer, after = generator.op(context(now, free, everyone, last))
        if isinstance(answer, Operation):
            made.append(answer)
            last = answer.thread
            free &= ~(1 << answer.thread)
            event = Event(answer, now)
            generator = after.update(context(now, free, everyone, last), event)
            open_operations.append((now + int(latency * NANOSECONDS), event))
            continue
        due = [at for at, _ in open_operations]
        if isinstance(answer, Pending):
            generator = after
            if answer.until is not None:
                due.append(answer.until)
        if not due:
            return made
        now = max(now, min(due))
        for at, event in [one for one in open_operations if one[0] <= now]:
            open_operations.remove((at, event))
            free |= 1 << event.operation.thread
            done = replace(event, completion=Completion(OK, offset=1), completed=at)
            generator = generator.update(context(now, free, everyone, last), done)
    return made


def test_values_are_unique_and_name_their_process() -> None:
    made = simulate(Limit(100, Writes("events", 0)))
    assert len({operation.value for operation in made}) == 100
    assert all(operation.value is not None and operation.value >> 40 == operation.process for operation in made)


def test_work_goes_round_among_free_threads() -> None:
    made = simulate(Limit(8, Reads("events", 0)))
    assert [operation.thread for operation in made] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_seek_goes_back_to_what_somebody_has_read_and_not_too_far() -> None:
    """Seek. Where to is counted, so that it is the same again."""
    generator: Generator = Seeks("events", 0, seed=7)
    context = Context(now=0, free=0b1, threads=0b1, processes={0: 0}, clients={0: 0})
    nowhere, _ = generator.op(context)
    assert isinstance(nowhere, Operation) and (nowhere.f, nowhere.value) == ("seek", 0), "nothing has been read"
    poll = Operation("poll", 0, 0, 0, 0, "events", 0)
    for offsets in ((4997, 4998, 4999), (3, 4), ()):
        generator = generator.update(context, Event(poll, 0, Completion("ok", offsets=offsets), 1))
    sought = []
    for _ in range(200):
        answer, generator = generator.op(context)
        assert isinstance(answer, Operation) and answer.value is not None
        sought.append(answer.value)
    assert 5000 - SEEK_BACK <= min(sought) < 5000 - SEEK_BACK / 2 and 5000 - SEEK_BACK / 2 < max(sought) <= 4999


def test_nothing_is_asked_of_a_busy_thread() -> None:
    answer, _ = Writes("events", 0).op(context(free=0))
    assert answer == Pending()


def test_limit_ends_after_that_many_operations() -> None:
    assert len(simulate(Limit(5, Reads("events", 0)))) == 5


def test_an_answer_not_carried_out_leaves_no_trace() -> None:
    generator = Limit(1, Writes("events", 0))
    first, _ = generator.op(context())
    again, _ = generator.op(context())
    assert first == again


def test_rate_keeps_intended_times_however_slow_the_system_is() -> None:
    made = simulate(Limit(20, Rate(10, Writes("events", 0))), latency=1.0)
    assert [operation.at for operation in made] == [index * NANOSECONDS // 10 for index in range(20)]


def test_rate_does_not_run_ahead_of_time() -> None:
    made = simulate(Rate(10, Writes("events", 0)), seconds=1, latency=0.001)
    assert len(made) == 10


def test_rate_forgets_load_that_nobody_could_have_offered() -> None:
    generator: Generator = Rate(10, Writes("events", 0), patience=2 * NANOSECONDS)
    first, generator = generator.op(context(0))
    late, _ = generator.op(context(60 * NANOSECONDS))
    assert isinstance(first, Operation) and isinstance(late, Operation)
    assert late.at == 59 * NANOSECONDS


def test_stagger_has_the_mean_it_was_given_and_repeats_with_its_seed() -> None:
    made = simulate(Stagger(0.01, 3, Reads("events", 0)), seconds=20, latency=0.0001)
    assert 1700 < len(made) < 2300
    assert made == simulate(Stagger(0.01, 3, Reads("events", 0)), seconds=20, latency=0.0001)


def test_time_limit_starts_with_the_first_question() -> None:
    generator: Generator = TimeLimit(5, Reads("events", 0))
    _, generator = generator.op(context(100 * NANOSECONDS))
    answer, _ = generator.op(context(104 * NANOSECONDS))
    assert isinstance(answer, Operation)
    answer, _ = generator.op(context(105 * NANOSECONDS))
    assert answer is None


def test_time_limit_wakes_up_for_its_own_end() -> None:
    answer, _ = TimeLimit(5, Reads("events", 0)).op(context(free=0))
    assert answer == Pending(5 * NANOSECONDS)


def test_phases_wait_for_all_threads_in_between() -> None:
    generator: Generator = Phases((Limit(1, Writes("a", 0)), Limit(1, Writes("b", 0))))
    first, generator = generator.op(context())
    assert isinstance(first, Operation) and first.topic == "a"
    waiting, generator = generator.op(context(free=0b1110))
    assert waiting == Pending()
    second, _ = generator.op(context())
    assert isinstance(second, Operation) and second.topic == "b"


def test_in_order_does_not_wait() -> None:
    generator: Generator = InOrder((Limit(1, Writes("a", 0)), Limit(1, Writes("b", 0))))
    _, generator = generator.op(context())
    second, _ = generator.op(context(free=0b1110))
    assert isinstance(second, Operation) and second.topic == "b"


def test_until_ends_at_the_first_event_that_satisfies_it() -> None:
    made = simulate(Until(acknowledged, Reads("events", 0)), latency=0.5)
    assert len(made) == 4, "four threads were asked before the first answer came"


def test_markers_are_fresh_values_one_at_a_time_until_one_is_acknowledged() -> None:
    generator = until_acknowledged("events", 0)
    first, generator = generator.op(context())
    assert isinstance(first, Operation)
    generator = generator.update(context(), Event(first, 0))
    waiting, generator = generator.op(context(free=0b1110))
    assert waiting == Pending()
    generator = generator.update(context(), Event(first, 0, Completion(INFO), 1))
    second, generator = generator.op(context())
    assert isinstance(second, Operation) and second.value != first.value
    generator = generator.update(context(), Event(second, 0, Completion(OK, offset=4), 1))
    assert generator.op(context())[0] is None


def test_mix_uses_all_of_its_generators_and_repeats_with_its_seed() -> None:
    generator = Mix(5, (Reads("a", 0), Reads("b", 0), Reads("c", 0)))
    topics = [operation.topic for operation in simulate(Limit(300, generator))]
    assert all(70 < topics.count(topic) < 130 for topic in "abc")
    assert topics == [operation.topic for operation in simulate(Limit(300, generator))]


def test_mix_goes_on_with_the_others_when_one_is_exhausted() -> None:
    generator = Mix(5, (Limit(1, Reads("a", 0)), Limit(20, Reads("b", 0))))
    assert len(simulate(generator)) == 21


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: Limit(3, inner),
        lambda inner: TimeLimit(3.0, inner),
        lambda inner: Rate(3, inner),
        lambda inner: Mix(5, (Reads("b", 0), inner)),
    ],
)
def test_updates_reach_the_inner_generator_and_change_only_if_it_changes(around: Any) -> None:
    event = Event(Operation(SEND, 0, 0, 7, 0, "a", 0, 1), 0)
    unmoved = around(Reads("a", 0))
    assert unmoved.update(context(), event) is unmoved
    moved = around(OneAtATime(Reads("a", 0), open=False))
    assert moved.update(context(), event) == around(OneAtATime(Reads("a", 0), open=True))


def test_reserve_keeps_every_share_on_its_own_threads() -> None:
    generator = Reserve(((0b0011, Limit(10, Writes("a", 0))), (0b1100, Limit(10, Writes("b", 0)))))
    for operation in simulate(generator):
        assert (operation.thread < 2) == (operation.topic == "a")


def test_a_share_without_free_threads_does_not_hold_up_the_others() -> None:
    generator = Reserve(((0b0011, Writes("a", 0)), (0b1100, Writes("b", 0))))
    answer, _ = generator.op(context(free=0b1000))
    assert isinstance(answer, Operation) and answer.topic == "b"


def test_reserve_waits_for_the_earliest_of_its_shares() -> None:
    generator: Generator = Reserve(((0b0001, Rate(1, Reads("a", 0))), (0b0010, Rate(4, Reads("b", 0)))))
    for _ in range(2):
        _, generator = generator.op(context())
    answer, _ = generator.op(context())
    assert answer == Pending(NANOSECONDS // 4)


def test_each_thread_gets_a_generator_of_its_own() -> None:
    made = simulate(each_thread(range(4), lambda thread: Limit(thread, Reads("events", thread))))
    assert [sum(operation.thread == thread for operation in made) for thread in range(4)] == [0, 1, 2, 3]


def test_threads_mask_sets_a_bit_per_thread() -> None:
    assert threads_mask((0, 3)) == 0b1001


class Broken:
    """Answers the same operation whatever the context says."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    def op(self, context: Context) -> tuple[Operation, Broken]:
        return self.operation, self

    def update(self, context: Context, event: Event) -> Broken:
        return self


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        (Operation("send", 3, 3, 7, 0), "not free"),
        (Operation("send", 0, 9, 7, 0), "is process 0"),
        (Operation("send", 0, 0, 7, 5), "later than now"),
        (Operation("sned", 0, 0, 7, 0), "unknown function"),
    ],
)
def test_a_broken_generator_is_stopped(operation: Operation, complaint: str) -> None:
    with pytest.raises(GeneratorError, match=complaint):
        Validated(Broken(operation)).op(context(free=0b0111))


@dataclass(frozen=True)
class AsksEverybody:
    """What `Reserve` must be indistinguishable from: every share is asked every time."""

    shares: tuple[tuple[int, Generator], ...]
    turn: int = 0

    def op(self, context: Context) -> tuple[Answer, Generator]:
        until: list[int] = []
        exhausted = True
        shares = list(self.shares)
        for step in range(len(shares)):
            index = (self.turn + step) % len(shares)
            threads, generator = shares[index]
            answer, after = generator.op(context.only(threads))
            if answer is None:
                continue
            exhausted = False
            shares[index] = (threads, after)
            if isinstance(answer, Operation):
                return answer, AsksEverybody(tuple(shares), (index + 1) % len(shares))
            until += [] if answer.until is None else [answer.until]
        if exhausted:
            return None, self
        return Pending(min(until, default=None)), AsksEverybody(tuple(shares), self.turn)

    def update(self, context: Context, event: Event) -> Generator:
        bit = 1 << event.operation.thread
        shares = tuple(
            (threads, generator.update(context.only(threads), event) if threads & bit else generator)
            for threads, generator in self.shares
        )
        return AsksEverybody(shares, self.turn)


@pytest.mark.parametrize("seed", range(12))
def test_a_reserve_that_asks_only_on_change_makes_the_same_operations(seed: int) -> None:
    kinds = (
        lambda index: Rate(1 + random_fraction(seed, index) * 7, Writes("a", index)),
        lambda index: Limit(int(random_fraction(seed, index + 9) * 8), Reads("a", index)),
        lambda index: until_acknowledged("a", index),
        lambda index: TimeLimit(random_fraction(seed, index + 5) * 4, Rate(3, Writes("a", index))),
        lambda index: Stagger(0.3, seed + index, Reads("a", index)),
    )
    shares = tuple((1 << index, kinds[(seed + index) % len(kinds)](index)) for index in range(4))
    assert simulate(Reserve(shares), seconds=5) == simulate(AsksEverybody(shares), seconds=5)


def test_a_reserve_ends_when_the_last_of_its_shares_has_ended() -> None:
    shares = ((0b0001, until_acknowledged("a", 0)), (0b0010, until_acknowledged("b", 0)))
    generator: Generator = Reserve(shares)
    for thread in (0, 1):
        answer, generator = generator.op(context(thread, 0b0011, 0b0011))
        assert isinstance(answer, Operation)
        generator = generator.update(context(thread, 0b0011 & ~(1 << answer.thread), 0b0011), Event(answer, thread))
    answer, generator = generator.op(context(2, 0, 0b0011))
    assert isinstance(answer, Pending)
    for thread, topic in ((0, "a"), (1, "b")):
        assert generator.op(context(3, 0b0011, 0b0011))[0] is not None
        operation = Operation("marker", thread, thread, 7, 0, topic, 0, 1)
        done = Event(operation, 0, Completion(OK, offset=1), 3)
        generator = generator.update(context(3, 0b0011, 0b0011), done)
    assert generator.op(context(4, 0b0011, 0b0011))[0] is None
