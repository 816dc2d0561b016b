"""Batches of values alone are, byte for byte, those that are built record by record, and read back the same."""

from __future__ import annotations

from random import Random

import pytest

from squall.nodes.protocol.errors import ProtocolError
from squall.nodes.protocol.records import Record, build_batch, control_key, parse_records, seal
from squall.nodes.protocol.value_batches import _usual_values, build_value_batch, parse_values

LENGTHS = (0, 1, 50, 56, 57, 58, 63, 64, 65, 300, 7999, 8000, 8001, 20_000)


def slowly(values: list[bytes], timestamp: int) -> bytearray:
    return build_batch([Record(value=value) for value in values], timestamp=timestamp)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_batch_of_one_value_of_any_length_is_the_same_both_ways(length: int) -> None:
    values = [bytes(length)]
    batch = build_value_batch(values, 1_700_000_000_000)
    assert batch == slowly(values, 1_700_000_000_000)
    assert parse_values(batch) == (bytes(length),)


@pytest.mark.parametrize("seed", range(10))
def test_large_batches_are_the_same_both_ways(seed: int) -> None:
    rng = Random(seed)
    values = [rng.randbytes(rng.choice((0, 40, 41, 60, 130, 200))) for _ in range(rng.choice((1, 65, 8193, 9000)))]
    batch = build_value_batch(values, 5)
    assert batch == slowly(values, 5)
    assert _usual_values(batch) == parse_values(batch) == tuple(values)


@pytest.mark.parametrize(
    "records",
    [
        [Record(value=b"v", timestamp=1), Record(value=b"w", timestamp=900)],
        [Record(key=b"k", value=b"v")],
        [Record(value=None)],
        [Record(value=b"v", headers=(("h", b"x"),))],
        [Record(key=control_key(2), value=b"v")],
    ],
)
def test_other_records_are_left_to_the_general_parser(records: list[Record]) -> None:
    batch = build_batch(records)
    assert _usual_values(batch) is None or records[0].timestamp == 1
    assert parse_values(batch) == tuple(record.value or b"" for record in parse_records(batch))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_batches_are_read_or_refused_as_the_general_parser_does(seed: int) -> None:
    rng = Random(seed)
    values = [rng.randbytes(rng.choice((0, 5, 41, 70))) for _ in range(rng.randrange(1, 80))]
    for _ in range(50):
        batch = build_value_batch(values, 5)
        for _ in range(rng.randrange(1, 3)):
            batch[rng.randrange(61, len(batch))] = rng.choice((0, 1, 2, 10, 0x7F, 0x80, 0xFF))
        seal(batch)
        try:
            expected: object = tuple(record.value or b"" for record in parse_records(batch))
        except ProtocolError:
            expected = None
        try:
            found: object = parse_values(batch)
        except ProtocolError:
            found = None
        assert found == expected
