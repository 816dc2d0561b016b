"""What lasts is walked over by the garbage collector once at most: after a long pass, and after many records."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from squall.nodes.server.memory import FreezeAfterLongPass, FreezeReplayed


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("long_pass_s", "frozen"), [(0.0, True), (60.0, False)])
def test_only_survivors_of_a_long_pass_are_frozen(long_pass_s: float, frozen: bool) -> None:
    gc.unfreeze()
    heard = FreezeAfterLongPass(long_pass_s)
    gc.callbacks.append(heard)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(heard)
    assert (gc.get_freeze_count() > 1_000) == frozen


def test_passes_over_the_young_freeze_nothing() -> None:
    gc.unfreeze()
    heard = FreezeAfterLongPass(0.0)
    gc.callbacks.append(heard)
    try:
        gc.collect(0)
        gc.collect(1)
    finally:
        gc.callbacks.remove(heard)
    assert gc.get_freeze_count() == 0


def test_what_many_replayed_records_leave_is_never_walked_over() -> None:
    freeze = FreezeReplayed(records=100)
    for offset, frozen in [(99, False), (100, True), (199, False), (350, True)]:
        gc.unfreeze()
        freeze(offset)
        assert (gc.get_freeze_count() > 0) == frozen, offset
