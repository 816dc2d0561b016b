"""The register benchmark forges a healthy history of the concurrency it names, and checks all of it."""

from __future__ import annotations

import numpy as np
import pytest

from squall.benchmarks.registers import forged_table, per_second


@pytest.mark.parametrize("versions", [False, True])
def test_a_forged_table_is_decided_whole(versions: bool) -> None:
    table = forged_table(2_000, 7, 20, versions=versions)
    assert all(rate > 0 for rate in per_second(table, runs=2))


def test_as_many_operations_are_open_at_a_time_as_it_says() -> None:
    table = forged_table(20_000, 3, 50, versions=False)
    invoked, completed = np.asarray(table["invoked"]), np.asarray(table["completed"])
    moments = np.linspace(invoked.max() * 0.3, invoked.max() * 0.6, 50)
    open_now = [int(((invoked <= moment) & (completed >= moment)).sum()) for moment in moments]
    assert 40 < np.mean(open_now) < 60
