"""Transactions of a list-append history that the checker decides per second, few and many open at a time.

A forged history of a million transactions (2.5 million appends and reads, some 17 million elements read), checked for
strict serializability from its Arrow columns to the result. Forging is not measured. The check runs on one core and
does nothing but compute; both wall time and processor time are reported, since only the latter is the same on a busy
machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pyarrow as pa

from squall.benchmarks.parts.measurement import ELLE, Measurement
from squall.results.checkers.transactions.list_append import check_list_append, verdict_of
from squall.results.synthetic.forge_transactions import healthy_table

TRANSACTIONS = 1_000_000
OPEN_AT_ONCE = (10, 50, 500)
RUNS = 5
SEED = 7
MUST_PER_S, STRETCH_PER_S = 150_000, 500_000


def per_second(table: pa.Table, runs: int = RUNS) -> tuple[list[float], list[float]]:
    """Transactions per second of wall time and of processor time, from several checks of the same history."""
    rates, processor = [], []
    for _ in range(runs):
        began, used = time.perf_counter(), time.process_time()
        result = check_list_append(table)
        rates.append(table.num_rows / (time.perf_counter() - began))
        processor.append(table.num_rows / (time.process_time() - used))
        assert verdict_of(result, "strict-serializable") == "valid", result.anomalies or result.undecided
    return rates, processor


def run(transactions: int = TRANSACTIONS) -> Iterator[Measurement]:
    """Measure a million transactions at each degree of concurrency."""
    for open_at_once in OPEN_AT_ONCE:
        table = healthy_table(SEED, transactions, processes=open_at_once)
        rates, processor = per_second(table)
        name = f"list-append, {open_at_once} open at a time"
        yield Measurement(
            name,
            statistics.median(rates),
            "transactions/s",
            must=MUST_PER_S,
            stretch=STRETCH_PER_S,
            samples=tuple(rates),
            peer=ELLE,
        )
        told = statistics.median(processor)
        yield Measurement(name, told, "transactions/s of one core", samples=tuple(processor))
