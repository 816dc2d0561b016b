"""T1 to T4 of a transactional log, each in the smallest history that shows it; and against a plain search."""

from __future__ import annotations

import random
from itertools import chain, combinations, permutations

import pytest

from squall.results.checks.kernels.operations import FAIL, INFO, OK
from squall.results.checks.transactions.log_rules import LOG_SCHEMA, check_transactional_log
from squall.results.forge_log_transactions import Delivered, History, LogTransaction, Sent, log_table

A_FEW = 2_000
MANY = 100_000


def found_in(*history: LogTransaction) -> dict[str, int]:
    return check_transactional_log(log_table(history)).counts


WRITES = LogTransaction(1, 0, 10, (Sent(0, 7, 0), Sent(1, 8, 5)))
READS = LogTransaction(2, 20, 30, (), (Delivered(0, 0, 7),))


def test_a_record_of_a_committed_transaction_may_be_read() -> None:
    assert found_in(WRITES, READS) == {}


def test_a_record_of_an_aborted_transaction_may_not() -> None:
    aborted = LogTransaction(1, 0, 10, WRITES.sent, type=FAIL)
    assert found_in(aborted, READS) == {"aborted_read": 1}


def test_a_reader_of_uncommitted_records_may_read_it() -> None:
    aborted = LogTransaction(1, 0, 10, WRITES.sent, type=FAIL)
    assert found_in(aborted, LogTransaction(2, 20, 30, (), READS.polled, committed_only=False)) == {}


def test_bad_data_counts_in_whatever_transaction_it_was_delivered() -> None:
    aborted = LogTransaction(1, 0, 10, WRITES.sent, type=FAIL)
    for kind in (OK, FAIL, INFO):
        assert found_in(aborted, LogTransaction(2, 20, 30, (), READS.polled, type=kind)) == {"aborted_read": 1}


def test_a_record_in_another_partition_than_it_was_sent_to_is_a_phantom() -> None:
    assert found_in(WRITES, LogTransaction(2, 20, 30, (), (Delivered(3, 0, 7),))) == {"phantom": 1}


def test_one_record_read_shows_that_a_transaction_of_unknown_outcome_was_committed_whole() -> None:
    unknown = LogTransaction(1, 0, None, WRITES.sent, type=INFO)
    past = LogTransaction(3, 40, 50, (), (Delivered(1, 4, 1), Delivered(1, 6, 2)))
    others = LogTransaction(4, 0, 10, (Sent(1, 1, 4), Sent(1, 2, 6)))
    assert found_in(unknown, others, past) == {}
    assert found_in(unknown, others, past, READS) == {"lost_write": 1}


def test_two_polls_do_not_pass_by_what_lies_between_them() -> None:
    others = LogTransaction(4, 0, 10, (Sent(1, 1, 4), Sent(1, 2, 6)))
    one_poll = LogTransaction(3, 40, 50, (), (Delivered(1, 4, 1), Delivered(1, 6, 2)))
    two_polls = LogTransaction(3, 40, 50, (), (Delivered(1, 4, 1, 0), Delivered(1, 6, 2, 1)))
    assert found_in(WRITES, others, two_polls) == {}
    assert found_in(WRITES, others, one_poll) == {"lost_write": 1}


def test_a_final_read_must_have_what_was_committed_before_it() -> None:
    final = LogTransaction(9, 20, 30, (), (Delivered(0, 0, 7), Delivered(1, 0, 1)), final=True)
    other = LogTransaction(4, 0, 10, (Sent(1, 1, 0),))
    assert found_in(WRITES, other, final) == {"lost_write": 1}
    early = LogTransaction(9, 10, 30, (), final.polled, final=True)
    assert found_in(WRITES, other, early) == {}


def test_a_transaction_is_not_delivered_its_own_records() -> None:
    assert found_in(LogTransaction(1, 0, 10, (Sent(0, 7, 0),), (Delivered(0, 0, 7),))) == {"precommitted_read": 1}


def test_its_own_records_do_not_show_that_a_transaction_was_committed() -> None:
    unknown = LogTransaction(1, 0, None, WRITES.sent, (Delivered(0, 0, 7),), type=INFO)
    others = LogTransaction(4, 0, 10, (Sent(1, 1, 4), Sent(1, 2, 6)))
    past = LogTransaction(3, 40, 50, (), (Delivered(1, 4, 1), Delivered(1, 6, 2)))
    assert found_in(unknown, others, past) == {"precommitted_read": 1}


def test_a_record_is_passed_by_a_wide_step_although_another_reader_took_a_narrow_one() -> None:
    others = LogTransaction(4, 0, 10, tuple(Sent(1, 100 + offset, offset) for offset in (0, 2, 4, 10)))
    wide = LogTransaction(5, 20, 30, (), (Delivered(1, 0, 100), Delivered(1, 10, 110)))
    narrow = LogTransaction(6, 20, 30, (), (Delivered(1, 2, 102), Delivered(1, 4, 104)))
    assert found_in(WRITES, others, wide, narrow) == {"lost_write": 1}
    assert found_in(WRITES, others, narrow) == {}


def test_a_history_of_nothing_proves_nothing() -> None:
    assert check_transactional_log(LOG_SCHEMA.empty_table()).verdict == "unknown"
    assert check_transactional_log(log_table([WRITES])).verdict == "unknown"
    assert check_transactional_log(log_table([WRITES, READS])).verdict == "valid"


def test_a_value_sent_twice_makes_a_history_unusable() -> None:
    result = check_transactional_log(log_table([WRITES, LogTransaction(5, 0, 10, (Sent(4, 7, 0),)), READS]))
    assert result.verdict == "unknown"
    assert result.undecided == ("value 7 was sent twice; values must be unique",)


# Against a search -----------------------------------------------------------------------------------------------------


def explicable(history: History) -> bool:
    """Whether some of the unknown transactions can have been committed, and all commits put in one order, so that
    readers were delivered what had been committed, and nothing that was committed went missing.
    """
    unknown = [one for one in history if one.type == INFO]
    subsets = chain.from_iterable(combinations(unknown, size) for size in range(len(unknown) + 1))
    return any(_explained(history, [one for one in history if one.type == OK] + list(extra)) for extra in subsets)


def _explained(history: History, committed: History) -> bool:
    wrote = {(sent.partition, sent.value): one for one in committed for sent in one.sent}
    delivered: dict[tuple[int, int], list[LogTransaction]] = {}
    for reader in history:
        for record in reader.polled if reader.committed_only else ():
            place = (record.partition, record.value)
            if place not in wrote or wrote[place] is reader:
                return False
            delivered.setdefault(place, []).append(reader)
    for one in committed:
        known = [one.completed] if one.type == OK else []
        known += [
            reader.completed
            for sent in one.sent
            for reader in delivered.get((sent.partition, sent.value), [])
            if reader.type != INFO
        ]
        since = min((time for time in known if time is not None), default=1 << 60)
        for sent in one.sent:
            if (sent.partition, sent.value) not in delivered and any(_went_past(r, sent, since) for r in history):
                return False
    return any(_in_order(order, wrote) for order in permutations(committed))


def _went_past(reader: LogTransaction, sent: Sent, since: int) -> bool:
    if not reader.committed_only:
        return False
    here = [record for record in reader.polled if record.partition == sent.partition]
    if reader.final and here and reader.invoked > since:
        return True
    runs = {record.run for record in here}
    offsets = [[record.offset for record in here if record.run == run] for run in runs]
    return sent.offset is not None and any(min(each) < sent.offset < max(each) for each in offsets)


def _in_order(order: tuple[LogTransaction, ...], wrote: dict[tuple[int, int], LogTransaction]) -> bool:
    place = {id(one): at for at, one in enumerate(order)}
    for at, one in enumerate(order):
        if any(
            later.completed is not None and later.type == OK and later.completed < one.invoked
            for later in order[at + 1 :]
        ):
            return False
        if one.type == OK and one.committed_only:
            for record in one.polled:
                if place[id(wrote[record.partition, record.value])] > at:
                    return False
    return True


def random_log(rng: random.Random) -> History:
    """A few transactions with a few records, more or less as they should be."""
    count = rng.randrange(2, 5)
    kinds = [rng.choices((OK, INFO, FAIL), (7, 2, 1))[0] for _ in range(count)]
    ends = [0, 0]
    records: list[tuple[int, int, int, int]] = []  # partition, offset, value, writer
    for value in range(1, rng.randrange(3, 6)):
        partition, writer = rng.randrange(2), rng.randrange(count)
        records.append((partition, ends[partition], value, writer))
        ends[partition] += 1
    history = []
    for who in range(count):
        sent = tuple(
            Sent(partition, value, None if kinds[who] == INFO and rng.random() < 0.5 else offset)
            for partition, offset, value, writer in records
            if writer == who
        )
        visible = [one for one in records if one[3] != who and (kinds[one[3]] != FAIL or rng.random() < 0.05)]
        visible = [one for one in visible if rng.random() < 0.8] if rng.random() < 0.7 else []
        polled = tuple(Delivered(*one[:3], run=rng.randrange(2)) for one in visible)
        begun = rng.randrange(0, 30)
        history.append(
            LogTransaction(
                who,
                begun,
                None if kinds[who] == INFO else begun + rng.randrange(1, 20),
                sent,
                polled,
                kinds[who],
                committed_only=rng.random() < 0.9,
                final=not sent and rng.random() < 0.5,
            )
        )
    return history


def agree(seeds: range) -> dict[bool, int]:
    seen = {True: 0, False: 0}
    for seed in seeds:
        history = random_log(random.Random(seed))
        expected = explicable(history)
        found = found_in(*history)
        assert (not found) == expected, f"seed {seed}: the search says {expected}, the rules {found}: {history}"
        seen[expected] += 1
    return seen


def test_the_rules_agree_with_a_search_through_all_explanations() -> None:
    seen = agree(range(A_FEW))
    assert min(seen.values()) > A_FEW // 5, f"{seen}: too lopsided to mean much"


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_the_rules_agree_with_the_search_on_many_histories(part: int) -> None:
    size = MANY // 10
    agree(range(A_FEW + part * size, A_FEW + (part + 1) * size))
