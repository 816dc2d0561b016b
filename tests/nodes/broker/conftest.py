"""The world of broker tests, started."""

from __future__ import annotations

import pytest

from tests.nodes.broker.world import World


@pytest.fixture
def world() -> World:
    """Broker 1, registered, unfenced and serving, beside brokers 2 and 3."""
    made = World()
    made.start()
    return made
