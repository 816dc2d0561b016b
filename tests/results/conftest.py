"""Fixtures of the results room: check operations without a run, and one Spark session for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from squall.results.checks.partition import Task, check_table
from squall.results.checks.result import PartitionResult
from squall.results.checks.spark import SparkEngine
from squall.results.forge import ORIGIN, Forged, rows_of
from squall.results.history import SegmentHeader, history_of, joined

Check = Callable[..., PartitionResult]


@pytest.fixture
def check() -> Check:
    """Check operations of events-0 as if a segment had held them."""

    def checked(operations: list[Forged], *, linearizable_reads: bool = False) -> PartitionResult:
        rows = enumerate(rows_of(operations), 2)
        history = history_of([joined(Path("segment"), SegmentHeader("test", 0), rows)], 0, Path("history"))
        task = Task(0, "", "events", 0, (), ORIGIN, 10**9, ORIGIN + 10**9, linearizable_reads)
        return check_table(task, history.of("events", 0))

    return checked


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(cache=tmp_path_factory.mktemp("spark"), class_sharing=False) as engine:
        yield engine
