"""The low watermark: what a leader knows to be deleted on every live replica (DP-07)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.nodes.mutants import HEALTHY
from squall.nodes.replication.log_start import LogStart
from squall.nodes.replication.remote import RemoteReplica


class View:
    """Broker 2 is registered with this broker epoch, and unfenced or not."""

    def __init__(self, epoch: int | None = 50, *, eligible: bool = True) -> None:
        self._epoch, self._eligible = epoch, eligible

    def broker_epoch(self, broker: int) -> int | None:
        return self._epoch

    def is_eligible(self, broker: int) -> bool:
        return self._eligible


def low_watermark(view: View, *, fetched_with: int | None, reported: int = 45) -> int:
    """Of a leader whose log begins at 48, and of broker 2, which has reported in this incarnation, if at all."""
    follower = RemoteReplica(2)
    if fetched_with is not None:
        follower.fetched(0, 60, 60, fetched_with)
        follower.log_start_offset = reported
    log: Any = SimpleNamespace(start_offset=48)
    return LogStart(log, HEALTHY).low_watermark([follower], view)


@pytest.mark.parametrize("epoch", [50, -1])
def test_it_is_the_least_log_start_of_the_live_replicas(epoch: int) -> None:
    assert low_watermark(View(), fetched_with=epoch) == 45
    assert low_watermark(View(), fetched_with=epoch, reported=49) == 48


def test_a_follower_that_has_not_fetched_has_not_reported() -> None:
    assert low_watermark(View(), fetched_with=None) == -1
    assert low_watermark(View(eligible=False), fetched_with=None) == 48


def test_what_an_earlier_incarnation_reported_does_not_count() -> None:
    """Seed 991096 of worlds: the broker had lost its disk since, and had everything again that was deleted."""
    assert low_watermark(View(51), fetched_with=50) == -1
    assert low_watermark(View(51, eligible=False), fetched_with=50) == 48


def test_metadata_may_be_behind_the_follower() -> None:
    assert low_watermark(View(49), fetched_with=50) == 45
    assert low_watermark(View(None), fetched_with=50) == 45
