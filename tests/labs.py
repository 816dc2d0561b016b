"""When a test may do without the lab: only where the lab cannot be had, never because it is broken."""

from __future__ import annotations

import os

import pytest

from squall.harness.errors import UsageError
from squall.harness.hosts.lab import check_machine


def need_lab() -> None:
    """The lab needs root: without it, skip; with it, that it cannot be had is a failure of ours.

    Raises:
        UsageError: this is root, and something is missing all the same.
    """
    try:
        check_machine()
    except UsageError as cannot:
        if os.geteuid() == 0:
            raise
        pytest.skip(f"the lab needs root: {cannot}")
