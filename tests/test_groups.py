"""Tests that share a lab, a cluster or a user of the machine are run by one worker, one after the other.

pytest-xdist marks them by their node ids. A release of pytest once made it do so in vain: labs of the same name then
ran into each other, and what is set up once for a module was set up twice.
"""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="only where there are several workers")
@pytest.mark.xdist_group("togetherness")
def test_a_group_is_known_to_who_hands_tests_out(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith("@togetherness")
