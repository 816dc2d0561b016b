"""When a test may do without the lab: only where the lab cannot be had, never because it is broken."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from squall.harness.errors import UsageError


def no_lab(cannot: UsageError) -> NoReturn:
    """The lab did not come up. It needs root: without it, skip; with it, that is a failure of ours."""
    if os.geteuid() == 0:
        raise cannot
    pytest.skip(f"the lab needs root: {cannot}")
