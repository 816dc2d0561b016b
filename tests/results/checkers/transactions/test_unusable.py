"""Tables that are damaged, in every column and in many ways, have a verdict or a clear reason; no check crashes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from squall.results.checkers.groups.rules import check_groups
from squall.results.checkers.transactions.list_append import check_list_append, verdict_of
from squall.results.checkers.transactions.log_rules import check_transactional_log
from squall.results.history.table_schemas import LOG_OPTIONAL
from squall.results.synthetic.forge_groups import group_table, healthy_group
from squall.results.synthetic.forge_log_transactions import healthy_log, log_table
from squall.results.synthetic.forge_transactions import healthy_table

Judge = Callable[[pa.Table], tuple[str, tuple[str, ...]]]
DAMAGES = 60


def of_list_append(table: pa.Table) -> tuple[str, tuple[str, ...]]:
    result = check_list_append(table)
    return verdict_of(result, "strict-serializable"), result.undecided


def of_log(table: pa.Table) -> tuple[str, tuple[str, ...]]:
    result = check_transactional_log(table)
    return result.verdict, result.undecided


def of_groups(table: pa.Table) -> tuple[str, tuple[str, ...]]:
    result = check_groups(table)
    return result.verdict, result.undecided


HISTORIES: dict[str, tuple[pa.Table, Judge]] = {
    "list-append": (healthy_table(3, 60), of_list_append),
    "transactional log": (log_table(healthy_log(3)), of_log),
    "consumer group": (group_table(healthy_group(3)), of_groups),
}


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_column_that_is_gone_is_named(kind: str) -> None:
    table, judge = HISTORIES[kind]
    assert judge(table)[0] == "valid"
    for name in [one for one in table.column_names if one not in LOG_OPTIONAL]:
        verdict, reasons = judge(table.drop_columns([name]))
        assert verdict == "unknown", name
        assert name in reasons[0]


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_null_where_none_may_be_is_named(kind: str) -> None:
    table, judge = HISTORIES[kind]
    for place, field in enumerate(table.schema):
        if field.nullable:
            continue
        values = table[field.name].to_pylist()
        values[7] = None
        verdict, reasons = judge(table.set_column(place, field.name, pa.array(values, field.type)))
        assert verdict == "unknown", field.name
        assert field.name in reasons[0]


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_clock_whose_error_is_negative_is_refused(kind: str) -> None:
    """It would narrow the times in which something was done, and accuse who did nothing wrong."""
    table, judge = HISTORIES[kind]
    place = table.schema.get_field_index("clock_error")
    verdict, reasons = judge(table.set_column(place, "clock_error", pa.array([-1] * table.num_rows, pa.int64())))
    assert (verdict, reasons) == ("unknown", ("the error of a clock must not be negative",))


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_column_of_another_type_is_refused(kind: str) -> None:
    table, judge = HISTORIES[kind]
    for place, name in enumerate(table.column_names):
        texts = pa.array(["text"] * table.num_rows)
        verdict, reasons = judge(table.set_column(place, name, texts))
        assert verdict == "unknown", name
        assert reasons


@pytest.mark.parametrize("kind", HISTORIES)
def test_no_damage_makes_a_check_crash(kind: str) -> None:
    """Values exchanged, cut off, replaced by extremes or moved to other rows."""
    table, judge = HISTORIES[kind]
    for seed in range(DAMAGES):
        rng = random.Random(seed)
        place = rng.randrange(table.num_columns)
        field = table.schema.field(place)
        values = [damaged(rng, value) for value in table[field.name].to_pylist()]
        if rng.random() < 0.3:
            rng.shuffle(values)
        try:
            spoilt = table.set_column(place, field.name, pa.array(values, field.type))
        except (pa.ArrowException, OverflowError):
            continue  # such a value cannot be in a column of this type
        verdict, reasons = judge(spoilt)
        assert verdict in ("valid", "invalid", "unknown"), f"seed {seed}: {field.name}"
        assert verdict != "unknown" or reasons, f"seed {seed}: {field.name}"


def damaged(rng: random.Random, value: object) -> object:
    if rng.random() > 0.1:
        return value
    if isinstance(value, list):
        chance = rng.random()
        if chance < 0.3:
            return value[:-1]
        if chance < 0.6:
            return [damaged(rng, one) for one in value]
        return value + value[:1]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((-1, 0, 1, value + 1, value - 1, 2**31 - 1, 2**62, -(2**62)))
    return value
