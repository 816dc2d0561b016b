"""Operations on registers that the checker decides per second of one core, few and many open at a time.

A forged history of a million operations, half of them reads, three tenths writes and the rest compare-and-sets, written
values unique; once on a single register and once spread over ten thousand; five, fifty and a thousand of them open at a
time; once with values only and once with the version in every response. Measured is the whole check, from an Arrow
table to its result, in seconds of processor time: it runs on one core and does nothing but compute. Forging is not
measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from squall.benchmarks.parts.measurement import Measurement
from squall.results.checkers.registers.check import check_registers
from squall.results.checkers.registers.operations import ABSENT, CAS, READ, WRITE
from squall.results.history.table_schemas import REGISTER_SCHEMA

OPERATIONS = 1_000_000
REGISTERS = (1, 10_000)
OPEN_AT_ONCE = (5, 50, 1000)
RUNS = 3
SEED = 7
SPACING_NS = 1000
MUST_PER_S, STRETCH_PER_S = 500_000, 1_200_000


def forged_table(operations: int, registers: int, open_at_once: int, *, versions: bool, seed: int = SEED) -> pa.Table:
    """A healthy history: operations take effect one after the other, at a time between invocation and completion."""
    random = np.random.default_rng(seed)
    register = random.integers(0, registers, operations)
    f = random.choice(np.array([READ, WRITE, CAS], np.int8), operations, p=(0.5, 0.3, 0.2))
    effect = np.sort(random.integers(0, operations * SPACING_NS, operations))
    before, after = (random.integers(0, open_at_once * SPACING_NS, operations) for _ in range(2))
    held, version = _effects(register.tolist(), f.tolist(), registers)
    nothing = f == READ
    columns = {
        "op_id": np.arange(operations),
        "process": np.arange(operations) % max(1, open_at_once),
        "register": pa.DictionaryArray.from_arrays(
            pa.array(register, pa.int32()), pa.array([f"r{number}" for number in range(registers)])
        ),
        "f": f,
        "type": np.zeros(operations, np.int8),
        "invoked": effect - before,
        "completed": effect + after,
        "value": pa.array(np.arange(1, operations + 1), mask=nothing),
        "expected": pa.array(held, mask=f != CAS),
        "found": pa.array(held, mask=~nothing),
        "version": pa.array(version, mask=np.full(operations, not versions)),
        "refused": np.zeros(operations, np.bool_),
        "error": pa.nulls(operations, pa.string()),
        "clock_id": np.zeros(operations, np.int16),
        "clock_error": np.zeros(operations, np.int64),
    }
    return pa.table([pa.array(columns[name]) for name in REGISTER_SCHEMA.names], schema=REGISTER_SCHEMA)


def _effects(register: list[int], f: list[int], registers: int) -> tuple[np.ndarray, np.ndarray]:
    """The value that each operation found, and the version after it."""
    value, version = [ABSENT] * registers, [0] * registers
    met, told = [], []
    for number, (one, kind) in enumerate(zip(register, f, strict=True), 1):
        met.append(value[one])
        if kind != READ:
            value[one] = number
            version[one] += 1
        told.append(version[one])
    return np.array(met), np.array(told)


def per_second(table: pa.Table, runs: int = RUNS) -> list[float]:
    """Operations per second of processor time, from several checks of the same history."""
    rates = []
    for _ in range(runs):
        began = time.process_time()
        result = check_registers(table)
        rates.append(table.num_rows / (time.process_time() - began))
        assert result.verdict == "valid" and result.checked == table.num_rows, result
    return rates


def run() -> Iterator[Measurement]:
    """Measure every combination of registers and concurrency, with and without versions."""
    for registers in REGISTERS:
        for open_at_once in OPEN_AT_ONCE:
            for versions in (False, True):
                table = forged_table(OPERATIONS, registers, open_at_once, versions=versions)
                rates = per_second(table)
                name = f"{registers} registers, {open_at_once} open, {'with' if versions else 'without'} versions"
                yield Measurement(
                    name,
                    statistics.median(rates),
                    "operations/s and core",
                    must=MUST_PER_S,
                    stretch=STRETCH_PER_S,
                    samples=tuple(rates),
                )
