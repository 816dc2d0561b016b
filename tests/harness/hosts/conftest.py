"""One small lab for all tests that need hosts, and fresh connections into it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squall.harness.hosts.ssh import Remote
from squall.harness.lab.lab import Lab, private_lab
from tests.labs import need_lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A controller and two brokers, for the session; tests leave the hosts as they found them."""
    need_lab()
    with private_lab(controllers=1, brokers=2) as running:
        yield running


@pytest.fixture
def b1(lab: Lab) -> Iterator[Remote]:
    with Remote(lab.inventory().host("b1"), lab.network) as remote:
        yield remote


@pytest.fixture
def c1(lab: Lab) -> Iterator[Remote]:
    with Remote(lab.inventory().host("c1"), lab.network) as remote:
        yield remote
