"""`--wait` stands alone or with a number of seconds, wherever it stands."""

from __future__ import annotations

import math

import pytest

from squall.harness.errors import UsageError
from squall.harness.terminal.lock_options import WITHOUT_END, seconds_to_wait, with_wait


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["a.yaml"], ["a.yaml"]),
        (["a.yaml", "--wait"], ["a.yaml", "--wait", WITHOUT_END]),
        (["--wait", "a.yaml"], ["--wait", WITHOUT_END, "a.yaml"]),
        (["--wait", "--seed", "3"], ["--wait", WITHOUT_END, "--seed", "3"]),
        (["a.yaml", "--wait", "600"], ["a.yaml", "--wait", "600"]),
        (["a.yaml", "--wait=600"], ["a.yaml", "--wait=600"]),
    ],
)
def test_wait_may_stand_alone(typed: list[str], meant: list[str]) -> None:
    assert with_wait(typed) == meant


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), (WITHOUT_END, math.inf), ("600", 600.0), ("0", 0.0), ("1.5", 1.5)]
)
def test_seconds_to_wait(given: str | None, seconds: float | None) -> None:
    assert seconds_to_wait(given) == seconds


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "inf", "1m"])
def test_what_is_no_number_of_seconds_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match=f"--wait={given}: must be a number of seconds, such as 600"):
        seconds_to_wait(given)
