"""Witnesses of registers: small, provable, and in words that need no knowledge of the checker."""

from __future__ import annotations

import random

import numpy as np

from squall.results.checkers.registers.check import check_registers, steps_of
from squall.results.checkers.registers.operations import ABSENT, RegisterOperation, Registers, register_table
from squall.results.checkers.registers.search import READ, Budget, Start, State, Step, search
from squall.results.checkers.registers.window import smallest_window
from squall.results.history.segments import FaultWindow
from squall.results.synthetic.forge_registers import REGISTER_INJECTIONS
from squall.results.witnesses.register import tell_registers, value_text
from tests.results.checkers.registers.oracle import random_history

SECOND = 1_000_000_000


def test_a_stale_read_is_told_with_its_order_and_the_fault_at_the_time() -> None:
    history = [
        RegisterOperation("write", 1, SECOND, 2 * SECOND, value=5),
        RegisterOperation("write", 2, 3 * SECOND, 4 * SECOND, value=7, version=9),
        RegisterOperation("read", 3, 5 * SECOND, 6 * SECOND, found=7),
        RegisterOperation("read", 4, 7 * SECOND, 8 * SECOND, found=5),
    ]
    fault = FaultWindow(id="1", fault="isolate", targets=("c2",), summary="", injected=6 * SECOND, healed=9 * SECOND)
    (told,) = tell_registers(check_registers(register_table(history)), faults=(fault,))
    assert str(told).splitlines() == [
        "register r: a register showed a value that had been replaced before.",
        "  process 1 │ write of 5 acknowledged, begun at 1.000 s │ 2.000 s",
        "  process 2 │ write of 7 acknowledged, version 9, begun at 3.000 s │ 4.000 s",
        "  process 4 │ read 5, begun at 7.000 s │ 8.000 s",
        "  so │ the write of 5 had ended before the write of 7 began, so it comes first",
        "  so │ the write of 7 had ended before the read 5 began, so it comes first",
        "  under fault │ isolate c2 │ 6.0 s to 9.0 s",
        "  look for: reads from a replica that lags or from a deposed leader, or a change that was rolled back",
    ]


def test_what_the_register_held_before_is_told_where_a_search_found_it() -> None:
    history = [
        RegisterOperation("write", 1, 0, 1, value=5),
        RegisterOperation("write", 1, 2, 3, value=6),
        RegisterOperation("write", 1, 4, 5, value=5),
        RegisterOperation("cas", 2, 6, None, "info", value=8, expected=6),
        RegisterOperation("cas", 3, 6, 9, "fail", value=8, expected=7, refused=True),
        RegisterOperation("read", 1, 7, 8, found=ABSENT),
    ]
    (told,) = tell_registers(check_registers(register_table(history)))
    assert [(line.subject, line.text) for line in told.lines] == [
        ("before", "the register held 5 in every order of the earlier operations"),
        ("process 1", "read nothing, begun at 0.000 s"),
    ]


def test_values_read_as_people_know_them() -> None:
    assert [value_text(one) for one in (7, ABSENT, 4 << 40 | 93, None)] == ["7", "nothing", "4·93", "something"]


def test_every_forged_anomaly_is_told_in_few_lines() -> None:
    for name, case in REGISTER_INJECTIONS.items():
        for told in tell_registers(check_registers(register_table(case.history(3)))):
            assert told.title.startswith("register r"), name
            assert 2 <= len(str(told).splitlines()) <= 14, f"{name}: {told}"


def test_a_window_is_as_impossible_as_the_whole_and_each_of_its_reads_is_needed() -> None:
    seen = 0
    for seed in range(3000):
        columns = Registers.from_table(register_table(random_history(random.Random(seed))))
        steps = steps_of(columns, np.flatnonzero(columns.has_effect))
        if search(steps).linearizable is not False:
            continue
        found = smallest_window(steps)
        shown = [one for one in steps if one.row in found.rows]
        assert search(shown, found.before).linearizable is False, f"seed {seed}: {shown}"
        for one in found.steps:
            if one.kind == READ:
                rest = [other for other in found.steps if other is not one]
                assert search(rest, found.before).linearizable, f"seed {seed}: {one} of {found.steps} is not needed"
        seen += 1
    assert seen > 300


def test_a_window_in_a_long_history_is_small() -> None:
    case = REGISTER_INJECTIONS["impossible read of a repeated value"]
    result = check_registers(register_table(case.history(5, operations=2000)))
    (witness,) = result.witnesses
    assert len(witness.operations) <= 3


def test_a_search_may_begin_with_changes_already_spent() -> None:
    write, read = Step(1, 5, 0, ABSENT - 1, 0, np.iinfo(np.int64).max, 1), Step(0, 5, 0, ABSENT - 1, 2, 3, 2)
    assert search([write, read], [Start(State(ABSENT))]).linearizable
    assert search([write, read], [Start(State(ABSENT), frozenset({1}))]).linearizable is False


def test_the_cost_of_a_search_is_bounded_in_time() -> None:
    steps = [Step(1, number % 40, 0, ABSENT - 1, 0, 1000, number) for number in range(40)]
    steps += [Step(0, number, 0, ABSENT - 1, 0, 1000, 40 + number) for number in range(40)]
    steps.append(Step(0, 99, 0, ABSENT - 1, 1001, 1002, 99))
    outcome = search(steps, budget=Budget(steps=10**9, seconds=0.3))
    assert outcome.linearizable is None and outcome.most_open == 80
