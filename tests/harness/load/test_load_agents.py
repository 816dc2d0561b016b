"""Load workers that faults are aimed at have to be on hosts of their own."""

from __future__ import annotations

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.targets import refuse_without_clients


def test_a_client_fault_without_client_hosts_is_refused_with_a_remedy() -> None:
    with pytest.raises(UsageError) as refused:
        refuse_without_clients("asleep.yaml", "inventory.yaml", [])
    assert "pause-clients needs load workers on client hosts; inventory.yaml has no client" in str(refused.value)
    assert "cluster: {clients: 1}" in str(refused.value)


def test_with_one_it_is_not() -> None:
    refuse_without_clients("asleep.yaml", "inventory.yaml", ["load1"])
