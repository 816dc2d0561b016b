"""Fixtures of the results room: check operations without a run, and one Spark session for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from squall.results.checkers.engine.spark import SparkEngine
from squall.results.checkers.log.result import PartitionResult
from squall.results.synthetic.forge_catalogue import checked_log

Check = Callable[..., PartitionResult]


@pytest.fixture
def check() -> Check:
    """Check operations of events-0 as if a segment had held them."""
    return checked_log


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(cache=tmp_path_factory.mktemp("spark"), class_sharing=False) as engine:
        yield engine
