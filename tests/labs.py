"""When a test may do without the lab: only where the lab cannot be had, never because it is broken."""

from __future__ import annotations

import os

import pytest

from squall.harness.lab.lab_requirements import check_machine


def need_lab() -> None:
    """Tests want the whole lab, which needs root: without it, skip; with it, that it cannot be had is our failure.

    What a lab is without root, tests/harness/lab/test_rootless_lab.py tries.

    Raises:
        UsageError: this is root, and something is missing all the same.
    """
    if os.geteuid() != 0:
        pytest.skip("the whole lab needs root")
    check_machine()
